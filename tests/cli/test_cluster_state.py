"""The pods of a cluster count on their nodes as they do in the controller, in whatever order the objects come."""

from __future__ import annotations

from itertools import permutations

import pytest

from api.names import Annotation
from api.objects import Raw
from cli.cluster_state import ClusterState
from controller.settings import ControllerSettings
from core.model.policy import SchedulingPolicy, TopologyPolicy
from tests.controller.test_guard import pod
from tests.core.jobs import samples

ASKS = {Annotation.REQUIRED_TOPOLOGY: "rack"}


def workload(*, level: str = "rack", **marks: str) -> Raw:
    raw = samples.workload_of(samples.job())
    raw["spec"]["podSets"][0] |= {"topologyRequest": {"required": level}} if level else {}
    raw["metadata"] |= {"name": "w", "annotations": marks}
    return {"kind": "Workload", **raw}


def counted(*objects: Raw) -> float:
    """How many pods count on node n."""
    settings = ControllerSettings(policy=SchedulingPolicy(topology=TopologyPolicy()))
    world = ClusterState(settings)
    for each in objects:
        world.add(each)
    placement = world.state.placement
    assert placement is not None
    return placement.others.get("n", {}).get("pods", 0)


def on_node(**marks: str) -> Raw:
    return {"kind": "Pod", **pod("p", annotations=marks)}


@pytest.mark.parametrize(
    ("marks", "of", "expected"),
    [
        ({}, workload(), 1),
        (ASKS, workload(), 1),
        ({**ASKS, Annotation.WORKLOAD: "w"}, workload(), 0),
        ({**ASKS, Annotation.WORKLOAD: "w"}, workload(level=""), 1),
        ({**ASKS, Annotation.WORKLOAD: "other"}, workload(), 1),
        ({Annotation.WORKLOAD: "w"}, workload(), 1),
    ],
    ids=["asks for none", "names no Workload", "is accounted for", "not placed", "another", "no annotation"],
)
def test_a_pod_counts_unless_a_workload_that_is_placed_accounts_for_it(
    marks: dict[str, str], of: Raw, expected: int
) -> None:
    for objects in permutations((on_node(**marks), of, {"kind": "Namespace", "metadata": {"name": "ns"}})):
        assert counted(*objects) == expected
        assert counted(*objects, *objects[:1]) == expected, "an object that is seen twice counts once"
