"""The stored form of assignments: short, exact both ways, and within the limits of an object."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.convert import convert
from api.convert.topology_assignment import MOST_DOMAINS
from core.model import TopologyAssignment, TopologyDomain
from core.topology.encoding import MOST_SLICES, encode, truncated
from core.wire.decode import topology_assignment

HOSTNAME = ("kubernetes.io/hostname",)
OBJECT_BYTES = 1_500_000
"""What etcd stores of one object at most, by default."""

HOSTS = st.text("ab-1", min_size=1, max_size=8)
DOMAINS = st.lists(st.builds(TopologyDomain, st.tuples(HOSTS), st.integers(1, 5)), min_size=1, max_size=12)


def assignment(*hosts: str, count: int = 1) -> TopologyAssignment:
    return TopologyAssignment(HOSTNAME, tuple(TopologyDomain((host,), count) for host in hosts))


@given(DOMAINS, st.booleans())
def test_what_is_stored_is_read_again(domains: list[TopologyDomain], by_prefix: bool) -> None:
    made = TopologyAssignment(HOSTNAME, tuple(domains))
    assert topology_assignment(encode(made, by_prefix=by_prefix)) == made


@given(DOMAINS)
def test_slices_by_prefix_are_never_longer_than_one(domains: list[TopologyDomain]) -> None:
    made = TopologyAssignment(HOSTNAME, tuple(domains))
    assert len(orjson.dumps(encode(made))) <= len(orjson.dumps(encode(made, by_prefix=False)))


def test_hosts_of_different_pools_are_in_slices_of_their_own() -> None:
    pools = [f"gke-{pool}-0a0b0c0d-{number:04}" for pool in ("red", "green") for number in range(20)]
    slices = encode(assignment(*pools))["slices"]
    assert [each["domainCount"] for each in slices] == [20, 20]
    assert len(encode(assignment(*pools), by_prefix=False)["slices"]) == 1


def many(pattern: str) -> list[str]:
    """The hostnames of 40,000 nodes."""
    return [pattern.format(a=n // 2500, b=n // 50 % 50, c=n % 50) for n in range(40_000)]


@pytest.mark.parametrize(
    "pattern",
    [
        "ip-10-{a}-{b}-{c}.eu-west-1.compute.internal",
        "gke-pool-{a}-{b}{c}",
        "n{a}x{b}x{c}",
        "{c}-{a}-{b}" + 20 * "-x",
    ],
)
def test_40000_nodes_are_stored_in_one_object(pattern: str) -> None:
    hosts = many(pattern)
    made = encode(assignment(*sorted(hosts), count=8))
    assert len(orjson.dumps(made)) < OBJECT_BYTES
    assert len(made["slices"]) <= MOST_SLICES
    found = topology_assignment(made)
    assert found is not None
    assert len(found.domains) == 40_000


@pytest.mark.parametrize(
    "pattern",
    ["ip-10-{a}-{b}-{c}.eu-west-1.compute.internal", "n{a}x{b}x{c}", "gke-" + 50 * "p" + "-{a:02}-{b:02}-{c:02}"],
)
def test_40000_nodes_are_the_same_in_v1beta1_and_when_a_client_of_it_has_written_them_back(pattern: str) -> None:
    """Also with hostnames as long as they may be. In v1beta1 each domain is written out; only v1beta2 is stored."""
    hosts = sorted(many(pattern))
    placed = {"name": "main", "count": 320_000, "topologyAssignment": encode(assignment(*hosts, count=8))}
    stored = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"namespace": "team", "name": "large"},
        "spec": {"podSets": [{"name": "main", "count": 320_000, "template": {}}]},
        "status": {"admission": {"clusterQueue": "q", "podSetAssignments": [placed]}},
    }
    seen = convert(stored, "v1beta1")
    back = convert(seen, "v1beta2")
    older, newer = (each["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] for each in (seen, back))
    assert older == {"levels": [*HOSTNAME], "domains": [{"values": [host], "count": 8} for host in hosts]}
    assert topology_assignment(newer) == assignment(*hosts, count=8)
    for each in (stored, back):
        assert len(orjson.dumps(each)) < OBJECT_BYTES
        each["status"] = {}
    assert back == stored, "nothing else changed, and no annotation is left"


def test_more_domains_than_a_slice_can_have_are_in_several() -> None:
    made = assignment(*(f"{n:06x}" for n in range(MOST_DOMAINS + 1)))
    for slices in (encode(made)["slices"], encode(made, by_prefix=False)["slices"]):
        assert [each["domainCount"] for each in slices] == [MOST_DOMAINS, 1]
    found = topology_assignment(encode(made))
    assert found is not None
    assert found.domains == made.domains


def test_shorter_prefixes_are_used_where_longer_ones_make_too_many_slices() -> None:
    hosts = [f"{pool}-{rack:04}-{node}" for pool in ("red", "green") for rack in range(600) for node in range(2)]
    assert [each["domainCount"] for each in encode(assignment(*hosts))["slices"]] == [1200, 1200]


def test_the_first_pods_are_kept() -> None:
    made = assignment("a", "b", "c", count=4)
    assert [(each.values[0], each.count) for each in truncated(made, 6).domains] == [("a", 4), ("b", 2)]
    assert truncated(made, 12) == made
    assert truncated(made, 0).domains == ()
