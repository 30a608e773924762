"""``kubectl seiretsu stop``: holds a queue or a Workload; ``resume`` is the opposite, with the same write."""

from __future__ import annotations

from typing import Annotated

import typer

from api import names, resources
from api.objects import Raw, Resource
from cli.target import FailedError
from cli.verbs.group import group
from cli.verbs.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from cli.verbs.session import NameArgument, Session, not_found, one, verb
from controller.kube.errors import ApiError

KeepRunning = Annotated[
    bool,
    typer.Option("--keep-already-running", help="Let admitted workloads run; else they are evicted and wait again."),
]


@verb("stop", writes=True)
def cluster_queue(
    opened: Session,
    name: NameArgument,
    keep_already_running: KeepRunning = False,
) -> None:
    """Stop a ClusterQueue: it admits nothing, and what runs is evicted."""
    spec = {"stopPolicy": stop_policy(keep_already_running)}
    change(opened, resources.CLUSTER_QUEUES, name, spec, "stopped")


@verb("stop", namespaced=True, writes=True)
def local_queue(
    opened: Session,
    name: NameArgument,
    keep_already_running: KeepRunning = False,
) -> None:
    """Stop a LocalQueue: its workloads are not admitted, and those that run are evicted."""
    spec = {"stopPolicy": stop_policy(keep_already_running)}
    change(opened, resources.LOCAL_QUEUES, name, spec, "stopped")


@verb("stop", namespaced=True, writes=True)
def workload(opened: Session, name: NameArgument) -> None:
    """Stop a Workload: it is deactivated, and evicted if it runs."""
    change(opened, resources.WORKLOADS, name, {"active": False}, "stopped")


app = group([(WORKLOAD, workload), (LOCAL_QUEUE, local_queue), (CLUSTER_QUEUE, cluster_queue)])


def stop_policy(keep_already_running: bool) -> str:
    """Returns the stop policy of a queue that is stopped."""
    return names.StopPolicy.HOLD if keep_already_running else names.StopPolicy.HOLD_AND_DRAIN


def change(opened: Session, resource: Resource, name: str, spec: Raw, verb: str) -> None:
    """Merges a part of a spec into an object, and prints what was written."""
    where = opened.namespace if resource.namespaced else ""
    if opened.dry_run == "client":
        found = one(opened.client, resource, where, name)
        changed = found | {"spec": {**(found.get("spec") or {}), **spec}}
    else:
        try:
            changed = opened.client.merge(resource, where, name, {"spec": spec})
        except ApiError as error:
            if error.status != 404:
                raise
            raise FailedError(not_found(opened.client, resource, where, name)) from None
    opened.wrote(changed, verb)
