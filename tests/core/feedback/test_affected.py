"""The warning of whom a change hits: what is worse first, with names while they fit in a line."""

from __future__ import annotations

import pytest

from api.objects import Key
from core.feedback.affected import of_effects
from core.feedback.rules import LIMIT
from core.model.effects import Effects, StoppedWorkload
from core.state.lookup import Lookup
from core.state.state import State

RULE = "workloads-affected"


def keys(*names: str) -> tuple[Key, ...]:
    return tuple(Key("ns", name) for name in names)


def many(prefix: str, count: int) -> tuple[Key, ...]:
    return keys(*(f"{prefix}-{number}" for number in range(count)))


CASES = [
    pytest.param(Effects(running=3, waiting=9), RULE, "", id="it hits nobody"),
    pytest.param(
        Effects(exposed=keys("job-a", "job-b"), never=keys("job-c")),
        RULE,
        "2 running lose their guarantee (job-a, job-b), 1 waiting never starts (job-c)",
        id="what is worse comes first, with names",
    ),
    pytest.param(
        Effects(exposed=many("job", 4), starting=many("w", 12)),
        RULE,
        "4 running lose their guarantee (job-0, job-1, job-2 and 1 more), 12 waiting start (w-0, w-1, w-2 and 9 more)",
        id="three are named",
    ),
    pytest.param(
        Effects(stopped=(StoppedWorkload(Key("ns", "a"), "q", "InClusterQueue", Key("ns", "b")),), starting=keys("b")),
        RULE,
        "1 workload stops (a), 1 waiting starts (b)",
        id="a preemption has both",
    ),
    pytest.param(
        Effects(covered=keys("a"), possible=keys("c")),
        RULE,
        "1 running gets its guarantee back (a), 1 waiting can start later (c)",
        id="what is better, too",
    ),
    pytest.param(
        Effects(exposed=many("a-workload-with-a-long-name", 3), starting=many("job-with-a-long-name", 9)),
        RULE,
        "3 running lose their guarantee (a-workload-..ong-name-0 and 2 more), 9 waiting start"
        " (job-with-a-long-name-0 and 8 more)",
        id="long names are cut",
    ),
    pytest.param(
        Effects(
            exposed=many("x" * 63, 2),
            never=many("y", 3),
            starting=many("z", 4),
            possible=many("p", 3),
            covered=many("c", 3),
            stopped=(StoppedWorkload(Key("ns", "a"), "q", ""),),
        ),
        RULE,
        "1 workload stops, 2 running lose their guarantee, 3 waiting never start, 4 waiting start",
        id="what is better goes first where there is no room",
    ),
    pytest.param(
        Effects(running=1200, waiting=5000, uncounted=True),
        RULE,
        "1200 running, 5000 waiting workloads are concerned: seiretsu plan -f FILE --from-cluster shows whom this hits",
        id="too many to compute",
    ),
]


@pytest.mark.parametrize(("found", "rule", "message"), CASES)
def test_the_message_of_each_case(found: Effects, rule: str, message: str) -> None:
    told = of_effects(found, Lookup(State()))
    assert [(each.rule, each.message) for each in told] == ([(rule, message)] if message else [])
    assert all(len(each.message) <= LIMIT for each in told)
