"""What nobody but Seiretsu changes of a job that has quota: its controller, and the nodes of its flavors."""

from __future__ import annotations

from typing import Any

import pytest

from core.jobs.admission.running import controller_errors, left_out, node_errors
from core.jobs.kinds import ALL
from core.model import Admission, PodSetAssignment, Raw, ResourceFlavor
from core.model.workload import replace
from tests.builders import reserved

KIND = next(kind for kind in ALL if kind.framework == "kubeflow.org/pytorchjob")
ELSEWHERE = "kueue.x-k8s.io/multikueue"
FLAVORS = {"slow": ResourceFlavor("slow", {"pool": "slow", "zone": "a"}), "bare": ResourceFlavor("bare")}


def torch(worker: Raw | None = None, **policy: Any) -> Raw:
    """A job of two pod sets, whose workers have this node selector."""
    container = {"name": "pytorch", "image": "i"}
    specs = {"Master": {"containers": [container]}, "Worker": {"containers": [container], "nodeSelector": worker}}
    replicas = {name: {"replicas": 1, "template": {"spec": spec}} for name, spec in specs.items()}
    spec = {"runPolicy": policy, "pytorchReplicaSpecs": replicas}
    return {"metadata": {"name": "a", "namespace": "ns", "uid": "u"}, "spec": spec}


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ({}, {}, False),
        ({}, {"managedBy": KIND.own_controller}, False),
        ({}, {"managedBy": ELSEWHERE}, True),
        ({"managedBy": ELSEWHERE}, {}, True),
        ({"managedBy": ELSEWHERE}, {"managedBy": ELSEWHERE}, False),
    ],
)
def test_a_job_with_quota_stays_with_its_controller(before: Raw, after: Raw, refused: bool) -> None:
    paths = [each.field for each in controller_errors(KIND, torch(**before), torch(**after))]
    assert paths == (["spec.runPolicy.managedBy"] if refused else [])


SLOW = {"pool": "slow", "zone": "a"}


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        pytest.param(SLOW, SLOW, [], id="as it was"),
        pytest.param(SLOW, {**SLOW, "rack": "1"}, [], id="narrower"),
        pytest.param(SLOW, None, ["pool", "zone"], id="any nodes"),
        pytest.param(SLOW, {**SLOW, "pool": "fast"}, ["pool"], id="those of another flavor"),
        pytest.param({"pool": "old", "zone": "a"}, {"zone": "a"}, [], id="the flavor was changed since"),
        pytest.param(None, {"pool": "fast"}, [], id="imported: it selects none"),
    ],
)
def test_a_job_that_runs_stays_on_the_nodes_of_its_flavors(
    before: Raw | None, after: Raw | None, lost: list[str]
) -> None:
    assigned = (PodSetAssignment("master", {"cpu": "bare"}, {}, 1), PodSetAssignment("worker", {"cpu": "slow"}, {}, 1))
    value = replace(reserved("w", 1, "cq"), admission=Admission("cq", assigned))
    found = node_errors(KIND, torch(before), torch(after), value, FLAVORS.get)
    path = "spec.pytorchReplicaSpecs.Worker.template.spec.nodeSelector"
    assert [each.field for each in found] == [f"{path}[{key}]" for key in lost]
    put_back = {each.path[-1] for each in left_out(KIND, torch(before), torch(after), value, FLAVORS.get)}
    assert put_back == {key for key in lost if key not in (after or {})}, "another value is refused"
