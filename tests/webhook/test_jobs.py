"""Jobs at admission: what is forced on them, what is defaulted, and that nothing else is touched."""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.names import Annotation, Condition, Label
from core.model import Admission, Key, Raw, Workload
from core.model.owner import Level, Owner, Reference
from core.state.lookup import Lookup
from core.workload import transitions
from tests.webhook.cluster import ask, cluster, job, review
from webhook.patch import Operation, apply
from webhook.settings import WebhookSettings

MUTATE, DEFAULT = "/mutate-batch-v1-job", "/mutate-batch-v1-job-default"
QUEUE = {Label.QUEUE_NAME: "main"}
STOPPING = {Annotation.STOPPING: "true"}
SUSPEND = {"op": "add", "path": "/spec/suspend", "value": True}
DEFAULT_QUEUE = {"op": "add", "path": "/metadata/labels", "value": {Label.QUEUE_NAME: "default"}}
ALL = WebhookSettings(manage_jobs_without_queue_name=True)
JOB_SETS = WebhookSettings(frameworks=frozenset({"batch/job", "jobset.x-k8s.io/jobset"}))
EXTERNAL = WebhookSettings(external_frameworks=frozenset({"Wrapper.v1.example.com"}))
JOB_SET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
WRAPPER = {"apiVersion": "example.com/v1", "kind": "Wrapper", "name": "w", "uid": "w-1", "controller": True}
OTHER_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "runs", "uid": "j-1", "controller": True}
CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}


def with_default_queue(**fields: Any) -> Lookup:
    return cluster(default_queue_in=["team-a"], **fields)


def standing_for(uid: str, kind: str, namespace: str = "team-a", *conditions: str) -> Lookup:
    """A cluster with a default queue, in which an object of that uid is queued; ``kind`` as ``group/kind/name``."""
    of, kind, name = kind.split("/")
    owner = Owner(of, kind, namespace, name)
    found = Workload(Key(namespace, "w"), "w", 0.0, "main", 0, (), owner=owner, job_uid=uid)
    for each in conditions:
        found = transitions.condition(found, each, status=True, reason="", message="", now=1.0)
    return with_default_queue(workloads={uid: found})


def patched(response: Raw) -> list[Raw]:
    assert response["allowed"], response
    if "patch" not in response:
        return []
    operations = orjson.loads(base64.b64decode(response["patch"]))
    assert isinstance(operations, list)
    return operations


def after(new: Raw, operations: list[Raw]) -> Raw:
    steps = (
        Operation(
            operation["op"],
            tuple(step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]),
            operation.get("value"),
        )
        for operation in operations
    )
    return apply(new, tuple(steps))


@pytest.mark.parametrize(
    ("new", "settings", "expected"),
    [
        pytest.param(job(labels=QUEUE), WebhookSettings(), [SUSPEND], id="a queued Job starts suspended"),
        pytest.param(
            job(annotations=QUEUE), WebhookSettings(), [SUSPEND], id="so does one queued by v0.1's annotation"
        ),
        pytest.param(job(labels=QUEUE, suspend=True), WebhookSettings(), [], id="one that is suspended needs no patch"),
        pytest.param(job(), WebhookSettings(), [], id="an unqueued Job is left alone"),
        pytest.param(job(), ALL, [SUSPEND], id="an unqueued Job is suspended where all are managed"),
        pytest.param(
            job(labels=QUEUE, owner=CRON_JOB), WebhookSettings(), [SUSPEND], id="a queued Job of a CronJob is suspended"
        ),
        pytest.param(
            job(labels=QUEUE, annotations=STOPPING),
            WebhookSettings(),
            [SUSPEND],
            id="Kueue's mark of a Job that is being stopped starts nothing",
        ),
        pytest.param(
            job(labels=QUEUE, annotations=STOPPING, suspend=True),
            WebhookSettings(),
            [],
            id="nor does it where it is suspended",
        ),
    ],
)
def test_suspension(new: Raw, settings: WebhookSettings, expected: list[Raw]) -> None:
    assert patched(ask(MUTATE, review(new), settings=settings)) == expected


