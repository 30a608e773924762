"""The cost of a review grows no faster than its length, whatever is long in it, and the cost of advice is bounded.

Any user who may create a Job with `--dry-run`, and any client that reaches the port, can send a review, and all others
wait meanwhile. Samples of every kind are made larger in one place, any place, in every way that JSON has, and CPU times
of one run are compared. (Limits of single rules have tests beside the rules.)
"""

from __future__ import annotations

import base64
import copy
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.errors import MOST
from api.kinds import KINDS
from core.feedback.budget import MOST_FIELDS, TOO_LARGE, larger
from core.feedback.rules import TOO_SLOW
from core.jobs.fields import at
from core.jobs.fields import changed as changed_at
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.kinds import JOB_SET as JOB_SETS
from core.jobs.kinds import POD as PODS
from core.model import Raw
from tests.api.random_objects import Maker
from tests.core.feedback.world import world
from tests.core.jobs.test_kinds import EXAMPLES
from tests.effort import cases
from tests.webhook.cluster import ask, job, review, review_of
from webhook.conversion import answer as converted
from webhook.hooks import HOOKS
from webhook.policy import FeedbackPolicy, PolicyEntry
from webhook.routes import answer
from webhook.settings import ADVICE_SECONDS, Context, WebhookSettings

PREFIX = "kueue.x-k8s.io/"
QUEUED = {f"{PREFIX}queue-name": "main"}
KNOWN = world()
FEW, MANY = 250, 4000
TIMES = MANY // FEW
LEAST_SECONDS = 0.001
"""What a small review may cost anyway: below that the clock, not the review, makes the ratio."""

POD = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1"}}}],
    "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
    "schedulingGates": [{"name": "g"}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "nodeSelector": {"a": "b"},
    "priorityClassName": "x",
    "overhead": {"cpu": "1"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}]
            }
        }
    },
}
FULL_JOB = job(
    labels={**QUEUED, **{f"{PREFIX}{key}": "5" for key in ("priority-class", "max-exec-time-seconds", "queue-nmae")}},
    annotations={
        f"{PREFIX}admission-gated-by": "a.b/c",
        f"{PREFIX}job-min-parallelism": "1",
        f"{PREFIX}job-completions-equal-parallelism": "true",
    },
    owner={"apiVersion": "a/v1", "kind": "K", "name": "n", "uid": "u", "controller": True},
    suspend=True,
    template={
        "metadata": {
            "labels": {"a": "b"},
            "annotations": {
                f"{PREFIX}podset-required-topology": "x",
                f"{PREFIX}podset-slice-required-topology-constraints": '[{"topology":"x","size":1}]',
            },
        },
        "spec": POD,
    },
)


OF_TEMPLATE = {"metadata": FULL_JOB["metadata"], "spec": FULL_JOB["spec"]}
JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": FULL_JOB["metadata"],
    "spec": {"suspend": True, "replicatedJobs": [{"name": "r", "replicas": 2, "template": OF_TEMPLATE}]},
}


def filled(kind: JobKind) -> Raw:
    """The example of a kind of job, with every field in its templates."""
    made = {**EXAMPLES[kind], "metadata": FULL_JOB["metadata"]}
    for slot in kind.slots(made):
        if at(made, slot.path) is not None:
            made = changed_at(made, slot.path, OF_TEMPLATE["spec"]["template"])
    return made


OF_KINDS = [JOB_SET, *(filled(kind) for kind in ALL if kind not in (BATCH_JOB, JOB_SETS, PODS))]
OTHERS = [
    {"apiVersion": api, "kind": kind, "metadata": FULL_JOB["metadata"], "spec": spec}
    for api, kind, spec in (
        ("v1", "Pod", POD),
        ("apps/v1", "Deployment", {"template": FULL_JOB["spec"]["template"]}),
        ("apps/v1", "StatefulSet", {"template": FULL_JOB["spec"]["template"]}),
        ("apps/v1", "ReplicaSet", {"template": FULL_JOB["spec"]["template"]}),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {
                "leaderWorkerTemplate": {
                    "size": 2,
                    "leaderTemplate": FULL_JOB["spec"]["template"],
                    "workerTemplate": FULL_JOB["spec"]["template"],
                }
            },
        ),
        ("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": OF_TEMPLATE}),
    )
]


