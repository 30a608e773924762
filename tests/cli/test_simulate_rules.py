"""The operator's Configuration, the namespace's rules and every form of manifest count in a simulation as they do in a
cluster.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import application
from cli.simulate import NO_VARIANTS
from core.model import Raw

POLICY = "concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}"
QUEUES = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: only}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: only, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main}
spec: {clusterQueue: cq}
"""


def job(name: str, cpu: str = "1", *, at: str = "0", run_for: str = "60s", pod: str = "", **annotations: str) -> str:
    """A Job of one pod; what ``pod`` says goes into its spec."""
    extra = "".join(f', "seiretsu.dev/{key}": "{value}"' for key, value in annotations.items())
    return f"""---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {{kueue.x-k8s.io/queue-name: main}}
  annotations: {{seiretsu.dev/arrive-at: "{at}", seiretsu.dev/run-for: "{run_for}"{extra}}}
spec:
  template:
    spec:
      restartPolicy: Never
      {pod}
      containers: [{{name: c, image: x, resources: {{requests: {{{cpu}}}}}}}]
""".replace("requests: {1}", "requests: {cpu: 1}")


def told(folder: Path, *texts: str, config: str = "", options: tuple[str, ...] = ()) -> Raw:
    """What `simulate -o json` says of these manifests."""
    (folder / "all.yaml").write_text("".join(text if text.startswith("---") else f"---\n{text}" for text in texts))
    words = ["simulate", str(folder / "all.yaml"), "-o", "json", *options]
    if config:
        (folder / "config.yaml").write_text(config)
        words += ["--config", str(folder / "config.yaml")]
    done = CliRunner().invoke(application(["simulate"]), words)
    assert done.exit_code == 0, done.stderr
    found: Raw = json.loads(done.stdout)
    return found


def waited(found: Raw) -> dict[str, float | None]:
    return {each["job"]: each["waited"] for each in found["workloads"]}


def used(found: Raw) -> list[tuple[str, str]]:
    return [(each["resource"], each["peak"]) for each in found["clusterQueues"][0]["used"]]


def test_an_excluded_resource_needs_no_quota(tmp_path: Path) -> None:
    jobs = job("a", "cpu: 1, example.com/license: 1")
    assert waited(told(tmp_path, QUEUES, jobs)) == {"a": None}
    config = "resources: {excludeResourcePrefixes: [example.com]}\n"
    assert waited(told(tmp_path, QUEUES, jobs, config=config)) == {"a": 0}


def test_a_transformed_resource_counts_as_what_it_becomes(tmp_path: Path) -> None:
    config = "resources: {transformations: [{input: example.com/slice, strategy: Replace, outputs: {cpu: 3}}]}\n"
    found = told(tmp_path, QUEUES, job("a", "example.com/slice: 1"), config=config)
    assert (waited(found), used(found)) == ({"a": 0}, [("cpu", "3")])


def test_defaults_of_a_limit_range_and_the_overhead_of_a_runtime_class_are_counted(tmp_path: Path) -> None:
    limits = (
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: default}\n"
        "spec: {limits: [{type: Container, defaultRequest: {cpu: 2}}]}\n"
    )
    overhead = (
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: vm}\nhandler: vm\n"
        "overhead: {podFixed: {cpu: 500m}}\n"
    )
    found = told(tmp_path, QUEUES, limits, overhead, job("a", "", pod="runtimeClassName: vm"))
    assert used(found) == [("cpu", "2500m")]


def test_jobs_that_violate_a_limit_range_never_start_and_have_the_reason(tmp_path: Path) -> None:
    limits = (
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: default}\n"
        "spec: {limits: [{type: Container, max: {cpu: 1}}]}\n"
    )
    (found,) = told(tmp_path, QUEUES, limits, job("a", "cpu: 2"))["workloads"]
    assert found["waits"][-1]["reason"] == "Misconfigured"
    assert "requests must not be above the limitRange max" in found["waits"][-1]["message"]


def test_a_resource_quota_in_the_files_is_applied(tmp_path: Path) -> None:
    quota = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: compute, namespace: default}\n"
        "spec: {hard: {requests.cpu: 1}}\n"
    )
    found = told(tmp_path, QUEUES, quota, job("a", "cpu: 2"))
    (played,) = found["workloads"]
    assert played["warnings"] == [
        'no pod can be created: each asks for 2 cpu, ResourceQuota "compute" allows 1; ask for 1 or less'
    ]


