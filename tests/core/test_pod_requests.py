"""What a pod asks for in the eyes of quota, case by case as Kubernetes and Kueue count it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.wire.pod_requests import RequestRules, effective, limits, overheads, transformations

Spec = dict[str, Any]
GI = 1 << 30


def container(requests: Spec | None = None, limits: Spec | None = None, **more: Any) -> Spec:
    resources = {"requests": requests, "limits": limits}
    return {"name": "c", "resources": {name: value for name, value in resources.items() if value}, **more}


def sidecar(requests: Spec) -> Spec:
    return container(requests, restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container()]}, {}, id="nothing asked is nothing counted"),
        pytest.param(
            {"containers": [container({"cpu": "500m"}), container({"cpu": "1", "memory": "1Gi"})]},
            {"cpu": 1500, "memory": GI},
            id="containers run together and are summed",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"})]},
            {"cpu": 3000},
            id="an init container runs before and is a minimum",
        ),
        pytest.param(
            {"containers": [container({"cpu": "2"})], "initContainers": [sidecar({"cpu": "1"})]},
            {"cpu": 3000},
            id="a sidecar runs all along and is added",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [sidecar({"cpu": "1"}), container({"cpu": "4"}), sidecar({"cpu": "2"})],
            },
            {"cpu": 5000},
            id="an init container has the sidecars before it beside it",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": "2"})]}, {"cpu": 2000}, id="limits stand in for absent requests"
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": 1250, "memory": 64 << 20},
            id="overhead is added",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000},
            id="pod-level requests replace the sum of the containers",
        ),
        pytest.param(
            {"containers": [container({"memory": "1500m"}), container({"memory": "1500m"})]},
            {"memory": 3},
            id="sums are exact and rounded once",
        ),
        pytest.param({"containers": [container({"cpu": "0.0001"})]}, {"cpu": 1}, id="less than a milli rounds up"),
        pytest.param({"containers": [container({"cpu": "-1"})]}, {"cpu": 0}, id="a negative request adds no quota"),
    ],
)
def test_effective_requests(spec: Spec, expected: dict[str, int]) -> None:
    assert effective(spec, RequestRules()).requests == expected


def limit_range(**item: Any) -> Spec:
    return {"metadata": {"name": item.get("name", "lr")}, "spec": {"limits": [{"type": "Container", **item}]}}


def test_limit_range_defaults_fill_requests_before_limits_stand_in() -> None:
    rules = RequestRules(limits([limit_range(default={"cpu": "2"}, defaultRequest={"cpu": "1"})]))
    assert effective({"containers": [container()]}, rules).requests == {"cpu": 1000}
    only_limits = RequestRules(limits([limit_range(default={"cpu": "2"})]))
    assert effective({"containers": [container()]}, only_limits).requests == {"cpu": 2000}
    assert effective({"containers": [container({"cpu": "500m"})]}, rules).requests == {"cpu": 500}


def test_several_limit_ranges_act_as_the_tightest_and_the_first_default() -> None:
    first = limit_range(name="a", max={"cpu": "4"}, min={"cpu": "1"}, defaultRequest={"cpu": "2"})
    second = limit_range(name="b", max={"cpu": "3"}, min={"cpu": "2"}, defaultRequest={"cpu": "3"})
    rules = RequestRules(limits([second, first]))
    assert effective({"containers": [container()]}, rules).requests == {"cpu": 2000}
    errors = effective({"containers": [container({"cpu": "3500m"}), container({"cpu": "1"})]}, rules).outside_range
    assert [str(error) for error in errors] == [
        'containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max',
        'containers[1]: Invalid value: ["cpu"]: requests must not be below the limitRange min',
    ]


def test_limits_above_the_max_of_a_limit_range_are_refused_too() -> None:
    rules = RequestRules(limits([limit_range(max={"cpu": "2"})]))
    spec = {"containers": [container({"cpu": "1"}, {"cpu": "3"})]}
    assert [error.field for error in effective(spec, rules).outside_range] == ["containers[0]"]


def test_a_pod_limit_range_judges_the_whole_pod() -> None:
    raw = {"metadata": {"name": "lr"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}
    spec = {"containers": [container({"cpu": "1"}), container({"cpu": "1500m"})]}
    errors = effective(spec, RequestRules(limits([raw]))).outside_range
    assert [(error.field, error.value) for error in errors] == [("", ["cpu"])]


def test_requests_above_limits_are_named_per_container_with_sorted_resources() -> None:
    spec = {
        "initContainers": [container({"cpu": "2"}, {"cpu": "1"})],
        "containers": [container({"memory": "2Gi", "cpu": "2"}, {"cpu": "1", "memory": "1Gi"})],
    }
    assert [str(error) for error in effective(spec, RequestRules()).above_limits] == [
        'initContainers[0]: Invalid value: ["cpu"]: requests must not exceed its limits',
        'containers[0]: Invalid value: ["cpu","memory"]: requests must not exceed its limits',
    ]


def test_a_runtime_class_brings_its_overhead_unless_the_pod_has_its_own() -> None:
    rules = RequestRules(overheads=overheads([{"metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": "1"}}}]))
    spec = {"containers": [container({"cpu": "1"})], "runtimeClassName": "vm"}
    assert effective(spec, rules).requests == {"cpu": 2000}
    assert effective({**spec, "overhead": {"cpu": "100m"}}, rules).requests == {"cpu": 1100}
    assert effective({**spec, "runtimeClassName": "gone"}, rules).requests == {"cpu": 1000}


def test_excluded_prefixes_are_dropped_before_transformations_see_them() -> None:
    rules = RequestRules(
        excluded_prefixes=("example.com/",),
        transformations=transformations([{"input": "example.com/a", "outputs": {"credits": "1"}}]),
    )
    spec = {"containers": [container({"cpu": "1", "example.com/a": "2"})]}
    assert effective(spec, rules).requests == {"cpu": 1000}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(
            {"strategy": "Replace", "outputs": {"mem": "5Gi"}},
            {"cpu": 1000, "mem": 10 * GI},
            id="the input is replaced",
        ),
        pytest.param({"outputs": {"mem": "5Gi"}}, {"cpu": 1000, "gpu": 2, "mem": 10 * GI}, id="Retain is the default"),
        pytest.param(
            {"outputs": {"credits": "2"}, "multiplyBy": "cpu", "strategy": "Replace"},
            {"cpu": 1000, "credits": 4},
            id="the output is multiplied by another resource",
        ),
        pytest.param(
            {"outputs": {"cpu": "-3"}, "strategy": "Replace"},
            {"cpu": 1000},
            id="a negative output never eats into what was asked",
        ),
    ],
)
def test_a_transformation(rule: Spec, expected: dict[str, int]) -> None:
    rules = RequestRules(transformations=transformations([{"input": "gpu", **rule}]))
    assert effective({"containers": [container({"cpu": "1", "gpu": "2"})]}, rules).requests == expected


def test_a_malformed_quantity_is_a_field_error_and_no_request() -> None:
    found = effective({"containers": [container({"cpu": "lots"})]}, RequestRules())
    assert found.requests == {}
    assert [error.field for error in found.above_limits] == ["containers[0].resources.requests[cpu]"]


amounts = st.integers(0, 8).map(str)
containers = st.lists(amounts.map(lambda cpu: container({"cpu": cpu})), min_size=1, max_size=3)
init = st.lists(
    st.tuples(amounts, st.booleans()).map(lambda it: (sidecar if it[1] else container)({"cpu": it[0]})), max_size=4
)


@given(containers, init)
def test_a_pod_asks_for_what_runs_at_its_fullest_moment(main: list[Spec], before: list[Spec]) -> None:
    """The formula against a simulation of the pod's start: the peak over time of what runs."""
    peak = running = 0
    for each in before:
        cpu = int(each["resources"]["requests"]["cpu"])
        peak = max(peak, running + cpu)
        running += cpu if each.get("restartPolicy") else 0
    peak = max(peak, running + sum(int(each["resources"]["requests"]["cpu"]) for each in main))
    found = effective({"containers": main, "initContainers": before}, RequestRules()).requests
    assert found["cpu"] == peak * 1000
