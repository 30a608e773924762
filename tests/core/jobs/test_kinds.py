"""What every kind of job is held to, and that a new one is a file and a line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.configuration import load
from api.feature_gates import DEFAULTS
from api.names import SchedulingGate
from core.jobs import workload
from core.jobs.fields import at, changed, dotted
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB, JOB_SET, POD, supported
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.rayjob import RAY_JOB
from core.jobs.kinds.rayservice import RAY_SERVICE
from core.jobs.kinds.sparkapplication import SPARK_APPLICATION
from core.jobs.kinds.trainjob import TRAIN_JOB
from core.jobs.page import page, table
from core.jobs.template import ConflictError, Injection, merge_diff
from core.model import Raw
from core.wire.merge import merged
from tests.core.jobs.gang import GANG, gang
from tests.core.jobs.samples import job, patches
from tests.core.jobs.test_appwrapper import app_wrapper
from tests.core.jobs.test_jobset import job_set, replicated
from tests.core.jobs.test_kubeflow import KUBEFLOW, kubeflow
from tests.core.jobs.test_ray import RAY, ray
from tests.core.jobs.test_sparkapplication import spark
from tests.core.jobs.test_trainjob import made, train_job

ROOT = Path(__file__).parents[3]


EXAMPLES: dict[JobKind, Raw] = {
    BATCH_JOB: job(),
    JOB_SET: job_set(),
    GANG: gang(),
    **{kind: kubeflow(kind) for kind in KUBEFLOW},
    **{kind: ray(kind) for kind in RAY},
    TRAIN_JOB: train_job(),
    APP_WRAPPER: app_wrapper(),
    SPARK_APPLICATION: spark(),
}
RUNTIME: Raw = {
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch"},
    "spec": {"template": {"spec": {"replicatedJobs": made()["spec"]["replicatedJobs"]}}},
}
RELATED: dict[JobKind, list[Raw]] = {TRAIN_JOB: [made(), RUNTIME]}
"""The objects that a kind needs beside the example."""
IN_TEMPLATES = pytest.mark.parametrize(
    "kind",
    [kind for kind in EXAMPLES if kind not in (TRAIN_JOB, APP_WRAPPER, SPARK_APPLICATION)],
    ids=lambda kind: kind.kind,
)
"""Kinds whose starts write into pod templates; the others have other fields for that."""
EACH = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.kind)
MARKS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=2)
INJECTIONS = st.builds(
    Injection,
    name=st.just("any"),
    count=st.integers(1, 3),
    labels=MARKS,
    annotations=MARKS,
    node_selector=MARKS,
    tolerations=st.lists(st.sampled_from([{"key": "a"}, {"key": "b"}]), max_size=2, unique_by=str),
    gates=st.sampled_from([(), (SchedulingGate.TOPOLOGY,)]),
)


def applied(kind: JobKind, found: Raw, writes: Sequence[Any]) -> Raw:
    for patch in patches(writes):
        found = merged(found, patch.body)
    return found


def started(kind: JobKind, found: Raw, injection: Injection) -> Raw:
    related = RELATED.get(kind, ())
    return applied(kind, found, kind.start(found, [injection] * len(kind.slots(found, related)), related))


def pruned(value: Any) -> Any:
    """The value without empty objects and lists, which are what is left of those whose parts were removed."""
    if isinstance(value, list):
        return [pruned(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: pruned(each) for key, each in value.items()}
    return {key: each for key, each in found.items() if each not in ({}, [])}


@EACH
@given(injection=INJECTIONS)
def test_a_start_and_a_stop_give_back_the_job_as_it_was(kind: JobKind, injection: Injection) -> None:
    spec = EXAMPLES[kind]["spec"]  # the entry of a TrainJob for its starts is there before, and is empty
    original = {**EXAMPLES[kind], "spec": spec if kind is TRAIN_JOB else pruned(spec)}
    related = RELATED.get(kind, ())
    pod_sets = kind.pod_sets(original, related)
    running = started(kind, original, injection)
    assert kind.held(original)
    assert not kind.held(running)
    stopped = running
    while writes := kind.stop(stopped, pod_sets, related):
        stopped = applied(kind, stopped, writes)
        assert kind.held(stopped)
    assert stopped["spec"] == original["spec"]


@IN_TEMPLATES
@given(injection=INJECTIONS)
def test_a_start_changes_nothing_but_what_it_was_given(kind: JobKind, injection: Injection) -> None:
    original = EXAMPLES[kind]
    running = started(kind, original, injection)
    for slot in kind.slots(original):
        pod = at(running, slot.path)
        assert injection.node_selector.items() <= pod["spec"].get("nodeSelector", {}).items()
        assert injection.labels.items() <= pod["metadata"].get("labels", {}).items()
        assert [{"name": each} for each in injection.gates] == pod["spec"].get("schedulingGates", [])
        running = changed(running, slot.path, at(original, slot.path))
    assert merge_diff(pruned(original["spec"]), pruned(changed(running, *kind.hold(original))["spec"])) == {}


STRING_MAPS = frozenset(
    {
        *("labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits", "rayStartParams"),
        *("sparkConf", "hadoopConf", "deps"),
    }
)


def with_foreign(value: Any) -> Any:
    """The value with a field that Seiretsu does not know in each object, but for maps of strings."""
    if isinstance(value, list):
        return [with_foreign(each) for each in value]
    if not isinstance(value, dict):
        return value
    known = {key: each if key in STRING_MAPS else with_foreign(each) for key, each in value.items()}
    return {**known, "ofNobody": [{"deep": ["\u00e9", None, 1.5]}]}


def text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def foreign(value: Any) -> int:
    """How many of the fields of ``with_foreign`` a value has."""
    return text(value).count(b'"ofNobody"')


@EACH
@given(injection=INJECTIONS)
def test_a_field_of_nobody_survives_a_start_and_a_stop_byte_by_byte(kind: JobKind, injection: Injection) -> None:
    """A start keeps each of them, and a stop gives back every byte of the job."""
    example, related = EXAMPLES[kind], RELATED.get(kind, ())
    spec = example["spec"] if kind is TRAIN_JOB else pruned(example["spec"])
    original = {**example, "spec": {key: with_foreign(each) for key, each in spec.items()}, "ofNobody": {"a": [None]}}
    pod_sets = kind.pod_sets(original, related)
    running = started(kind, original, injection)
    assert foreign(running) >= foreign(original) > 0
    while writes := kind.stop(running, pod_sets, related):
        running = applied(kind, running, writes)
    assert text(running["spec"]) == text(original["spec"])
    assert text(running["ofNobody"]) == text(original["ofNobody"])


def of_condition(success: str, failure: str) -> tuple[Raw, Raw]:
    """The statuses of a job that ended with a condition."""
    ended = ({"conditions": [{"type": each, "status": "True", "message": "m"}]} for each in (success, failure))
    first, second = ended
    return first, second


WRAPPED = [{"type": "ResourcesDeployed", "status": "False"}]
ENDS: dict[JobKind, tuple[Raw, Raw] | None] = {
    BATCH_JOB: of_condition("Complete", "Failed"),
    JOB_SET: of_condition("Completed", "Failed"),
    GANG: of_condition("Done", "Broken"),
    TRAIN_JOB: of_condition("Complete", "Failed"),
    **{kind: of_condition("Succeeded", "Failed") for kind in KUBEFLOW},
    RAY_JOB: (
        {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
        {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"},
    ),
    RAY_CLUSTER: None,
    RAY_SERVICE: None,
    APP_WRAPPER: ({"phase": "Succeeded", "conditions": WRAPPED}, {"phase": "Failed", "conditions": WRAPPED}),
    SPARK_APPLICATION: ({"applicationState": {"state": "COMPLETED"}}, {"applicationState": {"state": "FAILED"}}),
    POD: ({"phase": "Succeeded"}, {"phase": "Failed"}),
}
"""The statuses of a job of each kind that succeeded and that failed; None for a kind that never finishes."""
SETS = [{"name": "a", "active": 1}, {"name": "b", "succeeded": 1}]
NEEDLESS: dict[JobKind, tuple[Raw, list[Raw], Raw]] = {
    BATCH_JOB: (job(completions=4, parallelism=3, status={"succeeded": 3}), [], {"main": 2}),
    JOB_SET: (
        job_set(replicated("a", 1), replicated("b", 2, parallelism=3), status={"replicatedJobsStatus": SETS}),
        [],
        {"b": 3},
    ),
    TRAIN_JOB: (train_job({"jobsStatus": [{"name": "node", "succeeded": 1}]}), [made()], {"node": 4}),
}
"""Jobs of the kinds that tell which of their pods are not needed any more: with related objects, and these pods."""


@pytest.mark.parametrize("kind", [*ALL, GANG], ids=lambda kind: kind.kind)
def test_how_a_job_ends_and_which_pods_it_needs_no_more(kind: JobKind) -> None:
    found, related = EXAMPLES.get(kind, {"metadata": {}, "spec": {}}), RELATED.get(kind, [])
    assert kind.finished({**found, "status": {}}, related) is None
    if kind is not POD:
        assert kind.reclaimable({**found, "status": {}}, related) == {}
    for success, status in zip((True, False), ENDS[kind] or (), strict=False):
        ended = kind.finished({**found, "status": status}, related)
        assert ended is not None
        assert ended.success is success
    tells = type(kind).reclaimable is not JobKind.reclaimable
    assert tells is (kind in NEEDLESS)
    if tells:
        one, with_related, expected = NEEDLESS[kind]
        assert kind.reclaimable(one, with_related) == expected


@EACH
def test_a_write_of_a_start_or_stop_lands_on_the_job_as_it_was_read_only(kind: JobKind) -> None:
    original, related = EXAMPLES[kind], RELATED.get(kind, ())
    injections = [Injection("any", 1)] * len(kind.slots(original, related))
    (start,) = patches(kind.start(original, injections, related))
    running = merged(original, start.body)
    for patch in (start, patches(kind.stop(running, kind.pod_sets(original, related), related))[0]):
        assert {**patch.body["metadata"], "annotations": None} == {
            "annotations": None,
            "uid": original["metadata"]["uid"],
            "resourceVersion": "5",
        }


@EACH
def test_a_stop_is_written_whatever_others_change_in_the_job_meanwhile(kind: JobKind) -> None:
    """Else its owner, who changes it all the time, would never be stopped: the second body holds it, and no more."""
    original, related = EXAMPLES[kind], RELATED.get(kind, ())
    injections = [Injection("any", 1)] * len(kind.slots(original, related))
    running = merged(original, patches(kind.start(original, injections, related))[0].body)
    pod_sets = kind.pod_sets(original, related)
    stop = patches(kind.stop(running, pod_sets, related))[0]
    assert stop.or_else is not None and "resourceVersion" not in stop.or_else["metadata"]
    assert stop.or_else["metadata"]["uid"] == original["metadata"]["uid"]
    held = merged(running, stop.or_else)
    assert kind.held(held)
    for patch in patches(kind.stop({**held, "status": {}}, pod_sets, related)):
        body = patch.or_else if patch.or_else is not None else patch.body
        assert "resourceVersion" not in body["metadata"], "what is left is restored whatever others change, too"


@EACH
def test_a_workload_stands_for_the_job_it_was_made_for(kind: JobKind) -> None:
    found, related = EXAMPLES[kind], RELATED.get(kind, ())
    raw = workload.manifest(kind, found, {"spec": {"priority": 0}}, related=related)
    assert raw["metadata"]["name"].startswith(f"{kind.singular}-{found['metadata']['name']}-")
    assert [each["name"] for each in raw["spec"]["podSets"]] == [slot.name for slot in kind.slots(found, related)]
    assert workload.stands_for(raw, kind, found, admitted=False, running=None, related=related)


@EACH
def test_a_start_with_other_pod_sets_than_the_job_has_is_a_conflict_for_good(kind: JobKind) -> None:
    found, related = EXAMPLES[kind], RELATED.get(kind, ())
    with pytest.raises(ConflictError, match="pod sets"):
        JobKind.start(kind, found, [Injection("any", 1)] * (len(kind.slots(found, related)) + 1), related)


@EACH
def test_a_job_without_metadata_or_templates_has_no_pod_sets(kind: JobKind) -> None:
    found = EXAMPLES[kind]
    assert kind.pod_sets({"spec": found["spec"]}) == []
    for slot in kind.slots(found):
        found = changed(found, slot.path, None)
    assert kind.pod_sets(found) == []


MANAGED_BY = {
    kind: path
    for kind in EXAMPLES
    for path in (("spec", "managedBy"), ("spec", "runPolicy", "managedBy"))
    if kind.form.errors(changed({}, path, 5))
}
"""Where a kind names the controller of a job."""


@pytest.mark.parametrize("kind", MANAGED_BY, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("name", ["kueue.x-k8s.io/multikueue", "example.com/controller"])
def test_a_job_of_another_controller_is_queued_and_started_like_others(kind: JobKind, name: str) -> None:
    found, related = EXAMPLES[kind], RELATED.get(kind, ())
    other = changed(found, MANAGED_BY[kind], name)
    assert kind.pod_sets(other, related) == kind.pod_sets(found, related)
    started_job = started(kind, other, Injection("any", 1, node_selector={"pool": "a"}))
    assert started_job == changed(
        started(kind, found, Injection("any", 1, node_selector={"pool": "a"})), MANAGED_BY[kind], name
    )
    assert not kind.held(started_job)
    assert not kind.skip(other)


def test_the_kinds_whose_jobs_may_have_another_controller() -> None:
    without = {GANG, SPARK_APPLICATION}
    assert set(MANAGED_BY) == set(EXAMPLES) - without


@EACH
def test_the_form_accepts_the_job_and_refuses_a_template_that_is_none(kind: JobKind) -> None:
    found = EXAMPLES[kind]
    assert kind.form.errors(found) == []
    for slot in kind.slots(found):
        spoiled = changed(found, slot.path, "x")
        if kind is APP_WRAPPER:  # its components may be anything
            assert kind.pod_sets(spoiled) == []
        else:
            assert [error.field for error in kind.form.errors(spoiled)] == [dotted(slot.path)]


@EACH
def test_an_elastic_job_is_refused_where_its_kind_cannot_be_resized(kind: JobKind) -> None:
    elastic = merged(EXAMPLES[kind], {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}})
    errors = kind.validate_create(elastic, DEFAULTS.__getitem__)
    assert [error.detail for error in errors] == (
        [] if kind.elastic else [f'elastic job is not supported for "{kind.api_version}, Kind={kind.kind}"']
    )


SCENARIO = """
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: only}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [pods]
    flavors: [{name: only, resources: [{name: pods, nominalQuota: 4}]}]
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: lq, namespace: ns}, spec: {clusterQueue: cq}}
---
"""


KUEUES = (
    *("batch/job", "pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"),
    *("jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "workload.codeflare.dev/appwrapper"),
    *(f"kubeflow.org/{each}job" for each in ("jax", "mpi", "paddle", "pytorch", "tf", "xgboost")),
    *(f"ray.io/ray{each}" for each in ("cluster", "job", "service")),
)


def test_a_kind_that_is_a_file_and_a_line_is_configured_watched_admitted_and_simulated(tmp_path: Path) -> None:
    labels, run = {"kueue.x-k8s.io/queue-name": "lq"}, {"seiretsu.dev/run-for": "60s"}
    gangs = [gang(name=name, labels=labels, annotations=run) for name in ("a", "b")]
    (tmp_path / "scenario.yaml").write_text(SCENARIO + "\n---\n".join(json.dumps(each) for each in gangs))
    (tmp_path / "config.yaml").write_text(f"integrations: {{frameworks: [batch/job, {GANG.framework}]}}")
    given = [str(tmp_path / name) for name in ("scenario.yaml", "config.yaml")]
    command = [sys.executable, "-m", "tests.core.jobs.with_gang", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    waited = {each["job"]: each["waited"] for each in found.pop("played")["workloads"]}
    assert waited == {"a": 0, "b": 60}
    assert {"mgang.kb.io", "vgang.kb.io", "mgang-default.kb.io"} < set(found.pop("hooks"))
    assert found.pop("warnings") == []
    assert {name for name, there in found.items() if not there} == set()


def test_every_integration_of_kueue_is_supported() -> None:
    assert supported() == dict.fromkeys(KUEUES, "") | {
        "sparkoperator.k8s.io/sparkapplication": "SparkApplicationIntegration"
    }
    assert set(load("").configuration.integrations.frameworks) <= supported().keys()


def test_the_page_lists_the_kinds_of_the_table() -> None:
    text = (ROOT / "docs" / "job-kinds.md").read_text()
    assert page(text) == text and table() in text, "run `make generate`"
    assert all(kind.counted for kind in ALL)


def test_a_new_kind_is_a_file_of_less_than_80_lines() -> None:
    assert len((ROOT / "tests" / "core" / "jobs" / "gang.py").read_text().splitlines()) < 80


def test_every_kind_of_the_table_has_an_example_here() -> None:
    assert set(ALL) <= {*EXAMPLES, POD}, "test_pod.py has the rules of pods, which cannot be suspended again"


def test_kinds_have_different_identities() -> None:
    for known_by in ("framework", "resource", "singular"):
        assert len({getattr(kind, known_by) for kind in ALL}) == len(ALL)


def test_a_kind_that_another_list_holds_back_keeps_the_other_gates() -> None:
    running = started(GANG, gang(), Injection("any", 1))
    assert running["spec"]["gates"] == ["other"]
    assert applied(GANG, running, GANG.stop(running, []))["spec"]["gates"] == ["other", "queue"]


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "controller": True}, "s"),
        ({"apiVersion": "jobset.x-k8s.io/v1beta1", "kind": "JobSet", "name": "s", "controller": True}, "s"),
        ({"apiVersion": "example.com/v1", "kind": "JobSet", "name": "s", "controller": True}, ""),
        ({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s"}, ""),
    ],
    ids=["its controller", "of another version", "of another group", "an owner that does not control it"],
)
def test_a_related_object_belongs_to_the_job_that_controls_it(reference: Raw, name: str) -> None:
    assert JOB_SET.belongs_to({"metadata": {"ownerReferences": [reference]}}) == name