def test_a_rule_that_the_operator_denies_refuses_the_job(tmp_path: Path) -> None:
    config = "seiretsu: {feedback: {rules: [{name: request-too-large, action: Deny}]}}\n"
    found = told(tmp_path, QUEUES, job("big", "cpu: 9"), job("small"), config=config)
    ((refused),) = found["refused"]
    assert refused["job"] == "default/big"
    assert refused["message"].startswith("never starts: asks for 9 cpu")
    assert waited(found) == {"small": 0}


def test_an_expression_of_the_operator_is_evaluated_for_every_job(tmp_path: Path) -> None:
    config = (
        "seiretsu: {feedback: {rules: [{name: no-b, action: Deny}], expressions: "
        "[{name: no-b, expression: \"object.metadata.name != 'b'\", message: no b here}]}}\n"
    )
    found = told(tmp_path, QUEUES, job("a"), job("b"), config=config)
    assert (waited(found), [each["job"] for each in found["refused"]]) == ({"a": 0}, ["default/b"])


def test_a_job_that_is_not_managed_starts_immediately_with_a_note(tmp_path: Path) -> None:
    config = "managedJobsNamespaceSelector: {matchLabels: {team: a}}\n"
    found = told(tmp_path, QUEUES, job("a"), config=config)
    assert waited(found) == {}
    assert found["notQueued"][0]["message"] == "starts immediately: namespace default is not managed"


def test_a_job_without_queue_waits_for_ever_where_all_jobs_are_managed(tmp_path: Path) -> None:
    jobs = job("a").replace("kueue.x-k8s.io/queue-name: main", "")
    assert told(tmp_path, QUEUES, jobs)["notQueued"][0]["message"] == "starts immediately: it has no queue name"
    found = told(tmp_path, QUEUES, jobs, config="manageJobsWithoutQueueName: true\n")
    assert waited(found) == {"a": None}


def test_the_queue_named_default_takes_jobs_that_name_none(tmp_path: Path) -> None:
    queues = QUEUES.replace("metadata: {name: main}", "metadata: {name: default}")
    found = told(tmp_path, queues, job("a").replace("kueue.x-k8s.io/queue-name: main", ""))
    assert (waited(found), found["workloads"][0]["queue"]) == ({"a": 0}, "default")


BLOCK = "waitForPodsReady: {timeout: 5m, blockAdmission: true}\n"


def test_with_block_admission_one_waits_until_the_pods_of_the_other_are_ready(tmp_path: Path) -> None:
    slow, quick = job("slow", **{"ready-after": "90s"}), job("quick", at="1")
    assert waited(told(tmp_path, QUEUES, slow, quick)) == {"slow": 0, "quick": 0}
    assert waited(told(tmp_path, QUEUES, slow, quick, config=BLOCK)) == {"slow": 0, "quick": 89}


def test_pods_that_are_never_ready_in_time_are_evicted_with_growing_backoff_and_then_deactivated(
    tmp_path: Path,
) -> None:
    config = (
        "waitForPodsReady: {timeout: 60s, requeuingStrategy: "
        "{backoffBaseSeconds: 10, backoffLimitCount: 2, timestamp: Eviction}}\n"
    )
    (found,) = told(tmp_path, QUEUES, job("never", **{"ready-after": "1h"}), config=config)["workloads"]
    assert [(each["started"], each["ended"], each["reason"]) for each in found["attempts"]] == [
        (0, 60, "PodsReadyTimeout"),
        (70, 130, "PodsReadyTimeout"),
        (150, 210, "Deactivated"),
    ]
    assert found["waits"][-1]["reason"] == "Deactivated"
    assert "exceeding the maximum number of re-queuing retries" in found["waits"][-1]["message"]


def test_a_job_that_exceeds_the_maximum_execution_time_is_deactivated(tmp_path: Path) -> None:
    label = "kueue.x-k8s.io/queue-name: main, kueue.x-k8s.io/max-exec-time-seconds: '30'"
    (found,) = told(tmp_path, QUEUES, job("long").replace("kueue.x-k8s.io/queue-name: main", label))["workloads"]
    (attempt,) = found["attempts"]
    assert (attempt["started"], attempt["ended"], found["finished"]) == (0, 30, None)
    assert attempt["evicted"] == "The workload is deactivated due to exceeding the maximum execution time"