@pytest.mark.parametrize(
    ("owner", "knows", "settings", "waits"),
    [
        pytest.param(
            WRAPPER,
            standing_for("w-1", "example.com/Wrapper/w"),
            EXTERNAL,
            False,
            id="its owner is queued in its place",
        ),
        pytest.param(
            WRAPPER,
            standing_for("w-1", "example.org/Wrapper/w"),
            EXTERNAL,
            True,
            id="queued is an object of another group's kind of that name",
        ),
        pytest.param(WRAPPER, cluster(), EXTERNAL, True, id="its owner is of a kind that may be, and is not queued"),
        pytest.param(
            WRAPPER,
            standing_for("w-1", "example.com/Wrapper/w"),
            WebhookSettings(),
            True,
            id="of a kind that is not in externalFrameworks",
        ),
        pytest.param(
            {**WRAPPER, "uid": "w-0"},
            standing_for("w-1", "example.com/Wrapper/w"),
            EXTERNAL,
            True,
            id="of an object that is gone",
        ),
        pytest.param(
            {**WRAPPER, "uid": "j-1"},
            standing_for("j-1", "batch/Job/runs"),
            EXTERNAL,
            True,
            id="a forged uid, of a queued Job",
        ),
        pytest.param(
            WRAPPER,
            standing_for("w-1", "example.com/Wrapper/w", "team-b"),
            EXTERNAL,
            True,
            id="queued in another namespace",
        ),
        pytest.param(
            {**WRAPPER, "controller": False},
            standing_for("w-1", "example.com/Wrapper/w"),
            EXTERNAL,
            True,
            id="no controller",
        ),
        pytest.param(OTHER_JOB, standing_for("j-1", "batch/Job/runs"), EXTERNAL, True, id="a Job that waits"),
        pytest.param(OTHER_JOB, standing_for("j-1", "batch/Job/runs"), ALL, True, id="a Job that waits, as all do"),
        pytest.param(
            OTHER_JOB,
            standing_for("j-1", "batch/Job/runs", "team-a", "Admitted"),
            WebhookSettings(),
            False,
            id="a Job that is admitted, with which it runs",
        ),
        pytest.param(
            OTHER_JOB,
            standing_for("j-1", "batch.volcano.sh/Job/runs", "team-a", "Admitted"),
            WebhookSettings(),
            True,
            id="a Job of another group",
        ),
        pytest.param(
            OTHER_JOB,
            standing_for("j-1", "batch/Job/runs", "team-a", "Admitted", "Finished"),
            WebhookSettings(),
            True,
            id="a Job that has finished",
        ),
        pytest.param(JOB_SET, cluster(), JOB_SETS, True, id="a JobSet, whose kind is not enabled"),
        pytest.param(CRON_JOB, cluster(), EXTERNAL, True, id="a CronJob"),
        pytest.param(
            WRAPPER,
            standing_for("w-1", "example.com/Wrapper/w", "team-a", "Finished"),
            EXTERNAL,
            True,
            id="its owner has finished",
        ),
    ],
)
def test_a_queued_job_waits_unless_its_owner_really_is_queued_in_its_place(
    owner: Raw, knows: Lookup, settings: WebhookSettings, waits: bool
) -> None:
    new = job(labels=QUEUE, owner=owner)
    assert patched(ask(MUTATE, review(new), knows=knows, settings=settings)) == ([SUSPEND] if waits else [])
    refused = ask("/validate-batch-v1-job", review(new), knows=knows, settings=settings)
    assert refused["allowed"] is not waits, "whoever unsuspended it after us"


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    new = job(labels=QUEUE)
    new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert patched(ask(MUTATE, review(new))) == []


def test_suspension_does_not_wait_for_the_caches() -> None:
    assert patched(ask(MUTATE, review(job(labels=QUEUE)), knows=cluster(synced=False))) == [SUSPEND]


