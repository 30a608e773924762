"""An explanation in the form of the visibility API, and read back from it.

Separate from ``core.explain.explanation``: the command line prints an explanation that it has computed itself in the
same way as one that the server has sent. Positions count from 0 here, as in Kueue's API, and from 1 in an explanation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from api import quantity
from core.explain.explanation import Cell, DomainRoom, Explanation, Holder, OtherHolders, Rooms
from core.model import FlavorResource, Key, Raw
from core.state.queries import MAX_SHARE

MOST_TAKEN: Final = 20
"""So many workloads are named on a domain."""
MOST_SHARES: Final = 100
"""So many ClusterQueues are compared by their share."""


def written(answer: Explanation, job_of: Callable[[Key], str]) -> Raw:
    """Returns the fields of an explanation; ``job_of`` returns the name of a Workload's job, '' if it has none."""

    def named(key: Key) -> Raw:
        job = job_of(key)
        return {"namespace": key.namespace, "name": key.name, **({"job": job} if job else {})}

    place = {} if not answer.place else {"positionInClusterQueue": answer.place - 1}
    return {
        "state": answer.state,
        "clusterQueue": answer.cluster_queue,
        "reason": answer.reason,
        "message": answer.message,
        "evictedBefore": answer.before,
        **({} if answer.priority is None else {"priority": answer.priority}),
        **place,
        "pendingInClusterQueue": answer.waiting,
        "waitingInCohort": answer.rivals,
        "ahead": [named(key) for key in answer.ahead],
        "aheadNotNamed": answer.ahead_more,
        "flavors": [_cell(each) for each in answer.cells],
        "heldBy": [
            {
                **named(each.key),
                "clusterQueue": each.cluster_queue,
                "priority": each.priority,
                "resources": _amounts(each.amounts),
            }
            for each in answer.holders
        ],
        "heldByOthers": [
            {"workloads": each.workloads, "clusterQueue": each.cluster_queue, "resources": _amounts(each.amounts)}
            for each in answer.others
        ],
        "topology": [_rooms(each, named) for each in answer.rooms],
        "fairShares": [
            {"clusterQueue": name, "weightedShare": MAX_SHARE if math.isinf(value) else value}
            for name, value in answer.shares[:MOST_SHARES]
        ],
        "wouldHelp": list(answer.ways),
        "notComputed": list(answer.omitted),
    }


def read(raw: Raw) -> Explanation:
    """Returns the explanation that a document has. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for any other
    document.
    """
    metadata, place = raw["metadata"], raw.get("positionInClusterQueue")
    return Explanation(
        key=Key(metadata["namespace"], metadata["name"]),
        state=raw["state"],
        cluster_queue=raw["clusterQueue"],
        reason=raw["reason"],
        message=raw["message"],
        before=raw["evictedBefore"],
        priority=raw.get("priority"),
        place=0 if place is None else place + 1,
        waiting=raw["pendingInClusterQueue"],
        rivals=raw["waitingInCohort"],
        shares=tuple(
            (each["clusterQueue"], math.inf if each["weightedShare"] >= MAX_SHARE else float(each["weightedShare"]))
            for each in raw["fairShares"]
        ),
        ahead=tuple(map(_key, raw["ahead"])),
        ahead_more=raw["aheadNotNamed"],
        cells=tuple(map(_cell_of, raw["flavors"])),
        holders=tuple(
            Holder(_key(each), each["clusterQueue"], each["priority"], _amounts_of(each)) for each in raw["heldBy"]
        ),
        others=tuple(
            OtherHolders(each["workloads"], each["clusterQueue"], _amounts_of(each)) for each in raw["heldByOthers"]
        ),
        rooms=tuple(map(_rooms_of, raw["topology"])),
        ways=tuple(raw["wouldHelp"]),
        omitted=tuple(raw["notComputed"]),
    )


def jobs(raw: Raw) -> dict[str, str]:
    """Returns the jobs of the Workloads that a document names, both as NAMESPACE/NAME."""
    shown = [domain for rooms in raw["topology"] for domain in (*rooms["domains"], *rooms.get("tree", ()))]
    taken = [each for domain in shown for each in domain["takenBy"]]
    return {str(_key(each)): f"{each['namespace']}/{each['job']}" for each in _named(raw, taken) if each.get("job")}


