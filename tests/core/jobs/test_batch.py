"""A batch/v1 Job in the eyes of the queue."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.actions import Patch
from core.jobs import meta, template, workload
from core.jobs.job_reader import Outcome
from core.jobs.kinds import BATCH_JOB
from core.jobs.template import ConflictError, Injection, merge_diff
from core.wire.merge import merged
from tests.core.jobs.samples import job

INJECTION = Injection("main", 3, {"kueue.x-k8s.io/podset": "main"}, {}, {"kind": "spot"}, [{"key": "spot"}])


def applied(found: dict[str, Any], patches: list[Patch]) -> dict[str, Any]:
    for patch in patches:
        found = merged(found, patch.body)
    return found


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        pytest.param({"parallelism": 3, "completions": 10}, 3, id="as many as run at once"),
        pytest.param({"parallelism": 5, "completions": 2}, 2, id="never more than are to complete"),
        pytest.param({"parallelism": 4, "completions": None}, 4, id="a work queue has no completions"),
    ],
)
def test_the_count_of_pods(spec: dict[str, Any], count: int) -> None:
    assert BATCH_JOB.pod_sets(job(**spec))[0]["count"] == count


def test_the_pod_set_keeps_the_template_without_what_belongs_to_one_run() -> None:
    (found,) = BATCH_JOB.pod_sets(job(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}))
    assert found["minCount"] == 2
    assert found["template"]["metadata"]["labels"] == {"app": "x", "batch.kubernetes.io/job-name": "j"}


def test_of_doubled_environment_variables_the_last_counts() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    (found,) = BATCH_JOB.pod_sets(job(pod={"containers": [{"name": "c", "env": env}]}))
    assert found["template"]["spec"]["containers"][0]["env"] == [
        {"name": "A", "value": "3"},
        {"name": "B", "value": "2"},
    ]


def test_starting_injects_node_labels_and_tolerations_and_changes_nothing_else() -> None:
    (patch,) = BATCH_JOB.start(job(), [INJECTION])
    assert patch == Patch(
        {
            "metadata": {"uid": "job-uid", "resourceVersion": "5"},
            "spec": {
                "suspend": False,
                "template": {
                    "metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}},
                    "spec": {"nodeSelector": {"kind": "spot"}, "tolerations": [{"key": "spot"}]},
                },
            },
        }
    )


def test_a_start_time_of_an_earlier_run_is_taken_back_before_the_template_changes() -> None:
    patches = BATCH_JOB.start(job(status={"startTime": "2024-11-01T00:00:00Z"}), [INJECTION])
    assert [patch.subresource for patch in patches] == ["status", ""]
    assert patches[0].body["status"] == {"startTime": None}
    assert "resourceVersion" not in patches[1].body["metadata"]


def test_partial_admission_lowers_parallelism_and_with_its_annotation_completions() -> None:
    few = Injection("main", 2)
    partial = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    assert BATCH_JOB.start(job(annotations=partial), [few])[0].body["spec"] == {"suspend": False, "parallelism": 2}
    both = {**partial, "kueue.x-k8s.io/job-completions-equal-parallelism": "true"}
    spec = BATCH_JOB.start(job(annotations=both), [few])[0].body["spec"]
    assert (spec["parallelism"], spec["completions"]) == (2, 2)
    assert "parallelism" not in BATCH_JOB.start(job(), [few])[0].body["spec"]


def test_a_selector_that_contradicts_the_flavor_is_a_conflict() -> None:
    with pytest.raises(ConflictError, match="conflict for key=kind, value1=gpu, value2=spot"):
        BATCH_JOB.start(job(pod={"nodeSelector": {"kind": "gpu"}}), [INJECTION])


def test_labels_of_seiretsu_in_a_copied_manifest_are_no_conflict() -> None:
    template_of = job()["spec"]["template"]
    template_of["metadata"]["labels"]["kueue.x-k8s.io/podset"] = "other"
    assert template.inject(template_of, INJECTION)["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"


@given(partial=st.booleans(), selector=st.dictionaries(st.sampled_from("ab"), st.just("1")), ran=st.booleans())
def test_stop_undoes_start_exactly(partial: bool, selector: dict[str, str], ran: bool) -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "1"} if partial else {}
    original = job(annotations=annotations, pod={"nodeSelector": selector} if selector else {})
    pod_sets = BATCH_JOB.pod_sets(original)
    running = applied(
        original, BATCH_JOB.start(original, [Injection("main", 2, {"l": "1"}, {"a": "1"}, {"kind": "spot"})])
    )
    assert not BATCH_JOB.suspended(running)
    if ran:
        running["status"]["startTime"] = "2024-11-01T00:00:00Z"
    patches = BATCH_JOB.stop(running, pod_sets)
    assert [patch.subresource for patch in patches] == (["", "status", ""] if ran else ["", ""])
    stopped = applied(running, patches)
    assert merge_diff(original["spec"], stopped["spec"]) == {}
    assert BATCH_JOB.stop(stopped, pod_sets) == []


def test_a_stop_that_was_cut_short_is_finished_by_asking_again() -> None:
    original = job()
    pod_sets = BATCH_JOB.pod_sets(original)
    running = applied(original, BATCH_JOB.start(original, [INJECTION]))
    half = applied(running, BATCH_JOB.stop(running, pod_sets)[:1])
    assert merge_diff(original["spec"], applied(half, BATCH_JOB.stop(half, pod_sets))["spec"]) == {}


def test_the_template_is_restored_when_the_last_pod_is_gone() -> None:
    original = job()
    pod_sets = BATCH_JOB.pod_sets(original)
    running = applied(original, BATCH_JOB.start(original, [INJECTION]))
    running["status"] = {"active": 1, "startTime": "2024-11-01T00:00:00Z"}
    going = applied(running, BATCH_JOB.stop(running, pod_sets))
    assert BATCH_JOB.suspended(going)
    assert going["spec"]["template"] == running["spec"]["template"]
    assert BATCH_JOB.stop(going, pod_sets) == []
    gone = {**going, "status": {}}
    assert merge_diff(original["spec"], applied(gone, BATCH_JOB.stop(gone, pod_sets))["spec"]) == {}


@pytest.mark.parametrize("ends", ["SuccessCriteriaMet", "FailureTarget"])
def test_a_stopped_job_that_ends_has_a_start_time(ends: str) -> None:
    """The API server lets no Job end without one: it would stay between running and ended."""
    original = job()
    pod_sets = BATCH_JOB.pod_sets(original)
    running = applied(original, BATCH_JOB.start(original, [INJECTION]))
    ending = {"type": ends, "status": "True", "lastTransitionTime": "2024-11-01T00:00:09Z"}
    running["status"] = {"startTime": "2024-11-01T00:00:00Z", "conditions": [ending]}
    (hold,) = BATCH_JOB.stop(running, pod_sets)
    assert hold.body["spec"] == {"suspend": True}
    held = applied(running, [hold])
    assert BATCH_JOB.stop(held, pod_sets) == []
    resumed = {"type": "Suspended", "status": "False", "lastTransitionTime": "2024-11-01T00:00:01Z"}
    for conditions, since in (([resumed, ending], "01"), ([ending], "09")):
        (given,) = BATCH_JOB.stop({**held, "status": {"conditions": conditions}}, pod_sets)
        assert (given.subresource, given.body["status"]) == ("status", {"startTime": f"2024-11-01T00:00:{since}Z"})


def test_a_job_that_kueue_was_stopping_is_stopped_to_the_end() -> None:
    half = job(annotations={"kueue.x-k8s.io/stopping": "true"})
    assert not BATCH_JOB.suspended(half)
    after = applied(half, BATCH_JOB.stop(half, BATCH_JOB.pod_sets(half)))
    assert BATCH_JOB.suspended(after)


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        ([], None),
        ([{"type": "Complete", "status": "True", "message": "done"}], Outcome(True, "done")),
        ([{"type": "Failed", "status": "True", "message": "backoff"}], Outcome(False, "backoff")),
        ([{"type": "Failed", "status": "False"}, {"type": "Suspended", "status": "True"}], None),
    ],
)
def test_how_a_job_ended(conditions: list[dict[str, str]], outcome: Outcome | None) -> None:
    assert BATCH_JOB.finished(job(status={"conditions": conditions})) == outcome


@pytest.mark.parametrize(
    ("spec", "status", "free"),
    [
        pytest.param({"completions": 5}, {"succeeded": 1}, {}, id="work is left for every slot"),
        pytest.param({"completions": 5}, {"succeeded": 3}, {"main": 1}, id="one slot has no work left"),
        pytest.param({"completions": None}, {"succeeded": 1}, {"main": 1}, id="a work queue winds down"),
        pytest.param({"parallelism": 1, "completions": 1}, {"succeeded": 1}, {}, id="one pod has nothing to give back"),
        pytest.param(
            {"completions": 3, "completionMode": "Indexed"},
            {"completedIndexes": "0", "failedIndexes": "2"},
            {"main": 2},
            id="finally failed indexes count as done",
        ),
        pytest.param(
            {"completions": 3, "completionMode": "Indexed"},
            {"completedIndexes": "0-1,7", "failedIndexes": "1"},
            {"main": 2},
            id="an index is counted once, and not beyond completions",
        ),
    ],
)
def test_reclaimable_pods(spec: dict[str, Any], status: dict[str, Any], free: dict[str, int]) -> None:
    assert BATCH_JOB.reclaimable(job(status=status, **spec)) == free


def test_pods_are_ready_when_ready_and_succeeded_make_up_the_count() -> None:
    assert BATCH_JOB.pods_ready(job(status={"ready": 2, "succeeded": 1}))
    assert BATCH_JOB.pods_ready(job(status={"ready": 2, "uncountedTerminatedPods": {"succeeded": ["p"]}}))
    assert not BATCH_JOB.pods_ready(job(status={"ready": 2}))


def test_a_workload_is_named_as_kueue_names_it() -> None:
    found = job()
    found["metadata"] |= {"name": "sample-job", "uid": "1d6e5ab"}
    assert workload.name(BATCH_JOB, found) == "job-sample-job-ed0b3"
    found["metadata"]["name"] = "x" * 253
    assert len(workload.name(BATCH_JOB, found)) == 253


def test_the_label_of_the_queue_wins_over_the_annotation_of_old() -> None:
    found = job(annotations={"kueue.x-k8s.io/queue-name": "old"})
    assert meta.queue_name(found) == "lq"
    del found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    assert meta.queue_name(found) == "old"


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("0", None), ("-5", None), ("soon", None)])
def test_the_execution_time_limit_is_a_positive_number(text: str, seconds: int | None) -> None:
    assert workload.max_execution_seconds(job(labels={"kueue.x-k8s.io/max-exec-time-seconds": text})) == seconds


values = st.recursive(
    st.integers() | st.text(max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(objects, objects)
def test_a_merge_diff_leads_from_one_object_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge_diff(new, merged(old, merge_diff(old, new))) == {}
