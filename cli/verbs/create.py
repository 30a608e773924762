"""``kubectl seiretsu create``: ClusterQueues, LocalQueues and ResourceFlavors from options, as kueuectl makes them."""

from __future__ import annotations

from typing import Annotated

import typer

from api import names, resources
from api.objects import Raw, Resource
from cli.verbs.group import group
from cli.verbs.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from cli.verbs.quotas import pairs, resource_groups, taints, tolerations
from cli.verbs.session import NameArgument, Session, one, verb

QUOTA_FORM = "FLAVOR:RESOURCE=QUANTITY[;...]"


@verb("create", writes=True)
def cluster_queue(
    opened: Session,
    name: NameArgument,
    cohort: Annotated[str, typer.Option("--cohort", help="The cohort that it belongs to.")] = "",
    queuing_strategy: Annotated[
        str, typer.Option("--queuing-strategy", help="BestEffortFIFO or StrictFIFO.")
    ] = names.QueueingStrategy.BEST_EFFORT_FIFO,
    namespace_selector: Annotated[
        list[str] | None,
        typer.Option("--namespace-selector", help="Labels of the namespaces that may use it: KEY=VALUE,..."),
    ] = None,
    reclaim_within_cohort: Annotated[
        str, typer.Option("--reclaim-within-cohort", help="Never, LowerPriority or Any.")
    ] = "Never",
    preemption_within_cluster_queue: Annotated[
        str,
        typer.Option("--preemption-within-cluster-queue", help="Never, LowerPriority or LowerOrNewerEqualPriority."),
    ] = "Never",
    nominal_quota: Annotated[
        list[str] | None, typer.Option("--nominal-quota", metavar=QUOTA_FORM, help="Its quota.")
    ] = None,
    borrowing_limit: Annotated[
        list[str] | None, typer.Option("--borrowing-limit", metavar=QUOTA_FORM, help="How much it may borrow at most.")
    ] = None,
    lending_limit: Annotated[
        list[str] | None,
        typer.Option("--lending-limit", metavar=QUOTA_FORM, help="How much of it others may borrow at most."),
    ] = None,
) -> None:
    """Create a ClusterQueue."""
    groups = resource_groups(nominal_quota or [], borrowing_limit or [], lending_limit or [])
    labels = pairs("namespace-selector", namespace_selector or [])
    spec: Raw = {
        **({"cohortName": cohort} if cohort else {}),
        "queueingStrategy": queuing_strategy,
        "namespaceSelector": {"matchLabels": labels} if labels else {},
        "preemption": {
            "reclaimWithinCohort": reclaim_within_cohort,
            "withinClusterQueue": preemption_within_cluster_queue,
        },
        **({"resourceGroups": groups} if groups else {}),
    }
    _create(opened, resources.CLUSTER_QUEUES, {"name": name}, spec)


@verb("create", namespaced=True, writes=True)
def local_queue(
    opened: Session,
    name: NameArgument,
    clusterqueue: Annotated[str, typer.Option("--clusterqueue", "-c", help="The ClusterQueue that it uses.")],
    ignore_unknown_cq: Annotated[
        bool, typer.Option("--ignore-unknown-cq", "-i", help="Create it even if there is no such ClusterQueue.")
    ] = False,
) -> None:
    """Create a LocalQueue."""
    if not ignore_unknown_cq:
        one(opened.client, resources.CLUSTER_QUEUES, "", clusterqueue)
    metadata = {"name": name, "namespace": opened.namespace}
    spec = {"clusterQueue": clusterqueue}
    _create(opened, resources.LOCAL_QUEUES, metadata, spec)


@verb("create", writes=True)
def resource_flavor(
    opened: Session,
    name: NameArgument,
    node_labels: Annotated[
        list[str] | None, typer.Option("--node-labels", help="Labels of its nodes: KEY=VALUE,...")
    ] = None,
    node_taints: Annotated[
        list[str] | None, typer.Option("--node-taints", help="Taints of its nodes: KEY[=VALUE]:EFFECT,...")
    ] = None,
    extra_tolerations: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerations", help="What admitted pods tolerate in addition: KEY[=VALUE][:EFFECT],... or :EFFECT"
        ),
    ] = None,
) -> None:
    """Create a ResourceFlavor."""
    fields = {
        "nodeLabels": pairs("node-labels", node_labels or []),
        "nodeTaints": taints(node_taints or []),
        "tolerations": tolerations(extra_tolerations or []),
    }
    spec = {name: value for name, value in fields.items() if value}
    _create(opened, resources.RESOURCE_FLAVORS, {"name": name}, spec)


app = group([(CLUSTER_QUEUE, cluster_queue), (LOCAL_QUEUE, local_queue), (RESOURCE_FLAVOR, resource_flavor)])


def _create(opened: Session, resource: Resource, metadata: Raw, spec: Raw) -> None:
    made: Raw = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    opened.wrote(made if opened.dry_run == "client" else opened.client.create(resource, made), "created")
