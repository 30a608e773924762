"""The arithmetic of reports: the difference of two moments, and whose requests were whose."""

from __future__ import annotations

from collections import Counter

from bench.measure import Counts, Latency, ProcessUsage
from bench.report import Cost, Moment

BEFORE = Moment(
    Counts(Counter({("POST", "workloads", 201): 5, ("PATCH", "workloads/status", 200): 1}), {"mutate": (2, 0.1)}, 2),
    {"controller": ProcessUsage(1.0, 50.0, 60.0)},
)
AFTER = Moment(
    Counts(
        Counter(
            {
                ("POST", "workloads", 201): 9,
                ("PATCH", "workloads/status", 200): 7,
                ("PATCH", "workloads/status", 409): 3,
                ("POST", "events", 201): 2,
                ("PUT", "leases", 200): 40,
                ("LIST", "workloads", 200): 1,
                ("POST", "workloads", 429): 1,
            }
        ),
        {"mutate": (6, 0.5)},
        10,
    ),
    {"controller": ProcessUsage(3.0, 55.0, 70.0)},
)
OWN = Counter({("POST", "workloads", 201): 4, ("POST", "workloads", 429): 1})


def test_the_cost_is_what_happened_between_two_moments() -> None:
    cost = Cost.between(BEFORE, AFTER)
    assert cost.cpu_seconds == {"controller": 2.0}
    assert cost.peak == {"controller": 70.0}
    assert cost.conversions == 8
    assert cost.requests["POST", "workloads", 201] == 4


def test_the_writes_of_the_controller_are_all_but_those_of_the_bench() -> None:
    figures = Cost.between(BEFORE, AFTER).figures(4, OWN)
    assert figures["writes"] == {"PATCH workloads/status": 6, "POST events": 2}
    assert figures["writes a workload"] == 6 / 4  # without events, leases, and those that were refused
    assert figures["events a workload"] == 2 / 4
    assert figures["conflicts"] == {"PATCH workloads/status": 3}
    assert figures["throttled"] == {"POST workloads": 1}
    assert figures["requests"]["PATCH workloads/status"] == 9
    assert figures["requests of the bench"] == {"POST workloads": 5}
    assert figures["webhooks"] == {"mutate": {"calls a workload": 1.0, "mean ms": 100.0}}
    assert figures["cpu ms a workload"] == {"controller": 500.0}


def test_a_latency_of_no_calls_has_none() -> None:
    assert Latency.of([]) == Latency(0, 0.0, 0.0, 0.0, 0.0)


def test_a_latency_has_the_mean_and_the_quantiles() -> None:
    found = Latency.of([number / 1000 for number in range(200, 0, -1)])
    assert (found.calls, found.p50, found.p99, found.longest) == (200, 101.0, 199.0, 200.0)
    assert round(found.mean, 6) == 100.5