def full(kind: Any, version: Any) -> Raw:
    """An object of a kind of ours in which every field is there."""
    made = Maker(kind, 1, full=True, version=version).object()
    metadata = {"labels": {"a": "b"}, "annotations": {f"{PREFIX}admission-gated-by": "a.b/c"}, "namespace": "team-a"}
    return {**made, "metadata": {**made["metadata"], **metadata}}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place in an object, of a list the first element."""
    yield path, value
    below = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for step, child in below:
        yield from places(child, (*path, step))


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    """A copy with another value in one place."""
    if not path:
        return to
    result = copy.copy(value)
    result[path[0]] = changed(value[path[0]], path[1:], to)
    return result


def renamed(element: Any, number: int) -> Any:
    """An element that is no duplicate."""
    if not isinstance(element, dict):
        return f"{element}{number}"
    named = {key: f"{element[key]}{number}" for key in ("name", "key", "nodeLabel", "type", "uid") if key in element}
    return {**element, **named}


def repeated(text: str, size: int) -> str:
    """A text twenty times as long as a list is made."""
    return text * (20 * size // len(text))


def longer(value: Any) -> dict[str, Callable[[int], Any]]:
    """The ways to make a value so many times as large."""
    match value:
        case list():
            first = value[0] if value else "x"
            return {
                "the same again": lambda size: [first] * size,
                "others": lambda size: [renamed(first, number) for number in range(size)],
                "of a wrong type": lambda size: [7] * size,
            }
        case dict():
            some = next(iter(value.values()), "x")
            return {
                "more keys": lambda size: {**value, **{f"k{number}": some for number in range(size)}},
                "keys of Kueue's": lambda size: {**value, **{f"{PREFIX}k{number}": some for number in range(size)}},
                "values of a wrong type": lambda size: {**value, **{f"k{number}": 7 for number in range(size)}},
                "a long key": lambda size: {**value, "q" * 20 * size + "/x": some},
            }
        case str():
            texts = ("q", ",", "a.-", "1", "[", "a,", '"', "1e9", "/")
            return {f"{text} again": partial(repeated, text) for text in texts}
    return {}


def enlarged(sample: Raw) -> list[tuple[Raw, tuple[Any, ...], Callable[[int], Any]]]:
    """Every way to make a sample larger in one place."""
    return [(sample, path, grow) for path, value in places(sample) if path for grow in longer(value).values()]


OF_JOBS = enlarged(FULL_JOB)
PARTS = 16
OF_OTHER_JOBS = [way for sample in OF_KINDS for way in enlarged(sample)]
OF_OTHERS = [way for sample in OTHERS for way in enlarged(sample)]
OF_OURS = [way for kind in KINDS for version in kind.versions for way in enlarged(full(kind, version))]


def calls(made: Raw, old: Raw) -> Iterator[Callable[[], object]]:
    """Everything that the API server may ask about an object: each hook of its kind, each conversion."""
    of_jobs = made["kind"] == "Job"
    for hook in HOOKS:
        if (hook.kind, f"{hook.group}/{hook.version}".lstrip("/")) == (made["kind"], made["apiVersion"]):
            for before in (None, old):
                asked = review(made, old=before) if of_jobs else review_of(made, old=before, resource=hook.resources[0])
                context = Context(WebhookSettings(gates={"AdmissionGatedBy": True}), KNOWN)
                yield partial(answer, hook, orjson.dumps(asked), context)
    for kind in KINDS:
        for version in kind.versions if kind.kind == made["kind"] else ():
            request = {"uid": "u", "desiredAPIVersion": f"kueue.x-k8s.io/{version.name}", "objects": [made]}
            asked = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
            yield partial(converted, orjson.dumps(asked))


def test_every_hook_has_a_sample() -> None:
    made = [FULL_JOB, *OF_KINDS, *OTHERS, *(full(kind, version) for kind in KINDS for version in kind.versions)]
    asked = {(each["kind"], each["apiVersion"]) for each in made}
    assert {(hook.kind, f"{hook.group}/{hook.version}".lstrip("/")) for hook in HOOKS} <= asked


def cost(call: Callable[[], object], rounds: int) -> float:
    """The least CPU time of some rounds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return least


