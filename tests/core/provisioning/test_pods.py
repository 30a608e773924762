"""Which pods a request asks for, which pod sets share a template, and what the template has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api.objects import Raw
from core.jobs.template import ConflictError, FlavorMissingError
from core.provisioning.config import Config
from core.provisioning.pods import asked, template
from core.wire import decode
from core.wire.decode import WorkloadContext
from tests.core.provisioning.situations import CONFIG, FLAVORS, pod_set, workload

GPU = frozenset({"nvidia.com/gpu"})
GPUS: Raw = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}
TEMPLATES, REQUIREMENTS = "IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"


def pods(sets: list[Raw], config: Config = CONFIG, **fields: Any) -> list[tuple[tuple[str, ...], int]]:
    """The names of the pod sets that share a template, and how many pods are asked for."""
    raw = workload(pod_sets=sets, **fields)
    return [(each.names, each.count) for each in asked(decode.workload(raw, WorkloadContext()), raw, config)]


@pytest.mark.parametrize(
    ("sets", "config", "fields", "wanted"),
    [
        pytest.param([pod_set()], CONFIG, {}, [(("main",), 2)], id="all pods"),
        pytest.param([pod_set()], CONFIG, {"counts": {"main": 1}}, [(("main",), 1)], id="as many as are admitted"),
        pytest.param([pod_set()], CONFIG, {"counts": {"main": 0}}, [], id="none is admitted"),
        pytest.param([pod_set()], CONFIG, {"held": False}, [], id="no quota"),
        pytest.param([pod_set()], replace(CONFIG, managed=GPU), {}, [], id="no resource of the autoscaler"),
        pytest.param(
            [pod_set("a"), pod_set("b", requests=GPUS["requests"])],
            replace(CONFIG, managed=GPU),
            {},
            [(("b",), 2)],
            id="only pod sets with a resource of the autoscaler",
        ),
        pytest.param(
            [pod_set("a", limits={"nvidia.com/gpu": "1"})],
            replace(CONFIG, managed=GPU),
            {},
            [(("a",), 2)],
            id="a limit counts",
        ),
        pytest.param(
            [pod_set("a", spec={"initContainers": [{"name": "i", "resources": GPUS}]})],
            replace(CONFIG, managed=GPU),
            {},
            [(("a",), 2)],
            id="an init container counts",
        ),
    ],
)
def test_a_request_asks_for_the_admitted_pods_that_need_nodes(
    sets: list[Raw], config: Config, fields: Any, wanted: list[Any]
) -> None:
    assert pods(sets, config, **fields) == wanted


LABELLED = {**pod_set("b", 3), "template": {**pod_set()["template"], "metadata": {"labels": {"role": "b"}}}}
TOLERATES = {"tolerations": [{"key": "x"}]}


@pytest.mark.parametrize(
    ("policy", "other", "shared"),
    [
        pytest.param("", pod_set("b", 3), False, id="not without a policy"),
        pytest.param(TEMPLATES, pod_set("b", 3), True, id="identical templates"),
        pytest.param(TEMPLATES, pod_set("b", 3, requests={"cpu": "1000m"}), True, id="the same amount"),
        pytest.param(TEMPLATES, pod_set("b", 3, requests={"cpu": "2"}), False, id="another amount"),
        pytest.param(TEMPLATES, LABELLED, False, id="another label, identical templates"),
        pytest.param(REQUIREMENTS, LABELLED, True, id="another label, identical requirements"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, limits={"cpu": "4"}), True, id="another limit"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, requests={"cpu": "2"}), False, id="another request"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec=TOLERATES), False, id="another toleration"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec={"nodeSelector": {"a": "b"}}), False, id="another node"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec={"affinity": {"a": {}}}), False, id="another affinity"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec={"resourceClaims": [{}]}), False, id="another claim"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec={"resources": GPUS}), False, id="another request of the pod"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec={"initContainers": [{}]}), False, id="another container"),
        pytest.param(REQUIREMENTS, pod_set("b", 3, spec={"priorityClassName": "p"}), True, id="another priority"),
    ],
)
def test_a_policy_lets_pod_sets_share_a_template(policy: str, other: Raw, shared: bool) -> None:
    found = pods([pod_set("a"), other], replace(CONFIG, merge_policy=policy))
    assert found == ([(("a", "b"), 5)] if shared else [(("a",), 2), (("b",), 3)])


def made(pods_of: Raw, flavor: str = "spot") -> Raw:
    raw = workload(pod_sets=[pods_of], flavor=flavor)
    (found,) = asked(decode.workload(raw, WorkloadContext()), raw, CONFIG)
    return template(found, FLAVORS)


def test_a_template_asks_for_the_nodes_of_its_flavor() -> None:
    spec = made(pod_set(spec={"nodeSelector": {"zone": "a"}, **TOLERATES}))["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "pool": "spot"}
    assert spec["tolerations"] == [{"key": "x"}, {"key": "spot"}]


def test_a_limit_without_a_request_is_requested() -> None:
    (container,) = made(pod_set(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi"}))["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_limit_of_the_whole_pod_without_a_request_is_requested() -> None:
    spec = made(pod_set(spec={"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}}))[
        "spec"
    ]
    assert spec["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_template_that_contradicts_its_flavor_cannot_be_made() -> None:
    with pytest.raises(ConflictError):
        made(pod_set(spec={"nodeSelector": {"pool": "mine"}}))
    with pytest.raises(FlavorMissingError):
        made(pod_set(), flavor="gone")
