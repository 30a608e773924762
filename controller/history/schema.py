"""The tables of the history, in SQL that SQLite and PostgreSQL both understand.

Times are seconds since the epoch, amounts are in base units (``core.model``). A column that is NULL has no value yet.
``uses`` repeats the columns by which use is grouped, so that a report reads one table. Every table has a key that
follows from the Workload, so that an entry may be written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict

from core.history.record import (
    DELETED,
    DeletedWorkload,
    HistoryEntry,
    LifeRecord,
    QuotaAttempt,
    QuotaRecord,
    Step,
    Use,
    UseEnd,
)

VERSION: Final = 1
TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value DOUBLE PRECISION NOT NULL)",
    """CREATE TABLE IF NOT EXISTS workloads (
        uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, job_kind TEXT NOT NULL, job TEXT NOT NULL,
        user_name TEXT NOT NULL, local_queue TEXT NOT NULL, cluster_queue TEXT NOT NULL, priority BIGINT NOT NULL,
        priority_class TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, finished DOUBLE PRECISION,
        outcome TEXT NOT NULL, message TEXT NOT NULL, ran DOUBLE PRECISION, changed DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS workloads_by_name ON workloads (namespace, name)",
    "CREATE INDEX IF NOT EXISTS workloads_by_job ON workloads (namespace, job)",
    "CREATE INDEX IF NOT EXISTS workloads_by_end ON workloads (finished)",
    "CREATE INDEX IF NOT EXISTS workloads_by_change ON workloads (changed)",
    """CREATE TABLE IF NOT EXISTS steps (
        uid TEXT NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
        at DOUBLE PRECISION NOT NULL, message TEXT NOT NULL, by_uid TEXT NOT NULL,
        PRIMARY KEY (uid, kind, reason, since))""",
    "CREATE INDEX IF NOT EXISTS steps_by_kind ON steps (kind, at)",
    """CREATE TABLE IF NOT EXISTS attempts (
        uid TEXT NOT NULL, reserved DOUBLE PRECISION NOT NULL, cluster_queue TEXT NOT NULL,
        queued DOUBLE PRECISION NOT NULL, admitted DOUBLE PRECISION, ready DOUBLE PRECISION, ended DOUBLE PRECISION,
        reason TEXT NOT NULL, PRIMARY KEY (uid, reserved))""",
    "CREATE INDEX IF NOT EXISTS attempts_by_admission ON attempts (admitted)",
    """CREATE TABLE IF NOT EXISTS uses (
        uid TEXT NOT NULL, flavor TEXT NOT NULL, resource TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION, amount BIGINT NOT NULL, namespace TEXT NOT NULL, user_name TEXT NOT NULL,
        local_queue TEXT NOT NULL, cluster_queue TEXT NOT NULL, cohort TEXT NOT NULL,
        PRIMARY KEY (uid, flavor, resource, since))""",
    "CREATE INDEX IF NOT EXISTS uses_by_end ON uses (until)",
    """CREATE TABLE IF NOT EXISTS quotas (
        cluster_queue TEXT NOT NULL, flavor TEXT NOT NULL, resource TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION, nominal BIGINT NOT NULL, cohort TEXT NOT NULL,
        PRIMARY KEY (cluster_queue, cohort, flavor, resource, since))""",
)
META: Final = (
    "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_WORKLOAD: Final = """INSERT INTO workloads (uid, namespace, name, job_kind, job, user_name, local_queue, cluster_queue,
    priority, priority_class, created, finished, outcome, message, ran, changed)
    VALUES (:uid, :namespace, :name, :job_kind, :job, :user, :local_queue, :cluster_queue, :priority, :priority_class,
    :created, :finished, :outcome, :message, :ran, :changed)
    ON CONFLICT (uid) DO UPDATE SET
    job_kind = CASE WHEN excluded.job_kind = '' THEN workloads.job_kind ELSE excluded.job_kind END,
    job = CASE WHEN excluded.job = '' THEN workloads.job ELSE excluded.job END,
    user_name = CASE WHEN workloads.user_name = '' THEN excluded.user_name ELSE workloads.user_name END,
    cluster_queue = CASE WHEN excluded.cluster_queue = '' THEN workloads.cluster_queue ELSE excluded.cluster_queue END,
    local_queue = excluded.local_queue, priority = excluded.priority, priority_class = excluded.priority_class,
    finished = COALESCE(excluded.finished, workloads.finished),
    outcome = CASE WHEN excluded.outcome = '' THEN workloads.outcome ELSE excluded.outcome END,
    message = CASE WHEN excluded.outcome = '' THEN workloads.message ELSE excluded.message END,
    ran = COALESCE(excluded.ran, workloads.ran), changed = excluded.changed"""
MOST_STEPS: Final = 300
"""Steps of one workload: a client that may write its status could add one every second."""
_STEP: Final = f"""INSERT INTO steps (uid, kind, reason, since, at, message, by_uid)
    SELECT CAST(:uid AS TEXT), CAST(:kind AS TEXT), CAST(:reason AS TEXT), CAST(:since AS DOUBLE PRECISION),
    CAST(:at AS DOUBLE PRECISION), CAST(:message AS TEXT), CAST(:by AS TEXT)
    WHERE (SELECT COUNT(*) FROM steps WHERE uid = CAST(:uid AS TEXT)) < {MOST_STEPS}
    ON CONFLICT (uid, kind, reason, since) DO UPDATE SET message = excluded.message"""
_ATTEMPT: Final = """INSERT INTO attempts (uid, reserved, cluster_queue, queued, admitted, ready, ended, reason)
    VALUES (:uid, :reserved, :cluster_queue, :queued, :admitted, :ready, :ended, :reason)
    ON CONFLICT (uid, reserved) DO UPDATE SET
    admitted = COALESCE(attempts.admitted, excluded.admitted), ready = COALESCE(attempts.ready, excluded.ready),
    ended = COALESCE(attempts.ended, excluded.ended),
    reason = CASE WHEN attempts.reason = '' THEN excluded.reason ELSE attempts.reason END"""
_USE: Final = """INSERT INTO uses (uid, flavor, resource, since, until, amount, namespace, user_name, local_queue,
    cluster_queue, cohort)
    VALUES (:uid, :flavor, :resource, :since, NULL, :amount, :namespace, :user, :local_queue, :cluster_queue, :cohort)
    ON CONFLICT (uid, flavor, resource, since) DO UPDATE SET amount = excluded.amount, until = NULL"""
_USE_END: Final = """UPDATE uses SET until = CASE WHEN since > :until THEN since ELSE :until END
    WHERE uid = :uid AND until IS NULL"""
_GONE: Final = (
    f"""UPDATE workloads SET finished = CASE WHEN created > :at THEN created ELSE :at END, outcome = '{DELETED}',
    changed = :changed WHERE uid = :uid AND finished IS NULL""",
    f"""UPDATE attempts SET ended = CASE WHEN reserved > :at THEN reserved ELSE :at END, reason = '{DELETED}'
    WHERE uid = :uid AND ended IS NULL""",
    _USE_END.replace(":until", ":at"),
)
_QUOTA_END: Final = """UPDATE quotas SET until = :since WHERE cluster_queue = :cluster_queue
    AND (cluster_queue <> '' OR cohort = :cohort) AND until IS NULL"""
_QUOTA: Final = """INSERT INTO quotas (cluster_queue, flavor, resource, since, until, nominal, cohort)
    VALUES (:cluster_queue, :flavor, :resource, :since, NULL, :nominal, :cohort)
    ON CONFLICT (cluster_queue, cohort, flavor, resource, since) DO UPDATE SET nominal = excluded.nominal,
    until = NULL"""
Statement = tuple[str, Mapping[str, Any]]


def statements(entry: HistoryEntry, now: float) -> list[Statement]:
    """Returns what writes an entry."""
    match entry:
        case LifeRecord():
            return [(_WORKLOAD, {**asdict(entry), "changed": now})]
        case Step():
            return [(_STEP, asdict(entry))]
        case QuotaAttempt():
            return [(_ATTEMPT, asdict(entry))]
        case Use():
            return [(_USE, asdict(entry))]
        case UseEnd():
            return [(_USE_END, asdict(entry))]
        case DeletedWorkload(uid, at):
            values, first, *others = {"uid": uid, "at": at}, *_GONE
            return [(first, {**values, "changed": now}), *((each, values) for each in others)]
        case QuotaRecord(cluster_queue, cohort, since, nominal):
            known = {"cluster_queue": cluster_queue, "cohort": cohort, "since": since}
            return [
                (_QUOTA_END, known),
                *((_QUOTA, {**known, **fr._asdict(), "nominal": amount}) for fr, amount in nominal.items()),
            ]
