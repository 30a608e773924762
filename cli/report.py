"""A played scenario as people read it: who ran when and where, who waited and why, and what was used of each quota.

Separate from ``cli.simulate`` because it is pure: values for ``-o json|yaml``, and the same values as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from api import quantity
from cli.picture import Band, bands, seconds
from cli.simulator import Played
from core.model import Key
from core.simulation import Attempt, Course

Raw = dict[str, Any]


def summary(played: Played) -> Raw:
    """Everything there is to tell, in plain values; times in seconds from the start."""
    end = played.timeline.end
    courses = played.timeline.courses
    return {
        "end": end,
        "workloads": [_course(course, played) for course in courses.values()],
        "refused": [{"job": str(r.key), "at": r.at, "message": r.message} for r in played.refused],
        "clusterQueues": [_queue(name, played) for name in sorted(played.state.holdings.cluster_queues)],
    }


def _course(course: Course, played: Played) -> Raw:
    workload = course.arrival.workload
    job = played.jobs[workload.key]
    warnings = played.warnings.get(job, ())
    return {
        "namespace": job.namespace,
        "job": job.name,
        "queue": workload.queue,
        "priority": workload.priority,
        "arrived": course.arrival.at,
        "waited": course.waited,
        "finished": course.finished,
        "attempts": [_attempt(attempt, played) for attempt in course.attempts],
        "waits": [{"at": at, "reason": reason, "message": message} for at, reason, message in course.waits],
        **({"warnings": list(warnings)} if warnings else {}),
    }


def _attempt(attempt: Attempt, played: Played) -> Raw:
    told: Raw = {
        "clusterQueue": attempt.cluster_queue,
        "flavors": sorted({f for p in attempt.admission.pod_sets for f in p.flavors.values()}),
        "started": attempt.started,
        "ended": attempt.ended,
    }
    if attempt.preemptor is not None:
        told |= {"preempted": attempt.preempted, "by": str(played.jobs[attempt.preemptor])}
    return told


def _queue(name: str, played: Played) -> Raw:
    """What a ClusterQueue's workloads had to wait, and how much of its quota was in use."""
    end = played.timeline.end
    state = played.state
    local = {key for key, queue in state.lines.local_queues.items() if queue.cluster_queue == name}
    mine = [
        course
        for course in played.timeline.courses.values()
        if Key(course.arrival.workload.key.namespace, course.arrival.workload.queue) in local
    ]
    waits = sorted(course.waited for course in mine if course.waited is not None)
    used = [
        {
            "flavor": band.cell.flavor,
            "resource": band.cell.resource,
            "nominal": quantity.text(band.cell.resource, band.nominal),
            "most": quantity.text(band.cell.resource, max((used for _, used in band.steps), default=0)),
            "utilisation": _utilisation(band, end),
        }
        for band in bands(played.timeline, state.holdings.cluster_queues)
        if band.cluster_queue == name
    ]
    return {
        "name": name,
        "workloads": len(mine),
        "admitted": len(waits),
        "finished": sum(course.finished is not None for course in mine),
        "preempted": sum(bool(attempt.preempted) for course in mine for attempt in course.attempts),
        "wait": {"median": _at(waits, 0.5), "p95": _at(waits, 0.95), "most": _at(waits, 1.0)} if waits else None,
        "used": used,
    }


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _utilisation(band: Band, end: float) -> float | None:
    """Used amount times time over nominal amount times time; above 1 where much was borrowed."""
    ends = [at for at, _ in band.steps[1:]] + [end]
    total = sum(used * (until - at) for (at, used), until in zip(band.steps, ends, strict=True))
    return round(total / (band.nominal * end), 3) if band.nominal and end else None


