"""Which object is queued instead of a job: the outermost managed one above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.jobs.kinds import ALL, BATCH_JOB, JOB_SET
from core.jobs.owners import KNOWN, MOST_LEVELS, Nesting, NestingError, lets_run, level, level_or_workload, nesting
from core.jobs.pod_owners import LEADER_WORKER_SET
from core.model import Key, Raw, Workload
from core.model.owner import Level, Owner, Reference
from core.workload import transitions
from tests.core.jobs.samples import job

EXTERNAL = frozenset({("Wrapper", "example.com")})


def owner(name: str, kind: str = "jobset.x-k8s.io/JobSet", uid: str | None = None) -> Reference:
    group, _, word = kind.rpartition("/")
    return Reference(group, "v1", word, name, name if uid is None else uid)


def below(*owners: Reference, **levels: Level) -> tuple[Raw, Mapping[Reference, Level]]:
    """A job below the first of them, which is below the second, and so on; ``levels`` by name add what is known."""
    first = owners[0]
    found = job()
    reference = {"apiVersion": f"{first.group}/{first.version}".lstrip("/"), "kind": first.kind, "name": first.name}
    found["metadata"]["ownerReferences"] = [{**reference, "uid": first.uid, "controller": True}]
    above = dict(zip(owners, (*owners[1:], None), strict=True))
    known = {each: levels.get(each.name, Level(each.name)) for each in owners}
    return found, {each: value._replace(above=above[each]) for each, value in known.items()}


def ancestor(*owners: Reference, without_queue_name: bool = False, **levels: Level) -> str | None:
    found, known = below(*owners, **levels)
    where = nesting(found, known.get, EXTERNAL, without_queue_name=without_queue_name)
    assert where.unread is None
    return where.ancestor and where.ancestor.name


SET, WRAPPER = owner("set"), owner("wrapper", "workload.codeflare.dev/AppWrapper")
NAMED, NAMELESS, DISABLED = Level("", named=True, queueable=True), Level("", queueable=True), Level("", named=True)


def known(name: str, value: Level) -> Level:
    return value._replace(uid=name)


@pytest.mark.parametrize(
    ("of_set", "of_wrapper", "without_queue_name", "expected"),
    [
        pytest.param(NAMELESS, NAMELESS, False, None, id="none names a queue"),
        pytest.param(NAMED, NAMELESS, False, "set", id="only the inner one names a queue"),
        pytest.param(NAMELESS, NAMED, False, "wrapper", id="only the outer one names a queue"),
        pytest.param(NAMED, NAMED, False, "wrapper", id="both name one"),
        pytest.param(DISABLED, NAMED, False, "wrapper", id="a kind that is not enabled is passed"),
        pytest.param(NAMED, DISABLED, False, "set", id="the outer one is of a kind that is not enabled"),
        pytest.param(NAMELESS, NAMELESS, True, "wrapper", id="jobs without queue name are managed"),
        pytest.param(DISABLED, NAMELESS, True, "wrapper", id="so, and a kind that is not enabled is passed"),
        pytest.param(NAMELESS, DISABLED, True, "set", id="so, and the outer one is not enabled"),
    ],
)
def test_the_outermost_managed_object_is_queued(
    of_set: Level, of_wrapper: Level, without_queue_name: bool, expected: str | None
) -> None:
    levels = {"set": known("set", of_set), "wrapper": known("wrapper", of_wrapper)}
    assert ancestor(SET, WRAPPER, without_queue_name=without_queue_name, **levels) == expected


@pytest.mark.parametrize(
    ("kind", "followed"),
    [
        ("jobset.x-k8s.io/JobSet", True),
        ("apps/ReplicaSet", True),
        ("apps/Deployment", True),
        ("ray.io/RayCluster", True),
        ("example.com/Wrapper", True),
        ("example.org/Wrapper", False),
        ("batch.volcano.sh/Job", False),
        ("batch/CronJob", False),
        ("extensions/ReplicaSet", False),
    ],
)
def test_the_way_up_goes_through_known_kinds_of_the_same_group(kind: str, followed: bool) -> None:
    found = ancestor(owner("between", kind), WRAPPER, wrapper=known("wrapper", NAMED))
    assert found == ("wrapper" if followed else None)


def test_every_kind_of_job_is_known() -> None:
    assert {(kind.group, kind.kind) for kind in ALL} <= KNOWN.keys()


def test_an_owner_with_another_uid_ends_the_way() -> None:
    assert ancestor(SET, WRAPPER, set=known("earlier", NAMED), wrapper=known("wrapper", NAMED)) is None
    assert ancestor(SET, WRAPPER, set=known("set", NAMED), wrapper=known("earlier", NAMED)) == "set"


@pytest.mark.parametrize(
    "found", [None, Level("", gone=True), Level("another")], ids=["not read yet", "gone", "of that name, but another"]
)
def test_an_owner_that_is_not_there_is_queued_as_long_as_its_workload_is_not_finished(found: Level | None) -> None:
    workload = Workload(Key("ns", "w"), "w", 0.0, "lq", 0, (), owner=Owner(SET.group, SET.kind, "ns", SET.name))
    over = transitions.finished(workload, "Succeeded", "", 1.0)
    assert level_or_workload(found, SET, "ns", lambda uid: workload) == Level(SET.uid, named=True, queueable=True)
    assert level_or_workload(found, SET, "ns", lambda uid: over) == found
    assert level_or_workload(found, SET, "another", lambda uid: workload) == found


@pytest.mark.parametrize("found", [DISABLED._replace(uid=SET.uid), Level("")], ids=["there", "of a kind of no account"])
def test_what_is_known_of_an_owner_counts_more_than_a_workload(found: Level) -> None:
    workload = Workload(Key("ns", "w"), "w", 0.0, "lq", 0, (), owner=Owner(SET.group, SET.kind, "ns", SET.name))
    assert level_or_workload(found, SET, "ns", lambda uid: workload) == found


@pytest.mark.parametrize(
    ("found", "conditions", "runs"),
    [
        pytest.param(Level(SET.uid), (), False, id="its owner waits"),
        pytest.param(Level(SET.uid), ("Admitted",), True, id="its owner is admitted"),
        pytest.param(Level(SET.uid), ("Admitted", "Evicted"), True, id="its owner will stop it"),
        pytest.param(Level("", gone=True), ("Admitted",), True, id="its owner is gone and holds quota"),
        pytest.param(Level("", gone=True), ("Admitted", "Evicted"), False, id="its owner is gone, and was evicted"),
        pytest.param(Level("another"), ("Admitted", "Evicted"), False, id="another one has its name"),
        pytest.param(None, ("Admitted", "Evicted"), True, id="its owner is not read yet"),
    ],
)
def test_what_an_owner_has_created_runs_while_the_owner_is_admitted(
    found: Level | None, conditions: Sequence[str], runs: bool
) -> None:
    workload = Workload(Key("ns", "w"), "w", 0.0, "lq", 0, (), owner=Owner(SET.group, SET.kind, "ns", SET.name))
    for each in conditions:
        workload = transitions.condition(workload, each, status=True, reason="", message="", now=1.0)
    assert lets_run(found, SET, "ns", lambda uid: workload) is runs
    assert lets_run(found, SET, "ns", lambda uid: None) is False


def test_an_owner_that_is_not_known_yet_is_to_be_read() -> None:
    found, read = below(SET, WRAPPER, set=known("set", NAMED))
    assert nesting(found, {SET: read[SET]}.get) == Nesting(SET, unread=WRAPPER)
    assert nesting(found, lambda _: None) == Nesting(None, unread=SET)


def test_an_object_of_an_external_framework_that_is_not_known_is_not_waited_for() -> None:
    found, _ = below(owner("w", "example.com/Wrapper"))
    assert nesting(found, lambda _: None, EXTERNAL) == Nesting()


@pytest.mark.parametrize("levels", [MOST_LEVELS - 1, MOST_LEVELS, MOST_LEVELS + 1])
def test_ten_levels_are_followed(levels: int) -> None:
    chain = [owner(f"o{index}") for index in range(levels)]
    top = {chain[-1].name: known(chain[-1].name, NAMED)}
    if levels <= MOST_LEVELS:
        assert ancestor(*chain, without_queue_name=False, **top) == chain[-1].name
        return
    with pytest.raises(NestingError, match="ancestor depth exceeded limit of 10"):
        ancestor(*chain, without_queue_name=False, **top)


@given(st.integers(1, MOST_LEVELS), st.integers(0, MOST_LEVELS))
def test_owners_that_own_each_other_are_an_error(length: int, back: int) -> None:
    chain = [owner(f"o{index}") for index in range(length)]
    found, read = below(*chain)
    target = chain[back % length]
    look = {**read, chain[-1]: read[chain[-1]]._replace(above=target)}
    with pytest.raises(NestingError, match="owns itself"):
        nesting(found, look.get)


def test_a_job_that_owns_itself_is_an_error() -> None:
    found, read = below(owner("j", "batch/Job", "job-uid"))
    with pytest.raises(NestingError, match="owns itself"):
        nesting(found, read.get)


def test_a_pod_that_is_queued_because_its_owner_is_follows_none() -> None:
    found, read = below(SET, set=known("set", NAMED))
    found["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}
    assert nesting(found, read.get) == Nesting()


def test_an_object_whose_pods_are_queued_as_groups_is_queued_instead_of_what_is_below_it() -> None:
    metadata = {"uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    assert level(LEADER_WORKER_SET, {"metadata": metadata}) == Level("u", named=True, queueable=True)


def test_a_job_is_queued_until_it_ends_and_if_its_kind_is_enabled() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert level(BATCH_JOB, job()) == Level("job-uid", named=True, queueable=True)
    assert level(BATCH_JOB, job(status=done)) == Level("job-uid", named=True)
    assert level(None, job()) == Level("job-uid", named=True)
    assert level(JOB_SET, {"metadata": {"uid": "u"}}) == Level("u", queueable=True)


@pytest.mark.parametrize(
    ("above", "expected"), [((), None), ((owner("spark", "sparkoperator.k8s.io/SparkApplication"),), "spark")]
)
def test_nothing_follows_a_pod_but_what_is_queued_instead_of_the_pod(
    above: tuple[Reference, ...], expected: str | None
) -> None:
    driver = owner("driver", "/Pod")
    assert ancestor(driver, *above, driver=known("driver", NAMED), spark=known("spark", NAMED)) == expected
