"""Pods on the simulated nodes run and end as their annotations say, and wait if they do not fit."""

from __future__ import annotations

import datetime
import ipaddress
import json
from typing import Any

import pytest

from devcluster.nodes import EXIT_CODE, RUN_FOR, NodeGroup, nodes
from tests.conftest import Kubectl
from tests.eventually import WAIT


def _job(annotations: dict[str, str], cpu: str = "1", pods: int = 1, **spec: Any) -> str:
    template = {
        "metadata": {"annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    body = {"parallelism": pods, "completions": pods, "backoffLimit": 0, **spec, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": body})


def _pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", "pods", "-o", "json", check=True).stdout)["items"]
    return found


def _ran_for(pod: dict[str, Any]) -> float:
    terminated = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    times = (datetime.datetime.fromisoformat(terminated[key]) for key in ("startedAt", "finishedAt"))
    started, finished = times
    return (finished - started).total_seconds()


def test_nodes_of_a_group_are_named_and_sized_alike() -> None:
    made = nodes(NodeGroup(2, cpu="8", memory="1Gi", prefix="big", labels={"pool": "a"}))
    assert [node["metadata"]["name"] for node in made] == ["big-1", "big-2"]
    assert all(node["status"]["allocatable"] == {"cpu": "8", "memory": "1Gi", "pods": "1000"} for node in made)
    assert all(node["metadata"]["labels"]["pool"] == "a" for node in made)


@pytest.mark.cluster
def test_a_jobs_pods_run_for_the_annotated_time_and_complete(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=_job({RUN_FOR: "4s"}, pods=3), check=True)
    kubectl(*WAIT, "--for=condition=Complete", "job/job", check=True)
    pods = _pods(kubectl)
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3
    assert all(_ran_for(pod) >= 3 for pod in pods)


@pytest.mark.cluster
def test_a_jobs_pods_run_two_seconds_by_default_and_complete(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=_job({}), check=True)
    kubectl(*WAIT, "--for=condition=Complete", "job/job", check=True)
    (pod,) = _pods(kubectl)
    assert _ran_for(pod) >= 1


@pytest.mark.cluster
def test_a_pod_fails_with_the_exit_code_it_is_given(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=_job({RUN_FOR: "100ms", EXIT_CODE: "42"}), check=True)
    kubectl(*WAIT, "--for=condition=Failed", "job/job", check=True)
    (pod,) = _pods(kubectl)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42


@pytest.mark.cluster
def test_a_pod_that_fits_no_node_stays_pending(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=_job({}, cpu="17"), check=True)
    kubectl(*WAIT, "--for=jsonpath={.status.active}=1", "job/job", check=True)
    kubectl(
        *WAIT, "--for=condition=PodScheduled=False", "pod", "-l", "job-name=job", check=True
    )  # fmt: skip
    (pod,) = _pods(kubectl)
    assert pod["status"]["phase"] == "Pending"
    assert "Insufficient cpu" in pod["status"]["conditions"][0]["message"]


@pytest.mark.cluster
def test_suspending_a_job_removes_its_pods(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=_job({RUN_FOR: "10m"}), check=True)
    kubectl(*WAIT, "--for=jsonpath={.status.ready}=1", "job/job", check=True)
    kubectl("patch", "job", "job", "-p", '{"spec": {"suspend": true}}', check=True)
    kubectl(*WAIT, "--for=delete", "pod", "-l", "job-name=job", check=True)
    assert _pods(kubectl) == []


@pytest.mark.cluster
def test_a_pod_of_no_job_runs_on(kubectl: Kubectl) -> None:
    kubectl("run", "alone", "--image=none", check=True)
    kubectl(*WAIT, "--for=condition=Ready", "pod/alone", check=True)
    (pod,) = _pods(kubectl)
    assert pod["status"]["phase"] == "Running"


@pytest.mark.cluster
def test_a_pod_with_init_containers_and_sidecars_runs_and_has_an_address(kubectl: Kubectl) -> None:
    first, beside = {"name": "first", "image": "none"}, {"name": "beside", "image": "none", "restartPolicy": "Always"}
    spec = {"initContainers": [first, beside], "containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "prepared"}, "spec": spec}
    kubectl("create", "-f", "-", stdin=json.dumps(pod), check=True)
    kubectl(*WAIT, "--for=condition=Ready", "pod/prepared", check=True)
    (found,) = _pods(kubectl)
    states = {each["name"]: [*each["state"]] for each in found["status"]["initContainerStatuses"]}
    assert states == {"first": ["terminated"], "beside": ["running"]}
    assert ipaddress.ip_address(found["status"]["podIP"])
