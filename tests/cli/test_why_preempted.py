"""Who preempted a job, by which rule and when, from what Seiretsu itself writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.names import PreemptedReason
from api.objects import Raw
from cli.main import PLUGIN, _started
from cli.preempted import ShownPreemptor, preemptor, text
from core.explain.preemption import preemptions
from core.model import Workload, events, messages
from core.model.decisions import Victim
from tests.builders import workload as waiting
from tests.cli.api_server import EMPTY, Asked, Reply, kubeconfig, refusal, serving

NOW = 1000.0
REASONS = (
    PreemptedReason.IN_CLUSTER_QUEUE,
    PreemptedReason.IN_COHORT_RECLAMATION,
    PreemptedReason.IN_COHORT_FAIR_SHARING,
    PreemptedReason.IN_COHORT_RECLAIM_WHILE_BORROWING,
)


def message(reason: str = REASONS[1], by: str = "big") -> str:
    """The message of the condition, as the scheduler writes it."""
    return messages.preempted(_preemptor(by), reason, "/all/team-b", "/all/team-a")


def _preemptor(name: str) -> Workload:
    return waiting(name, 1, priority=100, job_uid=f"job-{name}")


def victim(*conditions: Raw) -> Raw:
    metadata = {"name": "job-train", "namespace": "team-a", "uid": "uid-train"}
    return {"kind": "Workload", "metadata": metadata, "spec": {}, "status": {"conditions": [*conditions]}}


def condition(text_: str, status: str = "True", kind: str = "Preempted", reason: str = "X") -> Raw:
    at = "1970-01-01T00:13:20Z"
    return {"type": kind, "status": status, "reason": reason, "message": text_, "lastTransitionTime": at}


def event(text_: str, at: str = "1970-01-01T00:13:20Z") -> Raw:
    return {"message": text_, "lastTimestamp": at}


def big(name: str = "big") -> Raw:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": name, "uid": f"job-{name}", "controller": True}
    metadata = {"name": f"job-{name}", "namespace": "team-b", "uid": f"uid-{name}", "ownerReferences": [owner]}
    return {"kind": "Workload", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize("reason", REASONS)
def test_every_rule_has_a_sentence_and_what_avoids_it(reason: str) -> None:
    (told,) = preemptions(victim(condition(message(reason))), [])
    assert (told.reason, told.uid, told.job_uid, told.by, told.of) == (reason, "uid-big", "job-big", "team-b", "team-a")
    assert "team-b" in told.rule or "team-a" in told.rule
    assert told.way


def test_the_answer_names_who_when_and_why() -> None:
    told = events.preempted(Victim(waiting("train", 1), "team-a", REASONS[1], message()), _preemptor("big"))
    found = preemptions(victim(condition(message())), [event(told.message)])
    said = text("team-a/train", victim(), [(each, preemptor(each, [big()], complete=True)) for each in found], NOW)
    assert said.splitlines() == [
        "team-a/train was preempted 3m20s ago by team-b/big (Workload job-big), which is in ClusterQueue team-b",
        "  why: ClusterQueue team-b took back quota of its own, which ClusterQueue team-a had borrowed"
        " (preemption.reclaimWithinCohort of team-b)",
        "  priorities: 100 of the preemptor, 0 of this job",
        "  what avoids it: to stay within the nominal quota of ClusterQueue team-a: what is borrowed can be taken back",
    ]


def test_the_last_preemption_is_known_after_the_job_runs_again() -> None:
    reset = condition(f"Previously: {message()}", status="False")
    (told,) = preemptions(victim(reset), [])
    assert (told.uid, told.at) == ("uid-big", None)
    (told,) = preemptions(victim(reset), [event(message(), "1970-01-01T00:01:00Z")])
    assert told.at == 60


def test_earlier_preemptions_are_known_from_events() -> None:
    earlier = [event(message(by="a"), "1970-01-01T00:01:00Z"), event(message(by="b"), "1970-01-01T00:02:00Z")]
    found = preemptions(victim(condition(message())), earlier)
    assert [each.uid for each in found] == ["uid-big", "uid-b", "uid-a"]
    said = text("team-a/train", victim(), [(each, ShownPreemptor()) for each in found], NOW)
    assert "Earlier preemptions" in said
    assert "reclamation within the cohort" in said


def test_who_is_not_to_be_seen_has_no_name() -> None:
    (told,) = preemptions(victim(condition(message())), [])
    hidden = preemptor(told, [], complete=False)
    said = text("team-a/train", victim(), [(told, hidden)], NOW)
    assert "by a workload that your rights do not show (UID uid-big)" in said
    assert "With the role view in the whole cluster the names are shown." in said
    assert "does not exist any more" in text("x", victim(), [(told, preemptor(told, [], complete=True))], NOW)


def test_another_eviction_is_told_apart_from_a_preemption() -> None:
    stopped = condition("The ClusterQueue is stopped", kind="Evicted", reason="ClusterQueueStopped")
    said = text("team-a/train", victim(stopped), [], NOW)
    assert said == (
        "team-a/train: it was not preempted. It was evicted for another reason: ClusterQueueStopped:"
        " The ClusterQueue is stopped\n"
    )
    assert "no preemption is recorded" in text("team-a/train", victim(), [], NOW)


def test_an_event_of_another_text_is_no_preemption() -> None:
    assert preemptions(victim(), [event("Preempted by someone"), event("")]) == []


def test_the_command_looks_for_the_preemptor_by_the_uid_of_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = victim(condition(message()))
    named["metadata"]["ownerReferences"] = [
        {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "1", "controller": True}
    ]
    named |= {"spec": {}}

    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/namespaces/team-a/workloads"):
            return Reply({"items": [] if "labelSelector" in asked.query else [named]})
        if asked.path.endswith("/workloads"):
            return refusal(403, "Forbidden", "no")
        return EMPTY

    with serving(answer) as (url, asked):
        config = kubeconfig(tmp_path / "config", url)
        _started(["why-preempted", "train", "-o", "json", "--kubeconfig", str(config)], PLUGIN, "kubectl seiretsu")
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["preemptions"][0]["preemptor"]["notReadable"]) == ("Preemptions", True)
    labels = [each.query["labelSelector"] for each in asked if "labelSelector" in each.query]
    assert labels == [["kueue.x-k8s.io/job-uid=job-big"]] * 2
    assert told["workload"] == "job-train"
