"""Which LocalQueues a namespace gets by itself."""

from __future__ import annotations

import pytest

from core.model import ClusterQueue, Selector
from core.model.kubernetes import Requirement
from core.queue.population import Populated, PopulationPolicy, manifest, populated

TEAM = Selector((Requirement("team", "In", ("a",)),))
ANY = Selector()
LABELS = {"team": "a", "env": "prod"}


def queue(name: str, selector: Selector | None = ANY, *, deleting: bool = False) -> ClusterQueue:
    return ClusterQueue(name, namespace_selector=selector, deleting=deleting)


@pytest.mark.parametrize(
    ("policy", "queues", "existing", "found"),
    [
        pytest.param(PopulationPolicy(), [queue("cq", TEAM)], {}, [Populated("default", "cq")], id="selected"),
        pytest.param(PopulationPolicy("main"), [queue("cq")], {}, [Populated("main", "cq")], id="another name"),
        pytest.param(PopulationPolicy(), [queue("cq", None)], {}, [], id="a ClusterQueue that selects nothing"),
        pytest.param(PopulationPolicy(), [queue("cq", deleting=True)], {}, [], id="one that is being deleted"),
        pytest.param(
            PopulationPolicy(selector=Selector((Requirement("env", "In", ("dev",)),))),
            [queue("cq")],
            {},
            [],
            id="a namespace that is not selected",
        ),
        pytest.param(PopulationPolicy(), [queue("cq")], {"default": "cq"}, [], id="it is there"),
        pytest.param(
            PopulationPolicy(),
            [queue("cq")],
            {"default": "other"},
            [Populated("default", "cq", taken=True)],
            id="another one has its name",
        ),
        pytest.param(
            PopulationPolicy(),
            [queue("b"), queue("a")],
            {},
            [Populated("default", "a"), Populated("default", "b", taken=True)],
            id="the first by name has the one name",
        ),
        pytest.param(
            PopulationPolicy(""),
            [queue("b"), queue("a")],
            {"a": "a"},
            [Populated("b", "b")],
            id="each ClusterQueue has its own",
        ),
    ],
)
def test_what_a_namespace_lacks(
    policy: PopulationPolicy, queues: list[ClusterQueue], existing: dict[str, str], found: list[Populated]
) -> None:
    assert populated(policy, LABELS, queues, existing.get) == found


def test_a_created_queue_is_marked_as_kueues_program_marks_it() -> None:
    assert manifest("ns", Populated("default", "cq")) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": "ns", "labels": {"kueue.x-k8s.io/auto-generated": "true"}},
        "spec": {"clusterQueue": "cq"},
    }