@pytest.mark.parametrize("part", range(cases(1, PARTS)))
def test_a_job_costs_in_proportion_to_its_length_whatever_is_long_in_it(part: int) -> None:
    for way in OF_JOBS[part::PARTS]:
        assert_in_proportion(*way)


@settings(max_examples=cases(10, 300), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(OF_OTHER_JOBS))
def test_a_job_of_another_kind_costs_in_proportion_to_its_length_whatever_is_long_in_it(
    way: tuple[Raw, tuple[Any, ...], Callable[[int], Any]],
) -> None:
    assert_in_proportion(*way)


@settings(max_examples=cases(60, 600), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(OF_OTHERS))
def test_an_object_that_is_not_queued_costs_in_proportion_to_its_length_whatever_is_long_in_it(
    way: tuple[Raw, tuple[Any, ...], Callable[[int], Any]],
) -> None:
    assert_in_proportion(*way)


@settings(max_examples=cases(120, 2_000), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(OF_OURS))
def test_an_object_of_ours_costs_in_proportion_to_its_length_whatever_is_long_in_it(
    way: tuple[Raw, tuple[Any, ...], Callable[[int], Any]],
) -> None:
    assert_in_proportion(*way)


def assert_in_proportion(sample: Raw, path: tuple[Any, ...], grow: Callable[[int], Any]) -> None:
    small, large = (changed(sample, path, grow(size)) for size in (FEW, MANY))
    gc.disable()
    try:
        for few, many in zip(calls(small, sample), calls(large, sample), strict=True):
            for rounds in (1, 5):  # a second look before it is called slow
                cheap, dear = max(cost(few, rounds), LEAST_SECONDS), cost(many, rounds)
                if dear < 3 * TIMES * cheap:
                    break
            else:
                raise AssertionError(f"{dear * 1000:.1f} ms, of a {TIMES}th {cheap * 1000:.1f} ms: {path}")
    finally:
        gc.enable()


def gated(value: str) -> Raw:
    return job(labels=QUEUED, annotations={f"{PREFIX}admission-gated-by": value}, suspend=True)


@pytest.mark.parametrize("value", ["," * 100_000, "a," * 100_000, "a.b/c," * 50_000], ids=["empty", "alike", "equal"])
def test_errors_are_limited_in_number_and_show_the_beginning_of_a_value(value: str) -> None:
    response = ask("/validate-batch-v1-job", review(gated(value)))
    assert response["allowed"] is False
    assert len(response["status"]["details"]["causes"]) == MOST
    assert len(orjson.dumps(response)) < 2000 * MOST


def test_a_value_of_any_length_is_answered_in_short() -> None:
    response = ask("/validate-batch-v1-job", review(job(labels={f"{PREFIX}queue-name": "Q" * 1_000_000}, suspend=True)))
    assert response["allowed"] is False
    assert len(orjson.dumps(response)) < 20_000


def crowded(containers: int, labels: Raw | None = None) -> Raw:
    """A Job of so many containers; each has two fields."""
    pods = [{"name": f"c{number}", "image": "x"} for number in range(containers)]
    return job(labels=QUEUED if labels is None else labels, template={"spec": {"containers": pods}})


@given(st.recursive(st.integers(), lambda below: st.lists(below) | st.dictionaries(st.text(max_size=2), below)))
def test_a_value_is_larger_than_a_limit_when_its_fields_and_elements_are_more(value: Any) -> None:
    def count(value: Any) -> int:
        below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return len(below) + sum(map(count, below))

    assert not larger(count(value), value)
    assert larger(count(value) - 1, value) or not count(value)


