"""The report of a simulated scenario: when and where each workload ran, which waited and why, and the usage of each
quota.

Separate from ``cli.simulate`` because it is pure: values for ``-o json|yaml``, and the same values as tables with notes
below, which are never cut.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from api import quantity
from api.objects import Raw
from cli import domains
from cli.bands import Band, bands, totals
from cli.domains import DomainBand
from cli.simulator import Played
from cli.table import columns
from core.model import Key
from core.simulation.fleet import WorkerChoice
from core.simulation.simulation import Course, PlayedAttempt
from core.topology.nodes import Domains

MOST_ROWS = 40
MOST_NOTES = 20
MOST_NAMES = 5
MOST_CHANGES = 10
MOST_DOMAINS = 3
WIDTH = 118


def summary(played: Played, last: float | None = None) -> Raw:
    """Returns the whole report in plain values; times in seconds from the start.

    Means of usage are over the time until ``last``, and workloads that still wait have waited until then, so that two
    reports can be compared; else until the end of the simulation.
    """
    timeline, reservations = played.timeline, played.state.reservations
    over = timeline.end if last is None else last
    mine: dict[str, list[Course]] = defaultdict(list)
    local = {key: queue.cluster_queue for key, queue in played.state.pending.local_queues.items()}
    for course in timeline.courses.values():
        workload = course.arrival.workload
        mine[local.get(Key(workload.key.namespace, workload.queue), "")].append(course)
    used: dict[str, list[Band]] = defaultdict(list)
    placed = domains.domains_of(played.state)
    every = bands(timeline, reservations.cluster_queues)
    for band in every:
        used[band.cluster_queue].append(band)
    return {
        "end": timeline.end,
        "workloads": [
            _course(course, played, over, placed)
            for key, course in timeline.courses.items()
            if key not in played.copies
        ],
        "refused": [_unplayed(one.key, one.at, one.message) for one in played.unplayed if one.fate == "refused"],
        "notQueued": [_unplayed(one.key, one.at, one.message) for one in played.unplayed if one.fate != "refused"],
        "clusterQueues": [_queue(name, mine[name], used[name], over) for name in sorted(reservations.cluster_queues)],
        "flavors": [_used(band, over) for band in totals(every, reservations.cohorts)],
        **({"topologies": _topologies(domains.bands(timeline, placed), over)} if placed else {}),
        "remarks": played.remarks,
        **({"workers": {name: summary(one, over) for name, one in played.workers.items()}} if played.workers else {}),
    }


def _unplayed(key: Key, at: float, message: str) -> Raw:
    return {"job": str(key), "at": at, "message": message}


def _topologies(found: Sequence[DomainBand], end: float) -> list[Raw]:
    """The use of the domains of each flavor and resource, and how scattered the rest was."""
    scattered = domains.fragmentation(found, end)
    several: dict[tuple[str, str], list[DomainBand]] = defaultdict(list)
    for band in found:
        several[band.flavor, band.resource].append(band)
    return [
        {
            "flavor": flavor,
            "resource": resource,
            "level": mine[0].level,
            "fragmentation": scattered.get((flavor, resource), 0.0),
            "domains": [
                {
                    "name": band.domain,
                    "capacity": quantity.text(resource, band.capacity),
                    "peak": quantity.text(resource, band.most),
                    "utilisation": band.utilisation(end),
                }
                for band in mine
            ],
        }
        for (flavor, resource), mine in several.items()
    ]


def _course(course: Course, played: Played, end: float, placed: Mapping[str, Domains]) -> Raw:
    workload = course.arrival.workload
    job = played.jobs[workload.key]
    warnings = played.warnings.get(job, ())
    return {
        "namespace": job.namespace,
        "job": job.name,
        "queue": workload.queue,
        "priority": workload.priority,
        "arrived": course.arrival.at,
        "waited": course.waited(end),
        "finished": course.finished,
        "attempts": [_attempt(attempt, workload.key, played, placed) for attempt in course.attempts],
        "waits": [{"at": at, "reason": reason, "message": message} for at, reason, message in course.waits],
        **_dispatched(played.choices.get(workload.key, ())),
        **({"warnings": list(warnings)} if warnings else {}),
    }


def _dispatched(choices: Sequence[WorkerChoice]) -> Raw:
    """The worker clusters of a workload, one after the other; None is that it waits at the end."""
    found = [{"at": each.at, "worker": each.worker or None, "notIn": each.others} for each in choices]
    return {"dispatched": found} if found else {}


def _in_worker(key: Key, started: float, played: Played) -> Raw:
    """The worker cluster in which an attempt runs, with its queue and flavors."""
    name = next((each.worker for each in played.choices.get(key, ()) if each.at == started), "")
    if not name:
        return {}
    course = played.workers[name].timeline.courses.get(key) if name in played.workers else None
    there = next((each for each in course.attempts if each.started == started), None) if course else None
    if there is None:
        return {"worker": {"name": name}}
    return {"worker": {"name": name, "clusterQueue": there.cluster_queue, "flavors": _flavors(there)}}


def _flavors(attempt: PlayedAttempt) -> list[str]:
    return sorted({flavor for pod_set in attempt.admission.pod_sets for flavor in pod_set.flavors.values()})


def _attempt(attempt: PlayedAttempt, key: Key, played: Played, placed: Mapping[str, Domains]) -> Raw:
    on = domains.ran_on(attempt, placed)
    replaced = [{"at": each.at, "nodes": list(each.nodes)} for each in attempt.replacements]
    document: Raw = {
        "clusterQueue": attempt.cluster_queue,
        "flavors": _flavors(attempt),
        "pods": sum(p.count for p in attempt.admission.pod_sets),
        "started": attempt.started,
        "ended": attempt.ended,
        **({"domains": on} if on else {}),
        **_in_worker(key, attempt.started, played),
        **({"replacedNodes": replaced} if replaced else {}),
    }
    if attempt.preemptor is not None:
        document |= {"preempted": attempt.stopped, "reason": attempt.reason, "by": str(played.jobs[attempt.preemptor])}
    elif attempt.reason:
        document |= {"evicted": attempt.stopped, "reason": attempt.reason}
    return document


def _queue(name: str, mine: Sequence[Course], used: Iterable[Band], end: float) -> Raw:
    """Returns the waits of a ClusterQueue's workloads, and the usage of its quota."""
    waits = sorted(waited for course in mine if (waited := course.waited(end)) is not None)
    return {
        "name": name,
        "workloads": len(mine),
        "admitted": len(waits),
        "finished": sum(course.finished is not None for course in mine),
        "preempted": sum(attempt.preemptor is not None for course in mine for attempt in course.attempts),
        "wait": {"median": _at(waits, 0.5), "p95": _at(waits, 0.95), "longest": _at(waits, 1.0)} if waits else None,
        "used": [_used(band, end) for band in used],
    }