def _named(raw: Raw, taken: Iterable[Raw]) -> Iterable[Raw]:
    return (*raw["ahead"], *raw["heldBy"], *taken)


def _cell(cell: Cell) -> Raw:
    amounts = {
        "requested": cell.asked,
        "available": cell.free,
        "reserved": cell.used,
        "nominal": cell.nominal,
        "maximum": cell.most,
        "missing": cell.missing,
    }
    fr = cell.flavor_resource
    return {
        "flavor": fr.flavor,
        "name": fr.resource,
        **{name: quantity.text(fr.resource, amount) for name, amount in amounts.items()},
    }


def _cell_of(raw: Raw) -> Cell:
    fr = FlavorResource(raw["flavor"], raw["name"])

    def amount(name: str) -> int:
        return quantity.amount(fr.resource, raw[name])

    return Cell(
        fr,
        asked=amount("requested"),
        nominal=amount("nominal"),
        used=amount("reserved"),
        free=amount("available"),
        most=amount("maximum"),
        missing=amount("missing"),
    )


def _amounts(amounts: Mapping[FlavorResource, int]) -> list[Raw]:
    return [
        {"flavor": fr.flavor, "name": fr.resource, "amount": quantity.text(fr.resource, amount)}
        for fr, amount in sorted(amounts.items())
    ]


def _amounts_of(raw: Raw) -> dict[FlavorResource, int]:
    return {
        FlavorResource(each["flavor"], each["name"]): quantity.amount(each["name"], each["amount"])
        for each in raw["resources"]
    }


def _rooms(rooms: Rooms, named: Callable[[Key], Raw]) -> Raw:
    return {
        "podSet": rooms.pod_set,
        "flavor": rooms.flavor,
        "level": rooms.level,
        "wanted": rooms.wanted,
        "unit": rooms.unit,
        "required": rooms.required,
        "podsInNoSlice": rooms.left,
        "atMost": rooms.most,
        "leader": rooms.leader,
        "domains": [_domain(each, named) for each in rooms.domains],
        "domainsNotShown": rooms.more,
        "tree": [
            {
                **_domain(each, named),
                "depth": each.depth,
                "fits": each.fits,
                "resources": [
                    {"name": name, "free": quantity.text(name, free), "used": quantity.text(name, used)}
                    for name, free, used in each.amounts
                ],
                **({} if each.hidden is None else {"domainsNotShown": each.hidden}),
            }
            for each in rooms.tree
        ],
        "treeNotShown": rooms.tree_more,
    }


def _domain(each: DomainRoom, named: Callable[[Key], Raw]) -> Raw:
    return {
        "name": each.domain,
        "room": each.now,
        "roomIfEmpty": each.ever,
        "takenBy": [{**named(key), "pods": pods} for key, pods in each.taken[:MOST_TAKEN]],
        "podsOfOthers": each.others + sum(pods for _, pods in each.taken[MOST_TAKEN:]),
    }


def _rooms_of(raw: Raw) -> Rooms:
    return Rooms(
        pod_set=raw["podSet"],
        flavor=raw["flavor"],
        level=raw["level"],
        wanted=raw["wanted"],
        unit=raw["unit"],
        required=raw["required"],
        domains=tuple(map(_domain_of, raw["domains"])),
        more=raw["domainsNotShown"],
        left=raw.get("podsInNoSlice", 0),
        most=raw.get("atMost", 0),
        leader=raw.get("leader", ""),
        tree=tuple(map(_domain_of, raw.get("tree") or ())),
        tree_more=raw.get("treeNotShown", 0),
    )


def _domain_of(raw: Raw) -> DomainRoom:
    return DomainRoom(
        raw["name"],
        raw["room"],
        raw["roomIfEmpty"],
        tuple((_key(one), one["pods"]) for one in raw["takenBy"]),
        raw["podsOfOthers"],
        raw.get("depth", 0),
        tuple(
            (each["name"], quantity.amount(each["name"], each["free"]), quantity.amount(each["name"], each["used"]))
            for each in raw.get("resources") or ()
        ),
        raw.get("fits", ""),
        raw.get("domainsNotShown"),
    )


def _key(raw: Raw) -> Key:
    return Key(raw["namespace"], raw["name"])
