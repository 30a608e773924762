"""The questions that the history answers, for `report`, the page and the visibility API.

Each is a function of a database and of what the reader may see (``Sight``): rows of namespaces that he may not read are
left out, and a preemptor of such a namespace has no name. They block, so the server asks in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from controller.history.database import Database, DatabaseRow
from core.explain.sight import EVERYTHING, Sight
from core.history.record import LifeRecord, QuotaAttempt, Step
from core.history.report import Idle, SeriesByGroup, Spans, Window, fairness, idle, series, total
from core.model import FlavorResource, Key

MOST_ROWS: Final = 1_000
"""Rows of a list at most."""


class GroupedBy(StrEnum):
    """What use and waits are grouped by."""

    QUEUE = "queue"
    COHORT = "cohort"
    NAMESPACE = "namespace"
    USER = "user"
    LOCAL_QUEUE = "localqueue"


_COLUMNS: Final = {
    GroupedBy.QUEUE: "cluster_queue",
    GroupedBy.COHORT: "cohort",
    GroupedBy.NAMESPACE: "namespace",
    GroupedBy.USER: "user_name",
    GroupedBy.LOCAL_QUEUE: "namespace || '/' || local_queue",
}
_TREE: Final = "CASE WHEN cohort = '' THEN cluster_queue ELSE cohort END"
_OF_WORKLOADS: Final = {
    **_COLUMNS,
    GroupedBy.COHORT: "COALESCE((SELECT MAX(q.cohort) FROM quotas q WHERE q.cluster_queue = w.cluster_queue"
    " AND q.until IS NULL), '')",
}
"""The same where the columns are those of ``workloads``, which change with each attempt."""


class HeldUse(NamedTuple):
    """What a workload held in one span of time; ``until`` is None while it holds it."""

    flavor: str
    resource: str
    amount: int
    cluster_queue: str
    since: float
    until: float | None


class LifeStory(Struct, frozen=True):
    """The life of one workload, each part in the order of time. ``preemptors`` are those of its steps, by uid, as far
    as they are known and may be named.
    """

    workload: LifeRecord
    steps: tuple[Step, ...]
    attempts: tuple[QuotaAttempt, ...]
    uses: tuple[HeldUse, ...]
    preemptors: Mapping[str, NamedWorkload]


class NamedWorkload(NamedTuple):
    """A workload, its job and its user, as the history names them."""

    key: Key
    job_kind: str
    job: str
    user: str
    cluster_queue: str


class Preempted(NamedTuple):
    """Who preempted whom, by which rule (the reason of the condition Preempted); ``by`` is None if the preemptor is not
    known or may not be named.
    """

    at: float
    rule: str
    victim: NamedWorkload
    by: NamedWorkload | None
    message: str


class Waits(NamedTuple):
    """How long the workloads of a group waited until they were admitted, those that were admitted in the window."""

    group: str
    admitted: int
    p50: float
    p90: float
    longest: float


class Ends(NamedTuple):
    """How many workloads of a group ended in the window, and how many were evicted."""

    group: str
    finished: int
    failed: int
    preempted: int
    evicted: int


class ReportLine(Struct, frozen=True):
    """What a report says of one group. ``hours`` are amounts times hours."""

    group: str
    hours: Mapping[FlavorResource, float]
    waits: Waits | None
    ends: Ends


class Report(Struct, frozen=True):
    """All that `seiretsu report` shows. ``waited`` has how many waited in each part, under an empty flavor and
    resource; ``idle`` is empty for a reader who may not see ClusterQueues.
    """

    window: Window
    by: GroupedBy
    lines: tuple[ReportLine, ...]
    used: SeriesByGroup
    waited: SeriesByGroup
    fairness: tuple[float | None, ...]
    nominal: SeriesByGroup
    idle: tuple[Idle, ...]
    preemptions: tuple[Preempted, ...]


def story(database: Database, key: Key, sight: Sight = EVERYTHING, uid: str = "") -> LifeStory | None:
    """Returns the life of the newest workload with a name, or whose job has this name; of another one by its ``uid``.
    None if none is known, or its namespace may not be read.
    """
    if not sight.names(key):
        return None
    values = {"namespace": key.namespace, "name": key.name, "uid": uid}
    chosen = "uid = :uid" if uid else "(name = :name OR job = :name)"
    found = database.rows(
        f"SELECT {_WORKLOAD_COLUMNS} FROM workloads WHERE namespace = :namespace AND {chosen}"
        " ORDER BY created DESC, uid LIMIT 1",
        values if uid else {name: values[name] for name in ("namespace", "name")},
    )
    if not found:
        return None
    about = LifeRecord(*found[0])
    mine = {"uid": about.uid}
    steps = tuple(
        Step(*row)
        for row in database.rows(
            "SELECT uid, kind, reason, since, at, message, by_uid FROM steps WHERE uid = :uid ORDER BY at, since, kind",
            mine,
        )
    )
    attempts = database.rows(
        "SELECT uid, reserved, cluster_queue, queued, admitted, ready, ended, reason FROM attempts WHERE uid = :uid"
        " ORDER BY reserved",
        mine,
    )
    uses = database.rows(
        "SELECT flavor, resource, amount, cluster_queue, since, until FROM uses WHERE uid = :uid"
        " ORDER BY since, flavor, resource",
        mine,
    )
    by = _named(database, {step.by for step in steps if step.by}, sight)
    return LifeStory(
        about, steps, tuple(QuotaAttempt(*row) for row in attempts), tuple(HeldUse(*row) for row in uses), by
    )


def finished(
    database: Database, over: Window, sight: Sight = EVERYTHING, *, cluster_queue: str = "", offset: int = 0
) -> list[LifeRecord]:
    """Returns the workloads that finished in a window, the newest first."""
    where, values = _seen(sight)
    chosen = " AND cluster_queue = :cluster_queue" if cluster_queue else ""
    found = database.rows(
        f"SELECT {_WORKLOAD_COLUMNS} FROM workloads WHERE finished >= {over.start!r} AND finished < {over.end!r}"
        f"{where}{chosen} ORDER BY finished DESC, uid LIMIT {MOST_ROWS} OFFSET {int(offset)}",
        {**values, **({"cluster_queue": cluster_queue} if cluster_queue else {})},
    )
    return [LifeRecord(*row) for row in found]


def use_over_time(database: Database, over: Window, by: GroupedBy, sight: Sight = EVERYTHING) -> SeriesByGroup:
    """Returns for each group, flavor and resource the amount times seconds in each part of the window. Who may not read
    other namespaces sees the use of his own.
    """
    where, values = _seen(sight)
    spans = _spans(
        database, over, _COLUMNS[by], "flavor, resource", "since", "until", "amount", f"uses WHERE TRUE{where}", values
    )
    return series(spans, over)


def quota_over_time(database: Database, over: Window, by: GroupedBy = GroupedBy.QUEUE) -> SeriesByGroup:
    """Returns the nominal quota in the same form: of each ClusterQueue; or by cohort, with that of Cohorts themselves,
    where a ClusterQueue without a cohort is a group of its own.
    """
    group, chosen = ("cluster_queue", " AND cluster_queue <> ''") if by is GroupedBy.QUEUE else (_TREE, "")
    table = f"quotas WHERE TRUE{chosen}"
    return series(_spans(database, over, group, "flavor, resource", "since", "until", "nominal", table, {}), over)


def waiting_over_time(database: Database, over: Window, by: GroupedBy, sight: Sight = EVERYTHING) -> SeriesByGroup:
    """Returns for each group how many workloads waited, times seconds, under an empty flavor and resource; those that
    waited, and were admitted or ended after the window began.
    """
    where, values = _seen(sight, "w.")
    table = (
        f"(SELECT w.*, a.queued AS begins, COALESCE(a.admitted, a.ended) AS stops FROM attempts a"
        f" JOIN workloads w ON w.uid = a.uid WHERE TRUE{where}"
        f" UNION ALL SELECT w.*, w.created AS begins, w.finished AS stops FROM workloads w"
        f" WHERE NOT EXISTS (SELECT 1 FROM attempts a WHERE a.uid = w.uid){where}) AS w"
    )
    spans = _spans(database, over, _OF_WORKLOADS[by], "'', ''", "begins", "stops", "1", f"{table} WHERE TRUE", values)
    return series(spans, over)


def preemptions(
    database: Database, over: Window, sight: Sight = EVERYTHING, *, cluster_queue: str = "", limit: int = MOST_ROWS
) -> list[Preempted]:
    """Returns who preempted whom in a window, the newest first: victims that the reader may see."""
    where, values = _seen(sight, "w.")
    chosen = " AND w.cluster_queue = :cluster_queue" if cluster_queue else ""
    found = database.rows(
        "SELECT s.at, s.reason, s.message, s.by_uid, w.namespace, w.name, w.job_kind, w.job, w.user_name,"
        " w.cluster_queue FROM steps s JOIN workloads w ON w.uid = s.uid"
        f" WHERE s.kind = 'Preempted' AND s.at >= {over.start!r} AND s.at < {over.end!r}{where}{chosen}"
        f" ORDER BY s.at DESC, s.uid LIMIT {min(int(limit), MOST_ROWS)}",
        {**values, **({"cluster_queue": cluster_queue} if cluster_queue else {})},
    )
    by = _named(database, {row[3] for row in found if row[3]}, sight)
    return [
        Preempted(
            at, rule, NamedWorkload(Key(namespace, name), *others), by.get(uid), message if sight == EVERYTHING else ""
        )
        for at, rule, message, uid, namespace, name, *others in found
    ]


def waits(database: Database, over: Window, by: GroupedBy, sight: Sight = EVERYTHING) -> dict[str, Waits]:
    """Returns how long the workloads of each group waited: p50 and p90 are waits that occurred."""
    where, values = _seen(sight, "w.")
    group = _OF_WORKLOADS[by] if by is not GroupedBy.QUEUE else "a.cluster_queue"
    found = database.rows(
        "SELECT grp, MAX(n), MAX(CASE WHEN r = (n + 1) / 2 THEN wait END),"
        " MAX(CASE WHEN r = (9 * n + 9) / 10 THEN wait END), MAX(wait) FROM ("
        "SELECT grp, wait, ROW_NUMBER() OVER (PARTITION BY grp ORDER BY wait) AS r,"
        f" COUNT(*) OVER (PARTITION BY grp) AS n FROM (SELECT {_qualified(group)} AS grp, a.admitted - a.queued AS wait"
        " FROM attempts a JOIN workloads w ON w.uid = a.uid"
        f" WHERE a.admitted >= {over.start!r} AND a.admitted < {over.end!r}{where}) AS one) AS ranked GROUP BY grp",
        values,
    )
    return {row[0]: Waits(*row) for row in found}


def ends(database: Database, over: Window, by: GroupedBy, sight: Sight = EVERYTHING) -> dict[str, Ends]:
    """Returns how many workloads of each group finished, failed and were evicted."""
    where, values = _seen(sight, "w.")
    group = _qualified(_OF_WORKLOADS[by])
    done = database.rows(
        f"SELECT {group} AS grp, COUNT(*), SUM(CASE WHEN outcome = 'Failed' THEN 1 ELSE 0 END) FROM workloads w"
        f" WHERE finished >= {over.start!r} AND finished < {over.end!r}{where} GROUP BY 1",
        values,
    )
    evicted = database.rows(
        f"SELECT {group} AS grp, SUM(CASE WHEN s.kind = 'Preempted' THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN s.kind = 'Evicted' THEN 1 ELSE 0 END) FROM steps s JOIN workloads w ON w.uid = s.uid"
        f" WHERE s.kind IN ('Preempted', 'Evicted') AND s.at >= {over.start!r} AND s.at < {over.end!r}{where}"
        " GROUP BY 1",
        values,
    )
    found = {row[0]: Ends(row[0], int(row[1]), int(row[2]), 0, 0) for row in done}
    for group_name, preempted, all_of_them in evicted:
        before = found.get(group_name, Ends(group_name, 0, 0, 0, 0))
        found[group_name] = before._replace(preempted=int(preempted), evicted=int(all_of_them))
    return found


def report(database: Database, over: Window, by: GroupedBy, sight: Sight = EVERYTHING) -> Report:
    """Returns everything that a report shows."""
    used = use_over_time(database, over, by, sight)
    waited, ended = waits(database, over, by, sight), ends(database, over, by, sight)
    groups = sorted({*(name for name, _ in used), *waited, *ended})
    wide = sight.namespaces is None and sight.cluster_queues
    nominal = quota_over_time(database, over) if wide else {}
    waiting = waiting_over_time(database, over, by, sight)
    entitled = _entitled(nominal) if by is GroupedBy.QUEUE and wide else None
    return Report(
        window=over,
        by=by,
        lines=tuple(
            ReportLine(name, total(used, name), waited.get(name), ended.get(name, Ends(name, 0, 0, 0, 0)))
            for name in groups
        ),
        used=used,
        waited=waiting,
        fairness=tuple(fairness(used, entitled, waiting, over)),
        nominal=nominal,
        idle=tuple(_idle(database, over)) if wide else (),
        preemptions=tuple(preemptions(database, over, sight, limit=100)),
    )


def _idle(database: Database, over: Window) -> list[Idle]:
    spans = _spans(database, over, _TREE, "flavor, resource", "since", "until", "amount", "uses WHERE TRUE", {})
    return idle(quota_over_time(database, over, GroupedBy.COHORT), series(spans, over))


def open_uses(database: Database) -> dict[str, dict[FlavorResource, int]]:
    """Returns what workloads hold as far as the history knows, by uid."""
    found: dict[str, dict[FlavorResource, int]] = {}
    for uid, flavor, resource, amount in database.rows(
        "SELECT uid, flavor, resource, amount FROM uses WHERE until IS NULL", {}
    ):
        found.setdefault(uid, {})[FlavorResource(flavor, resource)] = int(amount)
    return found


def open_quotas(database: Database) -> dict[tuple[str, str], tuple[str, dict[FlavorResource, int]]]:
    """Returns the quota as far as the history knows: cohort and nominal quota, by the keys of
    ``core.history.record.quotas``.
    """
    found: dict[tuple[str, str], tuple[str, dict[FlavorResource, int]]] = {}
    for queue, cohort, flavor, resource, nominal in database.rows(
        "SELECT cluster_queue, cohort, flavor, resource, nominal FROM quotas WHERE until IS NULL", {}
    ):
        known = found.setdefault((queue, "" if queue else cohort), (cohort, {}))
        known[1][FlavorResource(flavor, resource)] = int(nominal)
    return found


def unfinished(database: Database) -> set[str]:
    """Returns the uids of the workloads that have not ended as far as the history knows."""
    return {row[0] for row in database.rows("SELECT uid FROM workloads WHERE finished IS NULL", {})}


_WORKLOAD_COLUMNS: Final = (
    "uid, namespace, name, job_kind, job, user_name, local_queue, cluster_queue, priority, priority_class, created,"
    " finished, outcome, message, ran"
)


def _named(database: Database, uids: Iterable[str], sight: Sight) -> dict[str, NamedWorkload]:
    wanted = sorted(uids)
    found: dict[str, NamedWorkload] = {}
    for place in range(0, len(wanted), 500):
        values = {f"u{number}": uid for number, uid in enumerate(wanted[place : place + 500])}
        for uid, namespace, *others in database.rows(
            "SELECT uid, namespace, name, job_kind, job, user_name, cluster_queue FROM workloads"
            f" WHERE uid IN ({', '.join(f':{name}' for name in values)})",
            values,
        ):
            key = Key(namespace, others[0])
            if sight.names(key):
                found[uid] = NamedWorkload(key, *others[1:])
    return found


def _seen(sight: Sight, prefix: str = "") -> tuple[str, dict[str, Any]]:
    """The condition of the rows that a reader may see, and the values in it."""
    if sight.namespaces is None:
        return "", {}
    values = {f"n{number}": name for number, name in enumerate(sorted(sight.namespaces))}
    names = ", ".join(f":{name}" for name in values) or "NULL"
    return f" AND {prefix}namespace IN ({names})", values


def _qualified(group: str) -> str:
    """The expression of a group with the columns of ``workloads w``, where other tables have such columns too."""
    return "w.namespace || '/' || w.local_queue" if "||" in group else group if "." in group else f"w.{group}"


def _spans(
    database: Database,
    over: Window,
    group: str,
    cell: str,
    begins: str,
    ends_: str,
    weight: str,
    table: str,
    values: Mapping[str, Any],
) -> Iterable[Spans]:
    """Adds up the spans of a table that overlap a window, by group and by the parts in which they begin and end."""
    length = over.end - over.start
    part = [database.floor(f"{each} / {over.step!r}") for each in ("b", "e")]
    flavor, resource = cell.split(", ")
    rows: list[DatabaseRow] = database.rows(
        f"SELECT grp, flavor, resource, {part[0]}, {part[1]}, SUM(v), SUM(v * b), SUM(v * e) FROM ("
        f"SELECT {group} AS grp, {flavor} AS flavor, {resource} AS resource, CAST({weight} AS DOUBLE PRECISION) AS v,"
        f" CASE WHEN {begins} < {over.start!r} THEN 0.0 ELSE {begins} - {over.start!r} END AS b,"
        f" CASE WHEN {ends_} IS NULL OR {ends_} > {over.end!r} THEN {length!r} ELSE {ends_} - {over.start!r} END AS e"
        f" FROM {table} AND {begins} < {over.end!r} AND ({ends_} IS NULL OR {ends_} > {over.start!r})) AS spans"
        " WHERE e > b GROUP BY grp, flavor, resource, 4, 5",
        values,
    )
    return [Spans(g, f, r, int(i), int(j), float(v), float(b), float(e)) for g, f, r, i, j, v, b, e in rows]


def _entitled(nominal: SeriesByGroup) -> dict[str, float]:
    """The largest share that each ClusterQueue has of the quota of a resource; 0 if it has none of its own."""
    totals: dict[str, float] = {}
    for (_, fr), parts in nominal.items():
        totals[fr.resource] = totals.get(fr.resource, 0.0) + sum(parts)
    mine: dict[str, dict[str, float]] = {}
    for (name, fr), parts in nominal.items():
        shares = mine.setdefault(name, {})
        if totals[fr.resource] > 0:
            shares[fr.resource] = shares.get(fr.resource, 0.0) + math.fsum(parts) / totals[fr.resource]
    return {name: max(shares.values(), default=0.0) for name, shares in mine.items()}
