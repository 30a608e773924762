"""The contention load without any latency."""

from bench.ideal import arrivals, queues, summary
from bench.load import Class, Load
from core.simulation.simulation import simulate


def test_what_is_evicted_counts_as_use_but_not_as_runtime() -> None:
    small = Class("small", workloads=1, cpu=4, priority=1, run_seconds=3.0, every_seconds=0.0)
    large = Class("large", workloads=2, cpu=4, priority=2, run_seconds=1.0, every_seconds=2.0)
    load = Load("tiny", cohorts=1, queues=1, classes=(small, large), nominal=4, borrowing=0)
    figures = summary(load, simulate(queues(load), arrivals(load, seed=1)).courses)
    assert (figures["finished"], figures["evictions"]) == (3, 2)  # the small one runs when no large one does
    use = figures["use by runtimes alone"] + figures["lost by evictions"]
    assert abs(figures["mean use of quota"] - use) < 1e-9
    assert abs(figures["mean use of quota"] - 1) < 1e-9  # it never has to wait for anything else
