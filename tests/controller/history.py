"""A short history for tests: what it is made of, and how it is written."""

from __future__ import annotations

from pathlib import Path

from api.names import PreemptedReason
from controller.history.database import FILE, Database, Sqlite
from controller.history.schema import statements
from core.history.record import HistoryEntry, JobOrigin, QuotaRecord, entries
from core.model import Admission, FlavorResource, Key, PodSetAssignment, Workload, messages
from core.model.workload import replace
from core.workload import transitions
from tests.builders import workload

CPU = FlavorResource("default", "cpu")
COHORTS = {"cq-a": "team", "cq-b": "team"}
HOUR = 3600.0


def held(job: Workload, queue: str, cpu: int, at: float) -> Workload:
    admission = Admission(queue, (PodSetAssignment("main", {"cpu": "default"}, {"cpu": cpu}, 1),))
    return transitions.reserved(job, admission, at)


def life(*versions: tuple[float, Workload | None], user: str) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    before: Workload | None = None
    for at, version in versions:
        known = version or before
        assert known is not None
        found += entries(before, version, JobOrigin("Job", f"job-{known.key.name}", user, COHORTS), at)
        before = version
    return found


def recorded(directory: Path) -> Path:
    """The directory, with a file of the short history in it."""
    database = Sqlite(directory / FILE)
    try:
        write(database, short_history())
    finally:
        database.close()
    return directory


def short_history() -> list[HistoryEntry]:
    """Of ClusterQueues cq-a and cq-b, four CPUs each, in one cohort: ``low`` of alice borrows from cq-b for an hour,
    and is preempted by ``high`` of bob in another namespace, which waits half an hour and runs for an hour. ``low``
    runs again after an hour, until four hours have passed; ``next`` of alice waits all the time.
    """
    low = replace(workload("low", 6000, created=0.0), key=Key("one", "low"))
    first = held(low, "cq-a", 6000, 600.0)
    high = replace(workload("high", 4000, created=1_800.0, priority=10), key=Key("two", "high"))
    text = messages.preempted(high, PreemptedReason.IN_COHORT_RECLAMATION, "/team/cq-b", "/team/cq-a")
    gone = transitions.preempted(first, PreemptedReason.IN_COHORT_RECLAMATION, text, 3_600.0)
    released = transitions.released(gone, 4_200.0)
    second = held(released, "cq-a", 6000, 7_800.0)
    runs = held(high, "cq-b", 4000, 4_200.0)
    waits = transitions.waiting(
        replace(workload("next", 4000, created=900.0), key=Key("one", "next")),
        "WaitingForQuota",
        "4 of 8 are free",
        901.0,
    )
    done = transitions.finished
    quotas: list[HistoryEntry] = [QuotaRecord(name, "team", 0.0, {CPU: 4000}) for name in COHORTS]
    return [
        *quotas,
        *life((0.0, low), (600.0, first), (3_600.0, gone), user="alice"),
        *life((1_800.0, high), (4_200.0, runs), (7_800.0, done(runs, "Succeeded", "", 7_800.0)), user="bob"),
        *life((900.0, replace(waits, conditions=())), (901.0, waits), user="alice"),
        *[
            entry
            for old, new, at in (
                (gone, released, 4_200.0),
                (released, second, 7_800.0),
                (second, done(second, "Failed", "exit code 1", 14_400.0), 14_400.0),
            )
            for entry in entries(old, new, JobOrigin("Job", "job-low", "alice", COHORTS), at)
        ],
    ]


def write(database: Database, several: list[HistoryEntry], now: float = 14_400.0) -> None:
    database.write([each for entry in several for each in statements(entry, now)])
