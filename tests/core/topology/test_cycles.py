"""Every recorded cycle of Kueue with topologies comes out the same, but for what is different on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from api import quantity
from bench.oracle import scenarios
from bench.topology_cycles import cycle_of
from bench.topology_oracle import is_overbooked, judged
from core.model import Raw

CYCLES: Final = Path(__file__).parents[2] / "recordings" / "topology" / "cycle.jsonl.xz"
SHARED_AT_ONCE: Final = {"nodes-0029-0", "groups-0046-0"}
"""Where a head preempts in one flavor, and another flavor has the same nodes: here both flavors know that in the same
cycle, in Kueue only in the next one (docs/architecture.md, Topology).
"""


def test_a_cycle_with_topologies_decides_as_recorded() -> None:
    lines = list(judged(CYCLES))
    differing = {line["name"]: difference for line, difference in lines if difference and not is_overbooked(line)}
    assert len(lines) > 400
    assert differing.keys() == {line["name"] for line, _ in lines} & SHARED_AT_ONCE, differing


def test_no_domain_gets_more_than_it_has_where_kueue_overbooks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.oracle._hold_still", lambda *_: None)  # a slice that is replaced uses nothing more
    lines = [line for line in scenarios(CYCLES) if is_overbooked(line)]
    assert lines
    for line in lines:
        got = cycle_of(line)
        taken = {domain for each in got["workloads"].values() for domain in _domains(each)}
        beyond = [(flavor, name) for flavor, name, used in _used(got) if _over(used) and name in taken]
        assert not beyond, f"{line['name']}: {beyond}"


def _used(described: Raw) -> list[tuple[str, str, Raw]]:
    usage = described.get("tasUsage", {})
    return [(flavor, name, used) for flavor, domains in usage.items() for name, used in domains.items()]


def _over(used: Raw) -> bool:
    free = {resource: quantity.exact(amount) for resource, amount in used["freeCapacity"].items()}
    return any(quantity.exact(amount) > free.get(resource, 0) for resource, amount in used.get("tasUsage", {}).items())


def _domains(decision: Raw) -> set[str]:
    """The domains that an admission of this cycle uses, as usage names them."""
    if decision["outcome"] != "Admitted" or decision.get("secondPass"):
        return set()
    return {",".join(domain["values"]) for pod_set in decision["podSets"] for domain in pod_set.get("domains", ())}
