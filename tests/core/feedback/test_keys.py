"""Labels and annotations of jobs that do nothing where they stand, or say two things."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.feedback import keys as feedback_keys
from core.feedback.change import Change
from core.feedback.keys import KEY_RULES, Keys, of_keys
from core.feedback.rules import EACH, HINTS, LIMIT
from tests.core.feedback.world import world

PREFIX = "kueue.x-k8s.io/"
QUEUE = {f"{PREFIX}queue-name": "main"}
KUEUES = Path(__file__).parent / "kueue_keys.json"
"""The labels and annotations that Kueue v0.20 (development, August 2026) reads or writes."""


def keys(**places: str) -> Keys:
    """Keys without their prefix, by the place where they stand."""
    found: dict[str, Any] = {place: {f"{PREFIX}{key}": "x"} for place, key in places.items()}
    return Keys(**found)


CASES = [
    pytest.param(Keys(), "", "", id="nothing to say of a job without labels"),
    pytest.param(Keys(QUEUE, {f"{PREFIX}job-min-parallelism": "2"}), "", "", id="nor of those that are read"),
    pytest.param(
        Keys({"app": "x", "jobset.x-k8s.io/queue-name": "x", "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "1"}),
        "",
        "",
        id="nor of others' keys",
    ),
    pytest.param(
        keys(labels="queue-nmae"),
        "unknown-key",
        "label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",
        id="a mistyped label",
    ),
    pytest.param(
        Keys({"queue_name": "main"}),
        "unknown-key",
        "label queue_name is ignored and the job has no queue: did you mean kueue.x-k8s.io/queue-name?",
        id="no prefix",
    ),
    pytest.param(
        keys(annotations="job-min-paralelism"),
        "unknown-key",
        "annotation kueue.x-k8s.io/job-min-paralelism is unknown and ignored: did you mean"
        " kueue.x-k8s.io/job-min-parallelism?",
        id="a mistyped annotation",
    ),
    pytest.param(
        keys(pod_annotations="podset-requird-topology"),
        "unknown-key",
        "annotation kueue.x-k8s.io/podset-requird-topology is unknown and ignored:"
        " did you mean podset-required-topology?",
        id="a mistyped annotation of the pods",
    ),
    pytest.param(
        Keys({"kueue.k8s.io/queue-name": "main"}),
        "unknown-key",
        "label kueue.k8s.io/queue-name is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",
        id="a mistyped prefix",
    ),
    pytest.param(
        Keys({"kueu.x-k8s.io/queue-name": "main"}),
        "unknown-key",
        "label kueu.x-k8s.io/queue-name is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?",
        id="another mistyped prefix",
    ),
    pytest.param(
        keys(labels="colour"),
        "unknown-key",
        "label kueue.x-k8s.io/colour is unknown and ignored: correct or remove it",
        id="a label like no other",
    ),
    pytest.param(
        keys(annotations="priority-class"),
        "misplaced-key",
        "kueue.x-k8s.io/priority-class has no effect as an annotation of the job: make it a label of the job",
        id="a label written as annotation",
    ),
    pytest.param(
        keys(labels="job-min-parallelism"),
        "misplaced-key",
        "kueue.x-k8s.io/job-min-parallelism has no effect as a label of the job: make it an annotation of the job",
        id="an annotation written as label",
    ),
    pytest.param(
        keys(pod_annotations="job-min-parallelism"),
        "misplaced-key",
        "kueue.x-k8s.io/job-min-parallelism has no effect as an annotation of spec.template:"
        " make it an annotation of the job",
        id="an annotation of the job on the pods",
    ),
    pytest.param(
        keys(pod_annotations="job-completions-equal-parallelism"),
        "misplaced-key",
        "kueue.x-k8s.io/job-completions-equal-parallelism has no effect there: make it an annotation of the job",
        id="a long one",
    ),
    pytest.param(
        keys(annotations="podset-slice-required-topology-constraints"),
        "key-without-effect",
        "kueue.x-k8s.io/podset-sli..red-topology-constraints has no effect here:"
        " kube-scheduler places the pods; use pod affinity",
        id="a topology that would do nothing in the right place either",
    ),
    pytest.param(
        Keys(pod_labels=QUEUE),
        "misplaced-key",
        "kueue.x-k8s.io/queue-name has no effect as a label of spec.template: make it a label of the job",
        id="the queue named by the pods alone",
    ),
    pytest.param(Keys(QUEUE, pod_labels=QUEUE), "", "", id="the queue named by the pods as well"),
    pytest.param(
        Keys(annotations=QUEUE),
        "queue-by-annotation",
        "annotation kueue.x-k8s.io/queue-name is from v0.1: this job is queued, but use a label instead",
        id="v0.1's annotation",
    ),
    pytest.param(Keys(QUEUE, QUEUE), "", "", id="label and annotation agree"),
    pytest.param(
        Keys({f"{PREFIX}queue-name": "other"}, QUEUE),
        "queue-named-twice",
        'label and annotation name different queues: label "other" is used; remove annotation'
        " kueue.x-k8s.io/queue-name",
        id="label and annotation differ",
    ),
    pytest.param(
        keys(pod_annotations="podset-required-topology"),
        "key-without-effect",
        "kueue.x-k8s.io/podset-required-topology has no effect here: kube-scheduler places the pods; use pod affinity",
        id="a topology",
    ),
    pytest.param(Keys(annotations={f"{PREFIX}elastic-job": "true"}), "", "", id="an elastic job"),
    pytest.param(
        keys(labels="prebuilt-workload-name"),
        "",
        "",
        id="a Workload that the job brings along",
    ),
    pytest.param(Keys(annotations={f"{PREFIX}elastic-job": "false"}), "", "", id="no elastic job"),
]


@pytest.mark.parametrize(("new", "rule", "message"), CASES)
def test_the_messages_of_each_case(new: Keys, rule: str, message: str) -> None:
    found = of_keys(Change(None, new), world())
    assert [(each.rule, each.message) for each in found] == ([(rule, message)] if message else [])
    assert all(len(each.message) <= LIMIT for each in found)


@pytest.mark.parametrize(("new", "rule", "message"), CASES)
def test_a_warning_is_not_repeated_when_another_field_changes(new: Keys, rule: str, message: str) -> None:
    assert of_keys(Change(new, new), world()) == ()


WITHDRAWN = [
    pytest.param(
        Keys(QUEUE),
        Keys(left=True),
        "queue-withdrawn",
        'removes the job from LocalQueue "main": its queue position is lost; it stays suspended until resumed or'
        " queued again",
        id="taken out of its queue",
    ),
    pytest.param(Keys(QUEUE), Keys(), "", "", id="where jobs without a queue wait, or one that runs"),
    pytest.param(Keys(), Keys(left=True), "", "", id="one that was in none"),
    pytest.param(Keys(QUEUE, QUEUE), Keys(QUEUE), "", "", id="one of two names"),
]


@pytest.mark.parametrize(("old", "new", "rule", "message"), WITHDRAWN)
def test_removing_a_job_from_its_queue_gives_a_warning_with_the_consequence(
    old: Keys, new: Keys, rule: str, message: str
) -> None:
    found = of_keys(Change(old, new), world())
    assert [(each.rule, each.message) for each in found] == ([(rule, message)] if message else [])


def test_every_rule_has_its_case() -> None:
    assert {rule.name for rule in KEY_RULES} == {case.values[-2] for case in (*CASES, *WITHDRAWN)} - {""}


def test_every_key_that_kueue_reads_is_known() -> None:
    ours = {key: "x" for key in json.loads(KUEUES.read_text()) if key.startswith(PREFIX)}
    assert ours
    assert not [each for each in of_keys(Change(None, Keys(ours)), world()) if each.rule == "unknown-key"]


def test_however_many_keys_come_the_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(kept: Callable[..., Any]) -> Callable[..., Any]:
        def compare(one: str, *others: Any) -> Any:
            compared.append(one)
            return kept(one, *others)

        return compare

    for name in ("closest", "resembles"):
        monkeypatch.setattr(feedback_keys, name, counted(getattr(feedback_keys, name)))
    labels, annotations = (
        {f"{prefix}queue-{number}": "x" for number in range(5000)} for prefix in (PREFIX, "kueu.x-k8s.io/")
    )
    found = of_keys(Change(None, Keys(labels, annotations)), world())
    assert len(compared) <= feedback_keys.LOOKED_AT + HINTS
    assert [each.rule for each in found] == ["unknown-key"] * EACH


def test_however_long_a_key_is_its_message_fits() -> None:
    for length in range(1, 64):
        for found in of_keys(Change(None, keys(labels="q" * length)), world()):
            assert len(found.message) <= LIMIT
            assert found.message.endswith("correct or remove it")