def test_fair_sharing_weights_decide_which_queue_borrows(tmp_path: Path) -> None:
    def queue(name: str, weight: int, nominal: int) -> str:
        return f"""---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: all
  namespaceSelector: {{}}
  fairSharing: {{weight: {weight}}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: only, resources: [{{name: cpu, nominalQuota: {nominal}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}}}
spec: {{clusterQueue: {name}}}
"""

    queues = (QUEUES.split("---")[0], queue("a", 1, 0), queue("b", 3, 0), queue("lender", 1, 4))
    # a borrows 1 with weight 1, b borrows 2 with weight 3; then one is left, and a asks for it first.
    asked = (("a1", "0"), ("b1", "0"), ("b2", "0"), ("a2", "10"), ("b3", "11"))
    jobs = [
        job(name, at=at, run_for="600s").replace("queue-name: main", f"queue-name: {name[0]}") for name, at in asked
    ]
    filler = job("filler", at="1", run_for="20s").replace("queue-name: main", "queue-name: lender")
    by_time = waited(told(tmp_path, *queues, filler, *jobs))
    assert (by_time["a2"], by_time["b3"]) == (11, 589)
    shared = waited(
        told(tmp_path, *queues, filler, *jobs, config="fairSharing: {preemptionStrategies: [LessThanInitialShare]}\n")
    )
    assert (shared["a2"], shared["b3"]) == (590, 10)


def test_with_admission_fair_sharing_the_queue_that_used_less_goes_first(tmp_path: Path) -> None:
    other = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: other}\nspec: {clusterQueue: cq}\n"
    mode = "  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}\n  namespaceSelector: {}"
    queues = QUEUES.replace("  namespaceSelector: {}", mode)
    jobs = [job(f"mine-{n}", "cpu: 4", at=str(n)) for n in range(3)]
    jobs.append(job("theirs", "cpu: 4", at="5").replace("queue-name: main", "queue-name: other"))
    assert waited(told(tmp_path, QUEUES, other, *jobs))["theirs"] == 175
    config = "admissionFairSharing: {usageHalfLifeTime: 1h, usageSamplingInterval: 10s}\n"
    assert waited(told(tmp_path, queues, other, *jobs, config=config))["theirs"] == 55


def test_a_priority_boost_counts_where_its_gate_is_on(tmp_path: Path) -> None:
    # It is an annotation of Workloads: those of a live cluster, or written into a file.
    held = """apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, namespace: default, creationTimestamp: "2026-01-01T00:00:0%dZ", uid: "%d"%s}
spec:
  queueName: main
  podSets: [{name: main, count: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}}}]
"""
    boost = ', annotations: {kueue.x-k8s.io/priority-boost: "7"}'
    workloads = (held % ("first", 1, 1, ""), held % ("boosted", 2, 2, boost))
    gated = "featureGates: {PriorityBoost: true}\n"
    assert waited(told(tmp_path, QUEUES, *workloads)) == {"boosted": 60, "first": 0}
    assert waited(told(tmp_path, QUEUES, *workloads, config=gated)) == {"boosted": 0, "first": 60}


V1ALPHA1 = """apiVersion: kueue.x-k8s.io/v1alpha1
kind: ResourceFlavor
metadata: {name: only}
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resources: [{name: cpu, flavors: [{name: only, quota: {min: 4}}]}]
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: Queue
metadata: {name: main, namespace: default}
spec: {clusterQueue: cq}
"""


@pytest.mark.parametrize(
    "queues",
    [QUEUES, QUEUES.replace("v1beta2", "v1beta1"), V1ALPHA1],
    ids=["v1beta2", "v1beta1", "v1alpha1 of v0.1"],
)
def test_manifests_of_every_version_are_played_as_they_are(tmp_path: Path, queues: str) -> None:
    assert waited(told(tmp_path, queues, job("a", "cpu: 4"), job("b", "cpu: 4"))) == {"a": 0, "b": 60}


def test_a_check_that_a_file_names_passes_at_once(tmp_path: Path) -> None:
    check = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nmetadata: {name: ready}\n"
        "spec: {controllerName: example.com/check}\n"
    )
    rule = "  admissionChecksStrategy: {admissionChecks: [{name: ready}]}\n  namespaceSelector: {}"
    assert waited(told(tmp_path, check, QUEUES.replace("  namespaceSelector: {}", rule), job("a"))) == {"a": 0}


def checked(tmp_path: Path, *jobs: str, **annotations: str) -> Raw:
    """What a simulation says of jobs whose queue asks for a check with these annotations."""
    given = ", ".join(f'seiretsu.dev/{name.replace("_", "-")}: "{value}"' for name, value in annotations.items())
    check = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nspec: {controllerName: example.com/check}\n"
        f"metadata: {{name: slow, annotations: {{{given}}}}}\n"
    )
    rule = "  admissionChecksStrategy: {admissionChecks: [{name: slow}]}\n  namespaceSelector: {}"
    return told(tmp_path, check, QUEUES.replace("  namespaceSelector: {}", rule), *jobs)


