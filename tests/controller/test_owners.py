"""Owners of jobs that are not watched are read once, and the jobs below them are reconciled then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.objects import Resource
from controller.cache.caches import Caches
from controller.cache.owners import Owners
from controller.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from controller.run.watched import rows
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.sparkapplication import SPARK_APPLICATION
from core.jobs.kinds.trainjob import TRAIN_JOB
from core.jobs.owners import KNOWN
from core.model import Raw
from core.model.owner import Level, Owner, Reference
from core.state.state import State
from tests.core.jobs.samples import job
from tests.eventually import PATIENCE

SET = Reference("jobset.x-k8s.io", "v1alpha2", "JobSet", "set", "set-uid")
JOB = Reference("batch", "v1", "Job", "j", "job-uid")
WRAPPED: Raw = {
    "metadata": {
        "uid": "set-uid",
        "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": True}
        ],
    }
}


class Answers:
    """An API server that answers with these, one after the other."""

    def __init__(self, *answers: Raw | ApiError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str = "", **_: Any) -> Raw:
        self.asked.append(resource.path(namespace, name))
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


async def learn(owners: Owners, owner: Reference) -> list[Owner]:
    """Asks about an owner, and waits until it is known; returns whose jobs were woken."""
    woken, known = [], asyncio.Event()

    def wake(owner: Owner) -> None:
        woken.append(owner)
        known.set()

    owners.wake = wake
    assert owners.look("ns", owner) is None
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        running = group.create_task(owners.run())
        await known.wait()
        running.cancel()
    return woken


def owners_of(*answers: Raw | ApiError) -> tuple[Owners, Answers]:
    caches, api = Caches(State(), rows([BATCH_JOB, APP_WRAPPER])), Answers(*answers)
    return Owners(caches, api), api  # type: ignore[arg-type]


async def test_an_owner_of_a_kind_that_is_not_enabled_is_read_once_and_wakes_what_is_below_it() -> None:
    owners, api = owners_of(WRAPPED)
    assert await learn(owners, SET) == [Owner("jobset.x-k8s.io", "JobSet", "ns", "set")]
    above = Reference("apps", "v1", "ReplicaSet", "r", "r-uid")
    assert owners.look("ns", SET) == Level("set-uid", above, named=True, queueable=False)
    assert owners.look("elsewhere", SET) is None
    assert api.asked == ["/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/set"]


def read_with(*enabled: JobKind, external: bool = False) -> set[str]:
    """The kinds of which owners are read if these are enabled."""
    owners = Owners(Caches(State(), rows(enabled)), external=external)
    found = set()
    for group, kind in KNOWN:
        if owners.look("ns", Reference(group, "v1", kind, "o", "u")) is None:
            found.add(kind)
    return found


def test_an_owner_is_read_only_if_something_above_it_may_be_queued() -> None:
    """The chart gives no other right; without them the way up ends there."""
    assert read_with(BATCH_JOB) == {"Job"}
    assert read_with(TRAIN_JOB) == {"TrainJob", "JobSet", "Job"}
    assert read_with(SPARK_APPLICATION) == {"SparkApplication", "Pod"}, "drivers own executors"
    every = {kind for _, kind in KNOWN}
    assert read_with(APP_WRAPPER) == read_with(*ALL) == read_with(BATCH_JOB, external=True) == every
    nothing = Owners(Caches(State(), rows([BATCH_JOB]))).look("ns", SET)
    assert nothing == Level("")


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), Forbidden(403, "Forbidden", "no")])
async def test_an_owner_that_cannot_be_read_ends_the_way_up(error: ApiError) -> None:
    owners, _ = owners_of(error)
    await learn(owners, SET)
    assert owners.look("ns", SET) == Level("", gone=isinstance(error, NotFound))


DENIED = Forbidden(403, "Forbidden", "no")
OTHER = SET._replace(name="other")


async def test_an_owner_that_may_not_be_read_is_read_again_after_waits_that_double() -> None:
    owners, api = owners_of(*[DENIED] * 6, WRAPPED)
    woken: list[Owner] = []
    owners.wake = woken.append
    assert [await owners._learn(("ns", SET)) for _ in range(6)] == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    assert owners.look("ns", SET) == Level("")
    assert len(woken) == 1
    for _ in range(2):
        assert await owners._learn(("ns", SET)) is None
        found = owners.look("ns", SET)
        assert found is not None
        assert found.uid == "set-uid"
    assert (len(woken), len(api.asked)) == (2, 7)


async def test_of_many_owners_that_may_not_be_read_one_is_read_again_and_the_others_when_that_succeeds() -> None:
    owners, api = owners_of(DENIED, DENIED, WRAPPED, WRAPPED)
    assert await owners._learn(("ns", SET)) is not None
    assert await owners._learn(("ns", OTHER)) is None
    assert await owners._learn(("ns", SET)) is None
    assert ("ns", OTHER) in owners.queue
    assert owners.look("ns", OTHER) is None, "a job below it is decided when it was read"
    assert await owners._learn(("ns", OTHER)) is None
    assert [path.rpartition("/")[2] for path in api.asked] == ["set", "other", "set", "other"]


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "later"), Unauthorized(401, "Unauthorized", "who?")])
async def test_an_owner_is_read_again_after_an_interruption(error: ApiError) -> None:
    owners, api = owners_of(error, WRAPPED)
    await learn(owners, SET)
    assert len(api.asked) == 2


async def test_a_job_that_the_watch_has_not_shown_yet_is_read_and_the_store_counts_afterwards() -> None:
    owners, api = owners_of(job())
    await learn(owners, JOB)
    assert owners.look("ns", JOB) == Level("job-uid", named=True, queueable=True)
    ended = job(status={"conditions": [{"type": "Complete", "status": "True"}]})
    owners.caches.stores[BATCH_JOB.resource].observe("ADDED", ended)
    assert owners.look("ns", JOB) == Level("job-uid", named=True)
    assert len(api.asked) == 1
    owners.caches.stores[BATCH_JOB.resource].observe("DELETED", ended)
    assert owners.look("ns", JOB) is None, "it is read again: what was read is older than its end"


def alone(name: str) -> Raw:
    """An owner that nothing controls."""
    return {"metadata": {"uid": f"u-{name}"}}


async def test_of_too_many_owners_those_are_forgotten_that_were_not_asked_for_for_the_longest_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were all forgotten together, all would be read again together, and pods below them wait meanwhile."""
    monkeypatch.setattr("controller.cache.owners.MOST", 3)
    names = ["a", "b", "c", "d", "e"]
    owners, api = owners_of(*map(alone, names), alone("b"))
    asked = {name: SET._replace(name=name) for name in names}
    for name in names:
        await owners._learn(("ns", asked[name]))
        assert owners.look("ns", asked["a"]) == Level("u-a"), "it is asked for all the time"
    assert [name for name in names if ("ns", asked[name]) in owners._read] == ["a", "d", "e"]
    assert owners.look("ns", asked["b"]) is None
    await owners._learn(("ns", asked["b"]))
    assert owners.look("ns", asked["b"]) == Level("u-b")
    assert len(api.asked) == 6


async def test_an_owner_that_is_forgotten_is_not_looked_for_below_others_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.cache.owners.MOST", 1)
    owners, _ = owners_of(WRAPPED, alone("other"))
    await owners._learn(("ns", SET))
    above = Owner("apps", "ReplicaSet", "ns", "r")
    assert owners.below(above) == [Owner("jobset.x-k8s.io", "JobSet", "ns", "set")]
    await owners._learn(("ns", OTHER))
    assert (owners.below(above), owners._below) == ([], {})


async def test_of_owners_that_may_not_be_read_one_is_still_read_again_when_the_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.cache.owners.MOST", 2)
    owners, _ = owners_of(DENIED, DENIED, DENIED, DENIED, alone("third"), alone("fourth"))
    third, fourth = SET._replace(name="third"), JOB._replace(name="fourth")
    for each in (SET, OTHER, third):
        await owners._learn(("ns", each))
    assert list(owners.queue) == [("ns", OTHER)]
    assert await owners._learn(("ns", OTHER)) is not None
    for each in (third, fourth):
        await owners._learn(("ns", each))
    assert len(owners._read) == 2