def _used(band: Band, end: float) -> Raw:
    resource = band.cell.resource
    return {
        "flavor": band.cell.flavor,
        "resource": resource,
        "nominal": quantity.text(resource, band.nominal),
        "peak": quantity.text(resource, band.most),
        "peakBorrowed": quantity.text(resource, max(0, band.most - band.nominal)),
        "utilisation": band.utilisation(end),
    }


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# For a terminal.


def table(report: Raw, *, most: int = MOST_ROWS) -> str:
    """The summary: workloads in order of arrival (the first ``most``), notes about them, ClusterQueues, quotas; then
    the same of each worker cluster, with its own workloads.
    """
    parts = _parts(report, most, or_else="No Job waited in a queue.\n")
    for name, one in report.get("workers", {}).items():
        parts += [f"Worker cluster {name}\n", *_parts(one, most)]
    return "\n".join([*parts, f"The simulation ends at {seconds(report['end'])}.\n"])


def _parts(report: Raw, most: int, or_else: str = "") -> list[str]:
    """The tables of one cluster; ``or_else`` replaces that of its workloads if it has none."""
    rows: list[tuple[str, ...]] = [("JOB", "QUEUE", "ARRIVED", "WAITED", "STARTED", "ENDED", "RAN ON")]
    rows += [_workload_row(w) for w in report["workloads"][:most]]
    text = columns(rows) if len(rows) > 1 else or_else
    if len(report["workloads"]) > most:
        text += f"and {len(report['workloads']) - most} more workloads (-o json shows all)\n"
    text += _notes(report)
    queues: list[tuple[str, ...]] = [
        ("CLUSTERQUEUE", "WORKLOADS", "ADMITTED", "FINISHED", "PREEMPTED", "WAIT p50", "p95", "LONGEST")
    ]
    queues += [_queue_row(q) for q in report["clusterQueues"]]
    quotas: list[tuple[str, ...]] = [
        ("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "QUOTA", "IN USE, MEAN", "PEAK", "PEAK BORROWED")
    ]
    quotas += [_used_row(q["name"], u) for q in report["clusterQueues"] for u in q["used"]]
    if len(report["clusterQueues"]) > 1:
        quotas += [_used_row("(all)", u) for u in report["flavors"]]
    tables = [columns(each) for each in (queues, quotas) if len(each) > 1]
    return [*([text] if text else []), *tables, *map(_topology_table, report.get("topologies", ()))]


def _workload_row(workload: Raw) -> tuple[str, ...]:
    last = workload["attempts"][-1] if workload["attempts"] else None
    return (
        f"{workload['namespace']}/{workload['job']}",
        workload["queue"] or "-",
        seconds(workload["arrived"]),
        "-" if workload["waited"] is None else seconds(workload["waited"]),
        "-" if last is None else seconds(last["started"]),
        "-" if workload["finished"] is None else seconds(workload["finished"]),
        "-" if last is None else _ran_on(last),
    )


def _ran_on(attempt: Raw) -> str:
    worker = attempt.get("worker")
    if worker is None:
        where = f"{attempt['clusterQueue']} {','.join(attempt['flavors'])}".strip()
        on = list(attempt.get("domains", ()))
        return f"{where}: {_names(on, MOST_DOMAINS)}" if on else where
    return f"{worker['name']}: {worker.get('clusterQueue', '')} {','.join(worker.get('flavors', ()))}".strip(": ")


def _notes(report: Raw) -> str:
    """Returns what the table cannot show, in sentences; workloads with the same note are listed together."""
    noted: dict[str, list[str]] = defaultdict(list)
    for key, fate in (("refused", "refused"), ("notQueued", "not queued")):
        for one in report[key]:
            noted[f"{fate}: {one['message']}"].append(one["job"])
    for notes in (
        _notes_of,
        _stops_of,
        _elsewhere_of,
    ):  # the first of many notes are shown: what never starts is more important than what is requeued
        for one in report["workloads"]:
            for note in notes(one):
                noted[note].append(f"{one['namespace']}/{one['job']}")
    lines = [f"{_names(names)} {note}" for note, names in noted.items()]
    if len(lines) > MOST_NOTES:
        lines = [*lines[:MOST_NOTES], f"and {len(lines) - MOST_NOTES} more notes (-o json shows all)"]
    lines += report["remarks"]
    return "\nNotes\n" + "".join(f"{wrapped(line, first='  ')}\n" for line in lines) if lines else ""


def _notes_of(workload: Raw) -> Iterable[str]:
    attempts = workload["attempts"]
    for warning in workload.get("warnings", ()):
        yield f"warned at creation: {warning}"
    waits_still = workload["finished"] is None and (not attempts or attempts[-1]["ended"] is not None)
    if waits_still and workload["waits"]:
        last = workload["waits"][-1]
        yield f"{'waits again at the end' if attempts else 'waits at the end'}: {last['reason']}: {last['message']}"


def _stops_of(workload: Raw) -> Iterable[str]:
    for attempt in workload["attempts"]:
        for each in attempt.get("replacedNodes", ()):
            yield f"moved at {seconds(each['at'])}: its pods on {', '.join(each['nodes'])} run on other nodes"
        if "preempted" in attempt:
            yield f"preempted at {seconds(attempt['ended'])} for {attempt['by']} ({attempt['reason']})"
        elif "evicted" in attempt:
            yield f"evicted at {seconds(attempt['ended'])} ({attempt['reason']}): {attempt['evicted']}"


def _elsewhere_of(workload: Raw) -> Iterable[str]:
    """Why the workload did not run in the other worker clusters, the last time."""
    for name, why in workload["dispatched"][-1]["notIn"].items() if "dispatched" in workload else ():
        yield f"not in worker cluster {name}: {why}"


def _names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def wrapped(text: str, *, first: str = "") -> str:
    """A sentence over as many lines as it needs; names and numbers stay whole."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _queue_row(queue: Raw) -> tuple[str, ...]:
    wait = queue["wait"]
    counts = (str(queue[k]) for k in ("workloads", "admitted", "finished", "preempted"))
    waits = (seconds(wait[k]) if wait else "-" for k in ("median", "p95", "longest"))
    return (queue["name"], *counts, *waits)


def _topology_table(topology: Raw) -> str:
    """The domains of a flavor that were used most, and the fragmentation."""
    level = topology["level"].rpartition("/")[2].upper()
    rows: list[tuple[str, ...]] = [(level, "FLAVOR", "RESOURCE", "CAPACITY", "IN USE, MEAN", "PEAK")]
    used = sorted(topology["domains"], key=lambda each: -(each["utilisation"] or 0.0))
    for each in used[:MOST_ROWS]:
        mean = "-" if each["utilisation"] is None else f"{each['utilisation']:.0%}"
        rows.append((each["name"], topology["flavor"], topology["resource"], each["capacity"], mean, each["peak"]))
    more = f"and {len(used) - MOST_ROWS} more (-o json shows all)\n" if len(used) > MOST_ROWS else ""
    scattered = (
        f"Fragmentation of {topology['resource']}: {topology['fragmentation']:.0%} of what is free is outside of the"
        f" {level.lower()} that has most of it (mean over the time)\n"
    )
    return columns(rows) + more + scattered


def _used_row(name: str, used: Raw) -> tuple[str, ...]:
    mean = "-" if used["utilisation"] is None else f"{used['utilisation']:.0%}"
    borrowed = "-" if used["peakBorrowed"] == "0" else used["peakBorrowed"]
    return (name, used["flavor"], used["resource"], used["nominal"], mean, used["peak"], borrowed)


def comparison(before: Raw, after: Raw) -> str:
    """Returns the two summaries side by side: the effect of the change on each ClusterQueue, and on workloads."""
    old = {q["name"]: q for q in before["clusterQueues"]}
    new = {q["name"]: q for q in after["clusterQueues"]}
    rows: list[tuple[str, ...]] = [
        ("CLUSTERQUEUE", "ADMITTED", "PREEMPTED", "WAIT p50", "p95", "LONGEST", "IN USE, MEAN")
    ]
    nothing: Raw = {"admitted": 0, "preempted": 0, "wait": None, "used": []}
    for name in sorted({*old, *new}):
        was, now = old.get(name, nothing), new.get(name, nothing)
        counts = (_change(str(was[k]), str(now[k])) for k in ("admitted", "preempted"))
        waits = (_change(_wait(was, k), _wait(now, k)) for k in ("median", "p95", "longest"))
        label = name if name in old and name in new else f"{name} ({'new' if name in new else 'gone'})"
        rows.append((label, *counts, *waits, _shares(was, now)))
    return columns(rows) + "\n" + "".join(f"{line}\n" for line in _moved(before["workloads"], after["workloads"]))


def _change(was: str, now: str) -> str:
    """Equal values are shown once."""
    return was if was == now else f"{was} -> {now}"


def _shares(was: Raw, now: Raw) -> str:
    """The mean use of each quota, before and after."""
    shares: dict[tuple[str, str], list[str]] = {}
    for index, queue in enumerate((was, now)):
        for used in queue["used"]:
            pair = shares.setdefault((used["flavor"], used["resource"]), ["-", "-"])
            if used["utilisation"] is not None:
                pair[index] = f"{used['utilisation']:.0%}"
    return ", ".join(f"{resource} in {flavor} {_change(a, b)}" for (flavor, resource), (a, b) in shares.items())


def _moved(before: Iterable[Raw], after: Iterable[Raw]) -> list[str]:
    """Returns the workloads for which the change is worse, and those for which it is better, the largest first; and
    those in one of the two only.
    """
    then, now = ({f"{w['namespace']}/{w['job']}": w for w in each} for each in (before, after))
    losses: list[tuple[tuple[float, ...], str]] = []
    gains: list[tuple[tuple[float, ...], str]] = []
    for name in then.keys() & now.keys():
        shown = _difference(then[name], now[name])
        if shown:
            later = _later(then[name]["finished"], now[name]["finished"])
            longer = _later(then[name]["waited"], now[name]["waited"])
            change = (-abs(later), -abs(longer))  # the largest first
            (losses if (later, longer) > (0.0, 0.0) else gains).append((change, f"{name}: {shown}"))
    lines = _group("Worse for", losses) + _group("Better for", gains)
    for title, names in (("New", now.keys() - then.keys()), ("No longer there", then.keys() - now.keys())):
        lines += [f"{title}: {_names(sorted(names))}"] if names else []
    return lines or ["No workload starts or ends at another time."]


def _group(title: str, changes: list[tuple[tuple[float, ...], str]]) -> list[str]:
    """The largest changes of one kind below their number."""
    if not changes:
        return []
    shown = [f"  {line}" for _, line in sorted(changes)[:MOST_CHANGES]]
    more = [f"  and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    return [f"{title} {len(changes)} workload{'s' if len(changes) > 1 else ''}", *shown, *more]


def _difference(was: Raw, now: Raw) -> str:
    """How long it waits in all, how often it is stopped and when it ends, as far as that is not the same."""
    stops = [sum("reason" in attempt for attempt in each["attempts"]) for each in (was, now)]
    parts = [
        _changed("waits", was["waited"], now["waited"], never="never starts"),
        f"stopped {stops[0]} -> {stops[1]} times" if stops[0] != stops[1] else "",
        _changed("ends", was["finished"], now["finished"], never="does not end"),
    ]
    return ", ".join(filter(None, parts))


def _changed(verb: str, was: float | None, now: float | None, *, never: str) -> str:
    if was == now:
        return ""
    if was is None:
        return f"{never} -> {verb} {seconds(now or 0.0)}"
    return f"{verb} {seconds(was)} -> {never if now is None else seconds(now)}"


def _later(was: float | None, now: float | None) -> float:
    """By how many seconds later something happens, or how much longer it lasts; never is later than any time."""
    if was == now:
        return 0.0
    if now is None:
        return math.inf
    return -math.inf if was is None else now - was


def _wait(queue: Raw, key: str) -> str:
    return seconds(queue["wait"][key]) if queue["wait"] else "-"


def seconds(amount: float) -> str:
    """Returns a duration in a readable form: 0.5s, 45s, 12m, 3h20m, 4d02h."""
    if 0 < amount < 10 and amount != round(amount):
        return f"{amount:.1f}s"
    minutes, left = divmod(round(amount), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    if minutes:
        return f"{minutes}m{left:02d}s" if left else f"{minutes}m"
    return f"{left}s"