def test_a_check_takes_its_time_and_the_quota_is_held_meanwhile(tmp_path: Path) -> None:
    found = checked(tmp_path, job("a", "cpu: 4"), job("b", "cpu: 4"), ready_after="30s")
    assert waited(found) == {"a": 30, "b": 30 + 60 + 30}
    assert [each["finished"] for each in found["workloads"]] == [90, 180]
    assert used(found) == [("cpu", "4")]


def test_a_check_that_sends_back_once_lets_others_go_first(tmp_path: Path) -> None:
    found = checked(tmp_path, job("a", "cpu: 4"), verdict="Retry", ready_after="10s", retry_after="2m")
    assert waited(found) == {"a": 10 + 120 + 10}


def test_a_workload_that_a_check_rejects_never_starts_and_its_quota_is_free(tmp_path: Path) -> None:
    found = checked(tmp_path, job("a", "cpu: 4"), job("b", "cpu: 4"), verdict="Rejected", ready_after="10s")
    assert waited(found) == {"a": None, "b": None}
    assert [each["waits"][-1]["reason"] for each in found["workloads"]] == ["Deactivated", "Deactivated"]
    assert found["end"] == 20, "b is asked when the quota of a is free"


def test_a_verdict_that_does_not_exist_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"seiretsu.dev/verdict\]: 'Maybe' is not one of Ready, Retry, Rejected"):
        checked(tmp_path, job("a"), verdict="Maybe")


def test_objects_that_are_not_played_are_listed(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Service\nmetadata: {name: p}\n"
    assert told(tmp_path, QUEUES, pod, job("a"))["remarks"] == ["not simulated: 1 of kind Service (v1)"]


def test_pods_that_follow_each_other_run_one_after_the_other(tmp_path: Path) -> None:
    text = (
        job("a")
        .replace(
            "  template:\n",
            "  completions: 4\n  parallelism: 2\n  template:\n    metadata: "
            "{annotations: {seiretsu.dev/run-for: 10s}}\n",
        )
        .replace(', seiretsu.dev/run-for: "60s"', "")
    )
    (found,) = told(tmp_path, QUEUES, text)["workloads"]
    assert found["finished"] == 20


def changed(folder: Path, patch: str, *texts: str) -> tuple[Raw, Raw]:
    (folder / "patch.yaml").write_text(patch)
    both: dict[str, Any] = told(folder, *texts, options=("--what-if", str(folder / "patch.yaml")))
    before, after = both["outcomes"]
    return before, after


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_change_is_merged_in_the_version_it_is_written_in(tmp_path: Path, version: str) -> None:
    field = "cohort" if version == "v1beta1" else "cohortName"
    patch = (
        f"apiVersion: kueue.x-k8s.io/{version}\nkind: ClusterQueue\nmetadata: {{name: cq}}\nspec: {{{field}: all}}\n"
    )
    lender = (
        QUEUES.split("---")[1]
        .replace("{name: cq}", "{name: lender}")
        .replace("  namespaceSelector: {}", "  namespaceSelector: {}\n  cohortName: all")
    )
    before, after = changed(tmp_path, patch, QUEUES, lender, job("a", "cpu: 8"))
    assert (waited(before), waited(after)) == ({"a": None}, {"a": 0})


def test_a_change_may_modify_or_remove_a_job(tmp_path: Path) -> None:
    patch = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: b, annotations: {seiretsu.dev/arrive-at: '10'}}\n"
        "---\napiVersion: batch/v1\nkind: Job\n$patch: delete\nmetadata: {name: a}\n"
    )
    before, after = changed(tmp_path, patch, QUEUES, job("a", "cpu: 4"), job("b", "cpu: 4"))
    assert (waited(before), waited(after)) == ({"a": 0, "b": 60}, {"b": 0})
    assert after["workloads"][0]["arrived"] == 10


def test_workloads_of_a_cluster_queue_with_concurrent_admission_wait_themselves(tmp_path: Path) -> None:
    """Nobody creates variants here, and a remark says so."""
    (tmp_path / "all.yaml").write_text(
        "---\n".join(
            [QUEUES.replace("spec:\n  namespaceSelector", f"spec:\n  {POLICY}\n  namespaceSelector"), job("a")]
        )
    )
    (tmp_path / "config.yaml").write_text("featureGates: {ConcurrentAdmission: true}\n")
    words = ["simulate", str(tmp_path / "all.yaml"), "-o", "json", "--config", str(tmp_path / "config.yaml")]
    result = CliRunner().invoke(application(["simulate"]), words)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"seiretsu simulate: {NO_VARIANTS}\n"
    assert waited(json.loads(result.stdout)) == {"a": 0}
