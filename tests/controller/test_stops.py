"""What a process remembers of the starts of jobs, and how it learns that the pods of a stopped one are gone."""

from __future__ import annotations

from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.reconcilers.stops import LONGEST_WAIT_SECONDS, Stops
from controller.run.watched import rows
from core.jobs.actions import AwaitPods
from core.jobs.kinds import BATCH_JOB, JOB_SET
from core.jobs.stopping import LastStart
from core.model import Key, Raw
from core.state.state import State
from tests.controller.test_departures import Api
from tests.core.jobs.samples import admitted, job, workload_of

KEY, UID = Key("ns", "j"), "job-uid"
WORKLOAD = admitted(workload_of(job()))
LISTED = AwaitPods(KEY, UID)
NOW = 100.0


def stops(pods: int = 0, *, has_quota: bool = True) -> tuple[Stops, Api]:
    api, caches = Api(pods), Caches(State(), rows([BATCH_JOB, JOB_SET]))
    caches.workloads.observe("ADDED", WORKLOAD if has_quota else workload_of(job()))
    caches.start()
    return Stops(BATCH_JOB, caches, Writer(api, caches.stores), lambda: NOW), api  # type: ignore[arg-type]


def observed(found: Stops, suspend: bool, **status: object) -> LastStart | None:
    return found.observe(KEY, job(suspend=suspend, status=status), (), [WORKLOAD])


def suspended(status: str) -> list[Raw]:
    return [{"type": "Suspended", "status": status}]


async def test_nothing_is_remembered_of_jobs_that_wait_or_that_are_seen_to_run() -> None:
    found, api = stops()
    assert observed(found, True) is None
    assert observed(found, False) == LastStart(UID), "an earlier process has started it"
    assert observed(found, False, conditions=suspended("False"), terminating=0) is None
    assert observed(found, True, conditions=suspended("True"), terminating=0) is None
    assert api.asked == [], "and nothing is asked"


async def test_a_start_is_remembered_until_its_job_is_known_to_be_stopped() -> None:
    found, _ = stops()
    found.started(KEY, job())
    assert observed(found, True, conditions=suspended("True"), terminating=0) == LastStart(UID, held_since=NOW)
    found.asked(KEY)
    assert observed(found, True, terminating=0) == LastStart(UID, held_since=NOW, asked=True)
    released, _ = stops(has_quota=False)
    released.started(KEY, job())
    assert observed(released, True) is None


async def test_a_new_process_takes_held_jobs_with_quota_for_stopped_ones() -> None:
    found, _ = stops()
    await found.begin([job()], lambda key: True)
    assert observed(found, True) == LastStart(UID, held_since=NOW, asked=True)
    other, _ = stops()
    await other.begin([job()], lambda key: False)
    assert observed(other, True) is None


async def test_pods_of_a_stopped_job_are_listed_after_waits_that_double() -> None:
    found, api = stops(pods=2)
    found.started(KEY, job())
    assert [await found.look(LISTED) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_WAIT_SECONDS]
    api.pods = 0
    assert await found.look(LISTED) == 0.0
    assert UID in found.gone
    found.started(KEY, job())
    assert UID not in found.gone, "it has started again"
