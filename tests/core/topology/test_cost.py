"""What placements cost beside each other, against the number of nodes. (Ratios of one run.)"""

from __future__ import annotations

from collections.abc import Callable

from bench.topology import LEVELS, PER_POD, nodes
from core.model import PodSet, ResourceFlavor, TopologyRequest
from core.topology import Asked, Domains, Misfit, Options, place
from tests.cost import times


def refused(number: int, request: TopologyRequest, count: int) -> Callable[[], None]:
    """Looks again for domains that there are not, among so many nodes, which are counted."""
    domains = Domains(LEVELS, ResourceFlavor("tas", topology_name="default"), nodes(number), {})
    asked = [Asked(PodSet("main", count, PER_POD, topology=request), count)]

    def look() -> None:
        for _ in range(20):
            domains.answers.clear()
            assert isinstance(place(domains, asked, Options())["main"], Misfit)

    look()
    return look


def test_a_pod_set_that_fits_no_host_costs_the_same_among_ten_times_as_many_nodes() -> None:
    request = TopologyRequest(required=LEVELS[-1])
    small, large = times(*(refused(number, request, 9) for number in (1_000, 10_000)))
    assert large < 3 * small, f"{large * 50_000:.0f} µs among 10,000 nodes, {small * 50_000:.0f} µs among 1,000"
