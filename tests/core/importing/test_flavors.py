from __future__ import annotations

from core.importing.flavors import chosen
from core.model import Placement, ResourceFlavor, Taint, Toleration

ANY = ResourceFlavor("any")
SPOT = ResourceFlavor("spot", {"type": "spot"})
BIG = ResourceFlavor("big", {"type": "spot", "size": "big"})
TAINTED = ResourceFlavor("tainted", {"type": "gpu"}, (Taint("gpu", "yes", "NoSchedule"),))
NODES = {
    "s1": {"type": "spot"},
    "s2": {"type": "spot"},
    "b1": {"type": "spot", "size": "big"},
    "g1": {"type": "gpu"},
    "d1": {},
}
ANYWHERE = Placement()


def test_the_only_flavor_that_is_possible_needs_no_word() -> None:
    assert chosen([SPOT, BIG], ANYWHERE, ["s1", "s2"], NODES) == ("spot", "")
    assert chosen([ANY], ANYWHERE, ["s1"], NODES) == ("any", "")


def test_of_several_flavors_the_one_that_names_most_labels_is_used_and_that_is_told() -> None:
    assert chosen([ANY, SPOT, BIG], ANYWHERE, ["b1"], NODES) == (
        "big",
        "flavors any, spot, big are possible: big names most labels of the nodes",
    )


def test_of_equal_flavors_the_first_is_used_and_that_is_told() -> None:
    other = ResourceFlavor("other")
    assert chosen([ANY, other], ANYWHERE, ["d1"], NODES) == (
        "any",
        "flavors any, other are possible: any comes first in the ClusterQueue",
    )


def test_pods_on_nodes_of_several_flavors_are_all_counted_in_that_of_most_pods() -> None:
    on_demand = ResourceFlavor("on-demand", {"type": "gpu"})
    assert chosen([on_demand, SPOT], ANYWHERE, ["s1", "g1", "s2"], NODES) == (
        "spot",
        "1 of 3 pods run on nodes that are not of flavor spot (g1): all are counted in spot",
    )


def test_a_flavor_with_taints_that_the_pods_do_not_tolerate_is_not_theirs() -> None:
    assert chosen([TAINTED, ANY], ANYWHERE, ["g1"], NODES) == ("any", "")
    tolerant = Placement(tolerations=(Toleration("gpu", "Exists"),))
    assert chosen([TAINTED, ANY], tolerant, ["g1"], NODES)[0] == "tainted"


def test_for_a_pod_without_a_node_its_node_selector_decides() -> None:
    assert chosen([SPOT, BIG], Placement({"size": "big", "type": "spot"}), [""], NODES)[0] == "big"
    assert chosen([ANY, BIG], ANYWHERE, [], NODES) == (
        "any",
        "flavors any, big are possible: any comes first in the ClusterQueue",
    )
    assert chosen([SPOT], Placement({"type": "other"}), [], NODES) == (
        "",
        "node selector, affinity and tolerations of the pods allow no flavor of spot (type=spot)",
    )


def test_nodes_of_no_flavor_are_named_with_the_flavors_there_are() -> None:
    assert chosen([SPOT, BIG], ANYWHERE, ["d1"], NODES) == (
        "",
        "node d1 belongs to no flavor of spot (type=spot), big (size=big, type=spot) that the pods allow",
    )
    assert chosen([SPOT], ANYWHERE, ["x1", "x2"], NODES)[1].endswith("; the nodes do not exist")
