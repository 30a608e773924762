"""An explanation as text for a terminal, and as an object for programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from api import quantity
from api.names import Plural
from api.objects import Raw, key_of
from cli.table import columns
from cli.target import document
from core.explain.explanation import DomainRoom, Explanation, Holder, Rooms
from core.explain.parts import job_name
from core.explain.sight import MOST_NAMED
from core.model import FlavorResource
from core.model.owner import owner
from seiretsu.running import Running

_NAME = re.compile(r"(?<![/\w.-])[a-z0-9][a-z0-9-]*/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""NAMESPACE/NAME in a sentence."""
_UID = re.compile(r"\(UID: ([0-9a-f-]+), JobUID: [^)]*\)")
"""A preemptor in Kueue's sentence."""
_FIRST = (Plural.CLUSTER_QUEUES, Plural.COHORTS, Plural.RESOURCE_FLAVORS, Plural.WORKLOADS, "pods")
MOST_TAKEN = 3
"""So many workloads on one domain are named."""
MOST_RESOURCES = 2
"""So many resources are in the table of a topology."""
WIDTH = 100
"""Columns of a terminal for which the tree of a topology is made."""
WIDEST_DOMAIN, WIDEST_AMOUNT = 30, 14
MOST_HIDDEN = 3
"""So many kinds of objects that may not be read are named."""


def plain(answer: Explanation, running: Running | None = None, jobs: Mapping[str, str] | None = None) -> Raw:
    """Returns the explanation as an object with a version; docs/simulate.md describes the fields. Amounts are
    Kubernetes quantities.
    """
    known = jobs or {}
    workload = {"namespace": answer.key.namespace, "name": answer.key.name}
    job = known.get(str(answer.key), "").partition("/")[2]
    value: Raw = {
        "workload": workload,
        **({"job": job} if job else {}),
        "state": answer.state,
        "clusterQueue": answer.cluster_queue,
        "reason": answer.reason,
        "message": answer.message,
        "summary": answer.summary,
        "evictedBefore": answer.before,
        "priority": answer.priority,
        "queuePosition": answer.place or None,
        "queueLength": answer.waiting,
        "waitingInCohort": answer.rivals,
        "ahead": [known.get(str(key), str(key)) for key in answer.ahead],
        "aheadNotNamed": answer.ahead_more,
        "quota": [
            {
                "flavor": cell.flavor_resource.flavor,
                "resource": cell.flavor_resource.resource,
                **{
                    name: quantity.text(cell.flavor_resource.resource, amount)
                    for name, amount in (
                        ("requested", cell.asked),
                        ("free", cell.free),
                        ("used", cell.used),
                        ("nominal", cell.nominal),
                        ("maximum", cell.most),
                    )
                },
            }
            for cell in answer.cells
        ],
        "heldBy": [_holder(each, known) for each in answer.holders],
        "heldByOthers": [
            {"workloads": each.workloads, "clusterQueue": each.cluster_queue, "holds": _amounts(each.amounts)}
            for each in answer.others
        ],
        **({"topology": [_rooms(each, known) for each in answer.rooms]} if answer.rooms else {}),
        "fairShares": [{"clusterQueue": name, "share": share} for name, share in answer.shares],
        "wouldHelp": [_with_jobs(way, known) for way in answer.ways],
        "notReadable": list(answer.unseen),
        "notComputed": list(answer.omitted),
    }
    if running is not None:
        value["pods"] = {
            "wanted": running.wanted,
            "running": running.running,
            "problems": [{"reason": each.reason, "message": each.message} for each in running.troubles],
        }
    return document("Explanation", value)


