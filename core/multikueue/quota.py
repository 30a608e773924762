"""The quota of a ClusterQueue of the manager that follows the quotas in the workers (``quotaManagement: Automated``).

The nominal quota of a resource is the sum of those in the ClusterQueues of the connected workers to which LocalQueues
lead that the ClusterQueue here has, too. Reasons and messages are Kueue's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from api.objects import key_of
from api.quantity import canonical, exact, total
from core.model import Key, Raw
from core.wire.active import Active
from core.wire.guard import guarded

AUTOMATED = Active(True, "QuotaAutomated", "ClusterQueue quota is automatically managed based on MultiKueue workers.")
NOT_REQUESTED = Active(False, "NotRequested", "MultiKueue manager quota automation has not been requested.")


class Queues(NamedTuple):
    """The queues of a connected worker."""

    local_queues: Iterable[Raw]
    cluster_queues: Iterable[Raw]


@dataclass(frozen=True, slots=True)
class Result:
    """The patch of the ClusterQueue's spec if its quota changes, and its condition."""

    condition: Active
    patch: Raw | None = None


def automated(
    queue: Raw, config: Raw | None, local_queues: Collection[Key], workers: Sequence[Queues], *, awaited: bool = False
) -> Result:
    """Returns what is written to a ClusterQueue with a MultiKueue check; ``config`` is the MultiKueueConfig of that,
    ``local_queues`` are the LocalQueues of the ClusterQueue. While a worker is ``awaited`` that is not connected no
    quota is lowered: jobs may run there.
    """
    if config is None:
        return _unsupported("The referenced MultiKueueConfig was not found.")
    if (config.get("spec") or {}).get("quotaManagement") != "Automated":
        return Result(NOT_REQUESTED)
    groups = (queue.get("spec") or {}).get("resourceGroups") or []
    if len(groups) != 1 or len(groups[0].get("flavors") or ()) != 1:
        text = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
        return _unsupported(text)
    (group,) = groups
    sums = _sums(local_queues, workers)
    missing = sorted(sums.keys() - set(group["coveredResources"]))
    if missing:
        text = "manager-side coveredResources is missing resources configured on workers"
        return _unsupported(f"{text}: [{' '.join(missing)}]")
    (flavor,) = group["flavors"]
    old = {each["name"]: each for each in flavor["resources"]}
    new = [_changed(old.get(name, {"name": name}), sums.get(name, "0"), awaited) for name in group["coveredResources"]]
    same = [each["name"] for each in new] == [*old] and all(
        exact(each["nominalQuota"]) == exact(old[each["name"]].get("nominalQuota", "0")) for each in new
    )
    if same:
        return Result(AUTOMATED)
    changed = {**group, "flavors": [{**flavor, "resources": new}]}
    return Result(AUTOMATED, guarded({"spec": {"resourceGroups": [changed]}}, queue))


def _changed(old: Raw, nominal: str, awaited: bool) -> Raw:
    """The quota of a resource with another nominal quota, and a lendingLimit that does not exceed it."""
    before = old.get("nominalQuota", "0")
    if awaited and exact(before) > exact(nominal):
        return {**old, "nominalQuota": before}
    lending = old.get("lendingLimit")
    lowered = lending is not None and exact(lending) > exact(nominal)
    return {**old, "nominalQuota": nominal} | ({"lendingLimit": nominal} if lowered else {})


def _unsupported(text: str) -> Result:
    return Result(Active(False, "UnsupportedConfiguration", text))


def _sums(local_queues: Collection[Key], workers: Sequence[Queues]) -> dict[str, str]:
    """The sums of the nominal quotas, by resource."""
    sums: dict[str, str] = {}
    for worker in workers:
        used = {
            (raw.get("spec") or {}).get("clusterQueue") for raw in worker.local_queues if key_of(raw) in local_queues
        }
        for queue in worker.cluster_queues:
            for name, quota in _quotas(queue) if queue["metadata"]["name"] in used else ():
                sums[name] = canonical(total(sums[name], quota)) if name in sums else canonical(quota)
    return sums


def _quotas(queue: Raw) -> Iterable[tuple[str, object]]:
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                yield each["name"], each.get("nominalQuota", "0")
