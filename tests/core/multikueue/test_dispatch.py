"""Which workers a Workload is offered to, by dispatcher."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import DISPATCHER_ALL_AT_ONCE, DISPATCHER_INCREMENTAL
from core.multikueue.dispatch import ROUND_SECONDS, nominated
from core.multikueue.group import Policy, Worker
from tests.core.multikueue.groups import NOW, group

FIVE = tuple(Worker(name) for name in ("e", "d", "c", "b", "a"))
INCREMENTAL = Policy(dispatcher=DISPATCHER_INCREMENTAL)


@pytest.mark.parametrize(
    ("policy", "before", "began", "wanted"),
    [
        pytest.param(Policy(dispatcher=DISPATCHER_ALL_AT_ONCE), (), None, ("a", "b", "c", "d", "e"), id="all at once"),
        pytest.param(Policy(), ("e", "d", "c", "b", "a"), None, None, id="all at once, whatever their order"),
        pytest.param(INCREMENTAL, (), None, ("e", "d", "c"), id="three at first"),
        pytest.param(INCREMENTAL, ("e", "d", "c"), NOW - 100, 200.0, id="no more in the first five minutes"),
        pytest.param(INCREMENTAL, (), NOW - 100, ("e", "d", "c"), id="after an eviction immediately"),
        pytest.param(
            INCREMENTAL, ("e", "d", "c"), NOW - ROUND_SECONDS, ("e", "d", "c", "b", "a"), id="then the next ones"
        ),
        pytest.param(INCREMENTAL, ("e", "d", "c"), None, ("e", "d", "c", "b", "a"), id="after a restart immediately"),
        pytest.param(INCREMENTAL, ("e", "d", "c", "b", "a"), None, None, id="no more than there are"),
        pytest.param(replace(INCREMENTAL, step_size=1), (), None, ("e",), id="as many as the Configuration says"),
        pytest.param(
            replace(INCREMENTAL, config_order=False), (), None, ("a", "b", "c"), id="by name without the gate"
        ),
        pytest.param(Policy(dispatcher="example.com/mine"), (), None, None, id="an external program nominates"),
    ],
)
def test_the_dispatcher(
    policy: Policy, before: tuple[str, ...], began: float | None, wanted: tuple[str, ...] | float | None
) -> None:
    assert nominated(replace(group(*FIVE, nominated=before, policy=policy), round_began=began)) == wanted
