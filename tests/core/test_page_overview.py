"""The rows of the overview: what they add up to, and what is wrong first."""

from __future__ import annotations

from hypothesis import given, settings

from core.model import Condition, FlavorResource, Key, Node, ResourceFlavor, StopPolicy
from core.model.workload import replace
from core.page.overview import empty_flavors, local_queue_row, queue_row
from core.state.state import State
from tests.builders import CPU, DEFAULT, cluster_queue, put, reserved, state, workload
from tests.core.worlds import worlds
from tests.effort import cases


def cell(found: State, name: str) -> dict[str, object]:
    row = queue_row(found, name)
    assert row is not None
    (only,) = row["cells"]
    return {key: value for key, value in only.items() if key not in ("flavor", "resource")}


def test_a_row_has_what_is_used_borrowed_lent_and_not_ready() -> None:
    found = state(cluster_queue("cq", 8000, cohort="c"), cluster_queue("other", 8000, cohort="c"))
    waits = Condition("PodsReady", False, since=1.0)
    late = reserved("late", 4000, "cq")
    put(found, reserved("a", 8000, "cq"), replace(late, conditions=(*late.conditions, waits)), workload("w", 9000))
    assert cell(found, "cq") == {
        "nominal": 8000, "used": 8000, "notReady": 4000, "borrowed": 4000, "lent": 0, "most": 16000,
    }  # fmt: skip
    assert cell(found, "other") == {
        "nominal": 8000, "used": 0, "notReady": 0, "borrowed": 0, "lent": 4000, "most": 16000,
    }  # fmt: skip
    row = queue_row(found, "cq")
    assert row is not None
    assert (row["running"], row["notReady"], row["pending"], row["wrong"]) == (1, 1, 1, [])


def test_what_is_reserved_and_waits_for_a_check_is_not_ready() -> None:
    found = state(cluster_queue("cq", 8000))
    each = reserved("a", 3000, "cq")
    put(found, replace(each, conditions=each.conditions[:1]))
    assert (cell(found, "cq")["used"], cell(found, "cq")["notReady"]) == (0, 3000)


@settings(max_examples=cases(60, 1000))
@given(worlds())
def test_rows_add_up_to_the_usage_and_lend_no_more_than_they_have(found: State) -> None:
    for name, queue in found.reservations.cluster_queues.items():
        row, node = queue_row(found, name), found.reservations.node(name)
        assert row is not None
        for each in row["cells"]:
            fr = FlavorResource(each["flavor"], each["resource"])
            assert node is not None
            assert each["used"] + each["notReady"] == node.usage.get(fr, 0)
            assert 0 <= each["lent"] <= max(0, each["nominal"] - node.usage.get(fr, 0))
            assert each["nominal"] == queue.quotas[fr].nominal
            assert not (each["borrowed"] and each["lent"])


def test_an_inactive_queue_and_a_flavor_without_nodes_are_wrong() -> None:
    found = state(cluster_queue("cq", 8000, stop_policy=StopPolicy.HOLD))
    row = queue_row(found, "cq", {"default"})
    assert row is not None
    assert row["stopped"] == "Hold"
    assert row["wrong"] == [
        "Can't admit new workloads: is stopped.",
        "no node has the labels of flavor default: pods that are admitted there stay Pending",
    ]


def test_a_flavor_with_labels_that_no_node_has_is_empty() -> None:
    flavors = [ResourceFlavor("any"), ResourceFlavor("a", {"pool": "a"}), ResourceFlavor("b", {"pool": "b"})]
    assert empty_flavors(flavors, [Node("n", {"pool": "a", "zone": "z"})]) == {"b"}


def test_the_row_of_a_local_queue_has_its_own_workloads_alone() -> None:
    found = state(cluster_queue("cq", 8000), local={"lq": "cq", "other": "cq"})
    put(found, reserved("a", 2000, "cq"), reserved("b", 1000, "cq", queue="other"), workload("w", 9000))
    row = local_queue_row(found, Key("ns", "lq"))
    assert row is not None
    assert (row["pending"], row["running"]) == (1, 1)
    assert row["cells"] == [{"flavor": DEFAULT.flavor, "resource": CPU, "used": 2000, "notReady": 0}]
    assert local_queue_row(found, Key("ns", "absent")) is None
    assert queue_row(found, "absent") is None
