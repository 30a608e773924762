"""The live view of Jobs in queues: one row for each Job, one bar for each ClusterQueue.

Separate from the demo because it is pure: it converts raw objects into rows and renderables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from api import names, quantity
from api.objects import Raw
from core.model.messages import WAITS

STYLES = {"waiting": "yellow", "running": "green", "finished": "dim", "failed": "red"}
BAR = 24  # cells of a usage bar


@dataclass(frozen=True)
class Row:
    """A Job as the board shows it."""

    namespace: str
    job: str
    state: str  # waiting, running, finished or failed
    pods: str
    note: str


@dataclass(frozen=True)
class ShownUsage:
    """A ClusterQueue's use of one resource of one flavor, in base units; ``borrowed`` is part of ``used``."""

    queue: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    pending: int


def condition(obj: Raw, kind: str) -> Raw:
    """Returns the condition of that type, or nothing."""
    found = [c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


def holds(obj: Raw, kind: str) -> bool:
    """Whether the condition of that type is True."""
    return condition(obj, kind).get("status") == "True"


def rows(jobs: Iterable[Raw], workloads: Iterable[Raw], events: Iterable[Raw] = ()) -> list[Row]:
    """One row for each Job, oldest first."""
    by_owner = {ref["uid"]: w for w in workloads for ref in w["metadata"].get("ownerReferences", [])}
    reasons = {e["involvedObject"].get("uid"): e["message"] for e in events if e.get("message", "").startswith(WAITS)}
    ordered = sorted(jobs, key=lambda j: (j["metadata"]["creationTimestamp"], j["metadata"]["uid"]))
    return [row(job, by_owner.get(job["metadata"]["uid"]), reasons.get(job["metadata"]["uid"], "")) for job in ordered]


def row(job: Raw, workload: Raw | None, event: str = "") -> Row:
    """Returns the state of one Job, with the reason if it waits: from its Workload's status, else from an event on the
    Job.
    """
    status, meta = job.get("status", {}), job["metadata"]
    wanted = job["spec"].get("parallelism", 1)
    if holds(job, "Complete") or holds(job, "Failed"):
        state = "finished" if holds(job, "Complete") else "failed"
        return Row(meta["namespace"], meta["name"], state, f"{status.get('succeeded', 0)} done", "")
    if not job["spec"].get("suspend", False):
        return Row(meta["namespace"], meta["name"], "running", f"{status.get('active', 0)}/{wanted}", "")
    reserved = condition(workload or {}, names.Condition.QUOTA_RESERVED)
    reason = reserved.get("message", "") if reserved.get("status") == "False" else ""
    return Row(meta["namespace"], meta["name"], "waiting", f"0/{wanted}", reason or event.partition(": ")[2])


def usages(queues: Iterable[Raw], resource: str) -> list[ShownUsage]:
    """Each ClusterQueue's use of a resource, summed over its flavors."""
    found = []
    for queue in sorted(queues, key=lambda q: q["metadata"]["name"]):
        spec, status = queue["spec"], queue.get("status", {})
        nominal = sum(
            quantity.amount(resource, r["nominalQuota"])
            for group in spec.get("resourceGroups", [])
            for flavor in group["flavors"]
            for r in flavor["resources"]
            if r["name"] == resource
        )
        taken = [r for f in status.get("flavorsReservation", []) for r in f["resources"] if r["name"] == resource]
        used, borrowed = (sum(quantity.amount(resource, r.get(k, "0")) for r in taken) for k in ("total", "borrowed"))
        pending = status.get("pendingWorkloads", 0)
        found.append(ShownUsage(queue["metadata"]["name"], resource, nominal, used, borrowed, pending))
    return found


def bar(usage: ShownUsage, scale: int) -> Text:
    """Returns a queue's usage drawn to scale: own quota used, borrowed, own quota unused."""

    def cells(amount: int) -> int:
        return round(BAR * amount / max(1, scale))

    own = cells(usage.used - usage.borrowed)
    borrowed = cells(usage.borrowed)
    free = max(0, cells(usage.nominal) - own)
    return Text.assemble(("█" * own, "green"), ("█" * borrowed, "magenta"), ("░" * free, "dim"))


def render(job_rows: Sequence[Row], queue_usages: Sequence[ShownUsage]) -> RenderableType:
    """The whole board."""
    scale = max([u.nominal + u.borrowed for u in queue_usages] + [1])
    queues = Table(box=None, pad_edge=False)
    for heading in ("ClusterQueue", "cpu in use", "", "borrowed", "waiting"):
        queues.add_column(heading)
    for usage in queue_usages:
        shown = f"{quantity.text(usage.resource, usage.used)} of {quantity.text(usage.resource, usage.nominal)}"
        borrowed = quantity.text(usage.resource, usage.borrowed) if usage.borrowed else ""
        queues.add_row(usage.queue, shown, bar(usage, scale), Text(borrowed, "magenta"), str(usage.pending))
    jobs = Table(box=None, pad_edge=False)
    for heading in ("Namespace", "Job", "State", "Pods"):
        jobs.add_column(heading, no_wrap=True)
    jobs.add_column("Why it waits", overflow="fold")
    for one in job_rows:
        jobs.add_row(one.namespace, one.job, Text(one.state, STYLES[one.state]), one.pods, Text(one.note, "dim"))
    return Group(queues, Text(), jobs)
