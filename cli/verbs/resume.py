"""``kubectl seiretsu resume``: lets a queue or a Workload that was stopped go on."""

from __future__ import annotations

from api import names, resources
from cli.verbs.group import group
from cli.verbs.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from cli.verbs.session import NameArgument, Session, verb
from cli.verbs.stop import change


@verb("resume", writes=True)
def cluster_queue(opened: Session, name: NameArgument) -> None:
    """Resume a ClusterQueue: it admits workloads again."""
    spec = {"stopPolicy": names.StopPolicy.NONE}
    change(opened, resources.CLUSTER_QUEUES, name, spec, "resumed")


@verb("resume", namespaced=True, writes=True)
def local_queue(opened: Session, name: NameArgument) -> None:
    """Resume a LocalQueue: its workloads are admitted again."""
    spec = {"stopPolicy": names.StopPolicy.NONE}
    change(opened, resources.LOCAL_QUEUES, name, spec, "resumed")


@verb("resume", namespaced=True, writes=True)
def workload(opened: Session, name: NameArgument) -> None:
    """Resume a Workload: it is active, and waits for admission."""
    change(opened, resources.WORKLOADS, name, {"active": True}, "resumed")


app = group([(WORKLOAD, workload), (LOCAL_QUEUE, local_queue), (CLUSTER_QUEUE, cluster_queue)])