@pytest.mark.parametrize(
    ("new", "knows", "settings", "expected"),
    [
        pytest.param(
            job(), with_default_queue(), WebhookSettings(), [DEFAULT_QUEUE, SUSPEND], id="the default queue takes it"
        ),
        pytest.param(job(), cluster(), WebhookSettings(), [], id="without a default queue nothing happens"),
        pytest.param(
            job(owner=WRAPPER),
            standing_for("w-1", "example.com/Wrapper/w"),
            EXTERNAL,
            [],
            id="a Job that its owner is queued for gets no queue",
        ),
        pytest.param(
            job(owner=OTHER_JOB),
            standing_for("j-1", "batch/Job/runs"),
            WebhookSettings(),
            [],
            id="nor does a Job below a queued Job",
        ),
        pytest.param(
            job(),
            with_default_queue(namespaces={"team-a": {"team": "a"}}),
            WebhookSettings(managed_jobs_namespace_selector={"matchLabels": {"team": "b"}}),
            [],
            id="a namespace that is not managed has no default",
        ),
        pytest.param(
            job(labels={"app": "x"}),
            with_default_queue(priority_classes={"default": 10}),
            WebhookSettings(),
            [
                {"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1queue-name", "value": "default"},
                {"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1priority-class", "value": "default"},
                SUSPEND,
            ],
            id="the default priority class as well, beside the labels that are there",
        ),
        pytest.param(
            job(),
            with_default_queue(priority_classes={"default": 10}),
            WebhookSettings(gates={"WorkloadPriorityClassDefaulting": False}),
            [DEFAULT_QUEUE, SUSPEND],
            id="no default priority class where the gate is off",
        ),
    ],
)
def test_defaults_of_an_unqueued_job(new: Raw, knows: Lookup, settings: WebhookSettings, expected: list[Raw]) -> None:
    assert patched(ask(DEFAULT, review(new), knows=knows, settings=settings)) == expected


words = st.sampled_from(["", "a", "zone", "é", "~/"])
jsons = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(words, below, max_size=3),
    max_leaves=4,
)
extras = st.dictionaries(st.sampled_from(["x", "newField", "later"]), jsons, max_size=2)
label_maps = st.none() | st.dictionaries(
    st.sampled_from([Label.QUEUE_NAME, Label.PRIORITY_CLASS, "app"]), st.sampled_from(["main", "default"]), max_size=3
)


@given(label_maps, label_maps, st.sampled_from([None, True, False]), extras, extras, st.booleans())
def test_t5_mutating_twice_is_mutating_once_and_unknown_fields_survive(
    labels: Raw | None, annotations: Raw | None, suspend: bool | None, extra: Raw, spec: Raw, everything: bool
) -> None:
    """T5."""
    new = {**job(labels=labels, annotations=annotations, **{"suspend": suspend, **spec}), **extra}
    knows = with_default_queue(priority_classes={"default": 1})
    settings = ALL if everything else WebhookSettings()
    once = after(new, patched(ask(MUTATE, review(new), knows=knows, settings=settings)))
    assert patched(ask(MUTATE, review(once), knows=knows, settings=settings)) == []
    assert once["spec"]["suspend"] is True
    names = {**(annotations or {}), **(once["metadata"].get("labels") or {})}
    assert names[Label.QUEUE_NAME] in ("main", "default")
    for key in extra:
        assert orjson.dumps(once[key]) == orjson.dumps(new[key])
    for key in spec:
        assert orjson.dumps(once["spec"][key]) == orjson.dumps(new["spec"][key])


def test_no_answer_depends_on_chance() -> None:
    random.seed(1)
    first = ask(MUTATE, review(job()), knows=with_default_queue())
    random.seed(2)
    assert ask(MUTATE, review(job()), knows=with_default_queue()) == first


CLUSTER_OWNER = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "ray", "uid": "ray", "controller": True}
OUTER = Reference("jobset.x-k8s.io", "v1alpha2", "JobSet", "set", "set")