def table(told: Raw, *, most: int = 40) -> str:
    """The summary for a terminal: workloads in order of arrival (the first ``most``), then ClusterQueues."""
    rows: list[tuple[str, ...]] = [("JOB", "QUEUE", "ARRIVED", "WAITED", "STARTED", "ENDED", "RAN ON", "NOTE")]
    rows += [_workload_row(w) for w in told["workloads"][:most]]
    text = columns(rows)
    if len(told["workloads"]) > most:
        text += f"and {len(told['workloads']) - most} more workloads (-o json tells all)\n"
    for refused in told["refused"]:
        text += f"refused: Job {refused['job']}: {refused['message']}\n"
    queues: list[tuple[str, ...]] = [
        ("CLUSTERQUEUE", "WORKLOADS", "ADMITTED", "FINISHED", "PREEMPTED", "WAIT p50", "p95", "MOST", "USED")
    ]
    queues += [_queue_row(q) for q in told["clusterQueues"]]
    return text + "\n" + columns(queues) + f"\nThe simulation ends at {seconds(told['end'])}.\n"


def _workload_row(told: Raw) -> tuple[str, ...]:
    attempts = told["attempts"]
    last = attempts[-1] if attempts else None
    notes = [f"preempted at {seconds(a['ended'])} for {a['by']}" for a in attempts if "preempted" in a]
    if last is None or (last["ended"] is not None and told["finished"] is None):
        notes += [f"{w['reason']}: {w['message']}" for w in told["waits"][-1:]]
    notes += [f"warned: {warning}" for warning in told.get("warnings", ())]
    return (
        f"{told['namespace']}/{told['job']}",
        told["queue"],
        seconds(told["arrived"]),
        "-" if told["waited"] is None else seconds(told["waited"]),
        "-" if last is None else seconds(last["started"]),
        "-" if told["finished"] is None else seconds(told["finished"]),
        "-" if last is None else f"{last['clusterQueue']} {','.join(last['flavors'])}".strip(),
        "; ".join(notes),
    )


def _queue_row(told: Raw) -> tuple[str, ...]:
    wait = told["wait"]
    used = ", ".join(
        f"{u['resource']} in {u['flavor']} {u['utilisation']:.0%} of {u['nominal']}"
        for u in told["used"]
        if u["utilisation"] is not None
    )
    counts = (str(told[k]) for k in ("workloads", "admitted", "finished", "preempted"))
    waits = (seconds(wait[k]) if wait else "-" for k in ("median", "p95", "most"))
    return (told["name"], *counts, *waits, used)


def comparison(before: Raw, after: Raw) -> str:
    """The two summaries side by side: what the change does for each ClusterQueue, and for whom."""
    old = {q["name"]: q for q in before["clusterQueues"]}
    rows = [("CLUSTERQUEUE", "ADMITTED", "PREEMPTED", "WAIT p50", "WAIT p95", "WAIT MOST")]
    for queue in after["clusterQueues"]:
        was = old.get(queue["name"], {"admitted": 0, "preempted": 0, "wait": None})
        counts = (f"{was[k]} -> {queue[k]}" for k in ("admitted", "preempted"))
        waits = (f"{_wait(was, k)} -> {_wait(queue, k)}" for k in ("median", "p95", "most"))
        rows.append((queue["name"], *counts, *waits))
    text = columns(rows)
    moved = _moved(before["workloads"], after["workloads"])
    return text + ("".join(f"{line}\n" for line in moved) if moved else "No workload starts at another time.\n")


def _moved(before: Iterable[Raw], after: Iterable[Raw], *, most: int = 20) -> list[str]:
    """The workloads that wait longer or shorter, the largest change first."""
    then = {(w["namespace"], w["job"]): w["waited"] for w in before}
    changes = []
    for told in after:
        was, now = then.get((told["namespace"], told["job"])), told["waited"]
        if was != now:
            weight = float("inf") if was is None or now is None else abs(now - was)
            shown = [seconds(value) if value is not None else "never started" for value in (was, now)]
            changes.append((-weight, f"{told['namespace']}/{told['job']}", f"waits {shown[0]} -> {shown[1]}"))
    lines = [f"{name} {text}" for _, name, text in sorted(changes)[:most]]
    return lines + ([f"and {len(changes) - most} more"] if len(changes) > most else [])


def _wait(told: Raw, key: str) -> str:
    return seconds(told["wait"][key]) if told["wait"] else "-"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table; the last column is as wide as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = ("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)