def _rooms(rooms: Rooms, jobs: Mapping[str, str]) -> Raw:
    return {
        "podSet": rooms.pod_set,
        "flavor": rooms.flavor,
        "level": rooms.level,
        "wanted": rooms.wanted,
        "unit": rooms.unit,
        "required": rooms.required,
        **({"podsInNoSlice": rooms.left} if rooms.left else {}),
        **({"leader": rooms.leader} if rooms.leader else {}),
        "atMost": rooms.most,
        "domains": [_domain(each, jobs) for each in rooms.domains],
        "domainsNotShown": rooms.more,
        "tree": [
            {
                **_domain(each, jobs),
                "depth": each.depth,
                "fits": each.fits,
                "resources": [
                    {"resource": name, "free": quantity.text(name, free), "used": quantity.text(name, used)}
                    for name, free, used in each.amounts
                ],
                "domainsNotShown": each.hidden,
            }
            for each in rooms.tree
        ],
        "treeNotShown": rooms.tree_more,
    }


def _domain(each: DomainRoom, jobs: Mapping[str, str]) -> Raw:
    return {
        "name": each.domain,
        "room": each.now,
        "roomIfEmpty": each.ever,
        "takenBy": [{"job": jobs.get(str(key), str(key)), "pods": pods} for key, pods in each.taken],
        "podsOfOthers": each.others,
    }


def _room_lines(rooms: Rooms) -> Iterator[str]:
    """What is asked for, and the tree of domains; a table of those of one level where nodes may not be named."""
    level = rooms.level.rpartition("/")[2]
    units = rooms.unit if rooms.wanted == 1 else rooms.unit.replace("pod", "pods", 1).replace("slice", "slices", 1)
    where = f"in one {level}" if rooms.required else f"close together, by {level}"
    beside = f" with pod set {rooms.leader}" if rooms.leader else ""
    yield f"Topology: pod set {rooms.pod_set} asks for {rooms.wanted} {units} {where} of flavor {rooms.flavor}{beside}"
    if rooms.left:
        verb = "pods are" if rooms.left > 1 else "pod is"
        yield f"{rooms.left} {verb} in no whole slice: no domain is given for {'them' if rooms.left > 1 else 'it'}"
    if rooms.tree:
        yield from _tree_lines(rooms)
        return
    rows: list[tuple[str, ...]] = [(level.upper(), "ROOM NOW", "IF EMPTY", "TAKEN BY")]
    rows += [(each.domain or "-", str(each.now), str(each.ever), _taken(each, MOST_TAKEN)) for each in rooms.domains]
    yield from columns(rows).splitlines()
    if rooms.more:
        yield f"and {rooms.more} with no more room than the last"


def _tree_lines(rooms: Rooms) -> Iterator[str]:
    """The domains, each with those in it below it and indented."""
    names = [name for name, _, _ in rooms.tree[0].amounts[:MOST_RESOURCES]]
    last = [each.rpartition("/")[2] for each in names]
    yield f"ROOM is in pods, {' and '.join(last)} free/used"
    rows: list[tuple[str, ...]] = [("DOMAIN", "ROOM", "FITS", *(name.upper()[:WIDEST_AMOUNT] for name in last), "")]
    open_at: list[tuple[int, int]] = []

    def closed(depth: int) -> Iterator[tuple[str, ...]]:
        """A row for each domain that ends before a depth, and of which not all is listed."""
        while open_at and open_at[-1][0] >= depth:
            at, hidden = open_at.pop()
            yield (f"{'  ' * (at + 1)}and {hidden} more", *("" for _ in rows[0][1:]))

    for each in rooms.tree:
        rows += closed(each.depth)
        if each.hidden:
            open_at.append((each.depth, each.hidden))
        amounts = (f"{quantity.text(name, free)}/{quantity.text(name, used)}" for name, free, used in each.amounts)
        indent = "  " * each.depth
        name = indent + _named(each.domain, WIDEST_DOMAIN - len(indent))
        rows.append((name, str(each.now), each.fits, *islice(amounts, len(names)), ""))
    rows += closed(0)
    first, *lines = columns(rows).splitlines()
    width = sum(max(map(len, column)) + 2 for column in zip(*(row[:-1] for row in rows), strict=True))
    yield _shortened(f"{first.ljust(width)}TAKEN BY", WIDTH)
    shown = iter(rooms.tree)
    for row, line in zip(rows[1:], lines, strict=True):
        is_domain = bool(row[1])
        whole = f"{line.ljust(width)}{_within(next(shown), WIDTH - width)}" if is_domain else line
        yield _shortened(whole, WIDTH)
    if rooms.tree_more:
        yield f"and {rooms.tree_more} more"