def test_a_job_that_is_too_large_for_advice_is_suspended_and_gets_only_that_warning() -> None:
    large = crowded(MOST_FIELDS)
    mutated = ask("/mutate-batch-v1-job", review(large), knows=KNOWN)
    assert b'"path":"/spec/suspend"' in _patch(mutated)
    validated = ask(
        "/validate-batch-v1-job", review({**large, "spec": {**large["spec"], "suspend": True}}), knows=KNOWN
    )
    assert (validated["allowed"], validated["warnings"]) == (True, [TOO_LARGE.message])
    started = ask("/validate-batch-v1-job", review(large), knows=KNOWN)
    assert started["allowed"] is False


def _patch(response: Raw) -> bytes:
    return base64.b64decode(response["patch"])


def test_an_object_that_was_not_judged_is_refused_where_a_rule_refuses() -> None:
    large = crowded(MOST_FIELDS)
    large = {**large, "spec": {**large["spec"], "suspend": True}}
    refusing = WebhookSettings(feedback=FeedbackPolicy((PolicyEntry("request-too-large", "Deny"),)))
    response = ask("/validate-batch-v1-job", review(large), knows=KNOWN, settings=refusing)
    assert response["allowed"] is False
    assert response["status"]["message"] == f"{TOO_LARGE.message} (rule not-judged)"


def test_a_change_that_was_not_judged_to_the_end_is_refused_where_a_rule_refuses() -> None:
    """The time ends after the labels: what was so before the change is then not judged either."""
    ticks = itertools.count()
    refusing = WebhookSettings(feedback=FeedbackPolicy((PolicyEntry("request-too-large", "Deny"),)))
    context = Context(
        refusing, KNOWN, clock=itertools.count().__next__, worked=lambda: next(ticks) * ADVICE_SECONDS * 0.1
    )
    old, new = (job(labels={f"{PREFIX}queue-name": name}, suspend=True) for name in ("main", "other"))
    (hook,) = (hook for hook in HOOKS if hook.path == "/validate-batch-v1-job")
    response = orjson.loads(answer(hook, orjson.dumps(review(new, old=old)), context)[1])["response"]
    assert response["allowed"] is False
    assert response["status"]["message"] == f"{TOO_SLOW.message} (rule not-judged)"


def test_the_cpu_time_is_read_once_while_less_than_the_budget_has_passed() -> None:
    """To read it is a system call, and each rule asks."""
    reads: list[float] = []

    def worked() -> float:
        reads.append(0.0)
        return 0.0

    now = iter([10.0, 10.0 + ADVICE_SECONDS / 2, 10.0 + 2 * ADVICE_SECONDS])
    own = Context(WebhookSettings(), KNOWN, clock=lambda: next(now), worked=worked).for_one()
    assert (own.spent(), len(reads)) == (False, 1)
    assert (own.spent(), len(reads)) == (False, 2), "other programs used the processor"


@pytest.mark.parametrize("reviews", [0, 1, 3])
def test_rules_end_when_the_time_is_spent_and_suspension_never(reviews: int) -> None:
    """The clock of the CPU moves on by most of the budget with every look at it."""
    ticks = itertools.count()
    context = Context(
        WebhookSettings(), KNOWN, clock=itertools.count().__next__, worked=lambda: next(ticks) * ADVICE_SECONDS * 0.4
    )
    waiting = job(labels={f"{PREFIX}queue-name": "mian"}, suspend=True)
    hooks = {hook.path: hook for hook in HOOKS}
    for _ in range(reviews):  # one review takes nothing of the next one's time
        answer(hooks["/validate-batch-v1-job"], orjson.dumps(review(waiting)), context)
    _, text = answer(hooks["/validate-batch-v1-job"], orjson.dumps(review(waiting)), context)
    response = orjson.loads(text)["response"]
    assert response["allowed"] is True
    assert response["warnings"] == [TOO_SLOW.message]
    started = {**waiting, "spec": {**waiting["spec"], "suspend": False}}
    _, text = answer(hooks["/mutate-batch-v1-job"], orjson.dumps(review(started)), context)
    assert b'"path":"/spec/suspend"' in _patch(orjson.loads(text)["response"])