@pytest.mark.parametrize(
    ("levels", "workload", "waits"),
    [
        pytest.param({}, False, True, id="its owner is not known yet"),
        pytest.param(
            {"ray": Level("ray", named=True, queueable=True)}, False, True, id="its owner has no Workload yet"
        ),
        pytest.param({"ray": Level("ray", OUTER, named=True)}, False, True, id="what is above its owner is not known"),
        pytest.param({"ray": Level("ray", OUTER, named=True)}, True, False, id="known by its Workload, and admitted"),
        pytest.param(
            {"ray": Level("ray", OUTER, named=True), "set": Level("set", named=True, queueable=True)},
            True,
            False,
            id="the object above its owner, which is not enabled, is admitted",
        ),
    ],
)
def test_a_job_with_a_queue_name_waits_until_the_outermost_object_is_admitted(
    levels: dict[str, Level], workload: bool, waits: bool
) -> None:
    """KubeRay copies the queue name of a RayJob to its RayCluster."""
    admitted = standing_for("set", "jobset.x-k8s.io/JobSet/set", "team-a", Condition.ADMITTED)
    knows = replace(admitted if workload else cluster(), owner=lambda _, owner: levels.get(owner.name))
    new = job(labels=QUEUE, owner=CLUSTER_OWNER)
    assert (SUSPEND in patched(ask(MUTATE, review(new), knows=knows))) == waits


def test_a_job_of_an_owner_that_does_not_exist_waits_all_the_same() -> None:
    ghost = {"apiVersion": "batch/v1", "kind": "Job", "name": "ghost", "uid": "nope", "controller": True}
    new = job(labels=QUEUE, owner=ghost)
    assert patched(ask(MUTATE, review(new), knows=cluster())) == [SUSPEND]


def test_where_all_jobs_are_managed_a_job_without_a_queue_gets_a_warning() -> None:
    settings = WebhookSettings(manage_jobs_without_queue_name=True)
    told = ask("/validate-batch-v1-job", review(job(suspend=True)), knows=cluster(), settings=settings)
    assert told["allowed"]
    (warning,) = told["warnings"]
    assert warning.startswith("has no queue name and waits: set label kueue.x-k8s.io/queue-name")


RUNS: Raw = {"suspend": False, "parallelism": 3, "completions": 9}


@pytest.mark.parametrize(
    ("old", "change", "suspended"),
    [
        pytest.param({}, {"parallelism": 40}, True, id="more pods"),
        pytest.param({}, {"parallelism": 40, "completions": 40}, True, id="more pods and more work"),
        pytest.param({"parallelism": 0}, {"parallelism": 40}, True, id="pods after none"),
        pytest.param({}, {"parallelism": 2}, False, id="fewer pods"),
        pytest.param({}, {"completions": 40}, False, id="more work with as many pods"),
        pytest.param({}, {"backoffLimit": 1}, False, id="something else"),
        pytest.param({"suspend": True}, {"suspend": True, "parallelism": 40}, False, id="one that waits"),
        pytest.param(
            {"parallelism": 9, "completions": 3}, {"parallelism": 40}, False, id="no more than it has work for"
        ),
    ],
)
def test_a_running_job_that_gets_more_pods_is_suspended_in_the_same_write(
    old: Raw, change: Raw, suspended: bool
) -> None:
    before = job(labels=QUEUE, **{**RUNS, **old})
    new = {**before, "spec": {**before["spec"], **change}}
    assert patched(ask(MUTATE, review(new, old=before))) == ([SUSPEND] if suspended else [])
    unqueued = [{**each, "metadata": {**each["metadata"], "labels": {}}} for each in (new, before)]
    assert patched(ask(MUTATE, review(unqueued[0], old=unqueued[1]))) == []


def test_a_forged_owner_does_not_let_a_job_with_its_own_quota_grow() -> None:
    own = transitions.reserved(Workload(Key("team-a", "w"), "w", 0.0, "main", 0, ()), Admission("all", ()), 0.0)
    knows = replace(cluster(workloads={"job-1": own}), owner=lambda *_: Level("nope", named=True, queueable=True))
    above = OTHER_JOB | {"uid": "nope"}
    before = job(labels=QUEUE, owner=above, **RUNS)
    before["metadata"]["uid"] = "job-1"
    new = {**before, "spec": {**before["spec"], "parallelism": 40}}
    assert patched(ask(MUTATE, review(new, old=before), knows=knows)) == [SUSPEND]