def _named(name: str, most: int) -> str:
    """A domain by the first part of its hostname if that is needed, and then without what is in the middle of it."""
    short = name if len(name) <= most else name.partition(".")[0]
    half = max(4, (most - 3) // 2)
    return short if len(short) <= most else f"{short[:half]}...{short[-half:]}"


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _within(each: DomainRoom, most: int) -> str:
    """Who is on a domain, with as many names as there is room for."""
    for number in range(MOST_TAKEN, 0, -1):
        taken = _taken(each, number)
        if len(taken) <= most:
            return taken
    pods = sum(number for _, number in each.taken) + each.others
    return f"{pods} pods"


def _taken(each: DomainRoom, most: int) -> str:
    """Who is on a domain."""
    taken = [f"{key}: {pods} pod{'s' if pods > 1 else ''}" for key, pods in each.taken]
    more = [f"{len(taken) - most} more"] if len(taken) > most else []
    more += [f"others: {each.others} pod{'s' if each.others > 1 else ''}"] if each.others else []
    return ", ".join(taken[:most] + more) or "-"


def _holder(holder: Holder, jobs: Mapping[str, str]) -> Raw:
    return {
        "job": jobs.get(str(holder.key), str(holder.key)),
        "clusterQueue": holder.cluster_queue,
        "priority": holder.priority,
        "holds": _amounts(holder.amounts),
    }


def _amounts(amounts: Mapping[FlavorResource, int]) -> list[Raw]:
    return [
        {"flavor": fr.flavor, "resource": fr.resource, "amount": quantity.text(fr.resource, amount)}
        for fr, amount in sorted(amounts.items())
    ]


def _holds(amounts: Mapping[FlavorResource, int]) -> str:
    return ", ".join(
        f"{quantity.text(fr.resource, n)} {fr.resource} in {fr.flavor}" for fr, n in sorted(amounts.items())
    )


def jobs_of(objects: list[Raw]) -> dict[str, str]:
    """Returns the Job of each Workload, both as NAMESPACE/NAME; also by the Workload's uid."""
    found: dict[str, str] = {}
    for each in objects:
        by = owner(each) if each["kind"] == "Workload" else None
        if by is not None:
            job = f"{by.namespace}/{job_name(each)}"
            found |= {str(key_of(each)): job, each["metadata"]["uid"]: job}
    return found


def text(answer: Explanation, jobs: Mapping[str, str] | None = None, running: Running | None = None) -> str:
    """Returns the explanation for a terminal; Workloads have the name of their Job, which users know."""
    known = jobs or {}
    named = _with_jobs("".join(f"{line}\n" for line in _lines(answer)), known)
    if known.get(str(answer.key), str(answer.key)) != str(answer.key):
        named = named.replace(":", f" (Workload {answer.key.name}):", 1)
    if running is not None:
        named += "".join(f"{line}\n" for line in _pods(running))
    return f"{answer.summary}\n{named}" if answer.summary else named


def hidden(unseen: Sequence[str]) -> str:
    """Returns what could not be read, for a sentence: the kinds that the answer depends on most by name."""
    known = {plural: place for place, plural in enumerate(_FIRST)}
    ordered = sorted(unseen, key=lambda each: known.get(each.split()[0], len(known)))
    shown = ", ".join(ordered[:MOST_HIDDEN])
    rest = len(unseen) - MOST_HIDDEN
    return f"{shown} and {rest} other kinds of objects" if rest > 0 else shown


def _with_jobs(sentence: str, jobs: Mapping[str, str]) -> str:
    """Names Workloads by their Jobs."""
    named = _NAME.sub(lambda match: jobs.get(match[0], match[0]), sentence)
    return _UID.sub(lambda match: f"({jobs[match[1]]})" if match[1] in jobs else match[0], named)


def _pods(running: Running) -> Iterator[str]:
    """What its pods do."""
    if not running.troubles:
        yield f"  {running.running} of {running.wanted} pods run or have succeeded"
        return
    yield ""
    yield f"It does not run as a whole: {running.running} of {running.wanted} pods run or have succeeded"
    yield from (f"  - {trouble}" for trouble in running.troubles)


def _lines(answer: Explanation) -> Iterator[str]:
    where = f" in ClusterQueue {answer.cluster_queue}" if answer.cluster_queue else ""
    place = f", queue position {answer.place} of {answer.waiting}" if answer.place else ""
    priority = f", priority {answer.priority}" if answer.priority is not None else ""
    yield f"{answer.key}: {answer.state}{where}{place}{priority}"
    ahead = len(answer.ahead) + answer.ahead_more
    if ahead:
        named = [str(key) for key in answer.ahead[:MOST_NAMED]]
        shown = [*named, f"{ahead - len(named)} more"] if ahead > len(named) else named
        if not named:
            shown = [f"{ahead} workload{'s' if ahead > 1 else ''}"]
        yield f"  behind {', '.join(shown)}"
    if answer.message:
        yield f"  {answer.reason + ': ' if answer.reason else ''}{answer.message}"
    if answer.before:
        yield f"  It was evicted before: {answer.before}"
    if answer.unseen:
        yield ""
        yield f"Your rights do not show {hidden(answer.unseen)}. The role view in the whole cluster shows all of them."
        yield "With that right the answer has the queue position, who holds the quota, and what would let it start."
    if answer.cells:
        rows = [("FLAVOR", "RESOURCE", "ASKED", "FREE NOW", "IN USE", "OWN QUOTA", "MAXIMUM")]
        for c in answer.cells:
            amounts = (
                quantity.text(c.flavor_resource.resource, n) for n in (c.asked, c.free, c.used, c.nominal, c.most)
            )
            rows.append((c.flavor_resource.flavor, c.flavor_resource.resource, *amounts))  # type: ignore[arg-type]
        yield ""
        yield from columns(rows).splitlines()
    for rooms in answer.rooms:
        yield ""
        yield from _room_lines(rooms)
    if answer.holders or answer.others:
        yield ""
        yield "Held by"
        for h in answer.holders[:10]:
            yield f"  {h.key} in {h.cluster_queue}, priority {h.priority}: {_holds(h.amounts)}"
        if len(answer.holders) > 10:
            yield f"  and {len(answer.holders) - 10} more"
        for other in answer.others:
            where = f"in {other.cluster_queue}" if other.cluster_queue else "in other ClusterQueues"
            who = f"{other.workloads} other workload{'s' if other.workloads > 1 else ''}"
            yield f"  {who} {where}: {_holds(other.amounts)}"
    if len(answer.shares) > 1:
        yield ""
        yield "Fair sharing: the lowest share is first (quota borrowed, in thousandths of what the cohort lends)"
        yield from (f"  {name or 'another ClusterQueue'}: {share:.0f}" for name, share in answer.shares)
    if answer.ways:
        yield ""
        yield "What would let it start"
        yield from (f"  - {way}" for way in answer.ways)
    yield from (f"Not computed: {each}." for each in answer.omitted)
    first = [f"{ahead} ahead of it"] if ahead else []
    others = [*first, *([f"{answer.rivals} in other ClusterQueues of the cohort"] if answer.rivals else [])]
    if answer.place and others:
        yield f"Other waiting workloads may get free quota first: {', '.join(others)}."
