"""When a step of a scenario counts as settled, on a clock of its own."""

from __future__ import annotations

from typing import cast

import pytest

from tests.recordings.player import play
from tests.recordings.player.cluster import WATCHED, Api, Mirror
from tests.recordings.player.facts import Obj
from tests.recordings.player.play import EXPECTING, POLL, Player

ACTIVE = {"type": "Active", "status": "True", "reason": "Ready"}


class Clock:
    """A ClusterQueue whose status counts two admitted Workloads after ``late`` seconds: no change precedes it."""

    def __init__(self, late: float) -> None:
        self.now, self.late = 0.0, late
        self.mirrors = {kind: Mirror(cast(Api, None), kind) for kind in WATCHED}
        self._show(0)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if before < self.late <= self.now:
            self._show(2)

    def _show(self, admitted: int) -> None:
        status = {"conditions": [ACTIVE], "admittedWorkloads": admitted}
        found = {"metadata": {"name": "q"}, "spec": {}, "status": status}
        mirror = self.mirrors["ClusterQueue"]
        mirror.objects["s"], mirror.changed["s"] = {"q": found}, self.now


@pytest.mark.parametrize(
    ("late", "takes", "admitted"),
    [
        pytest.param(0.5, 2.5, 2, id="a step ends when nothing has changed for a tick"),
        pytest.param(30, 32, 2, id="a count that is written late is waited for"),
        pytest.param(10 * EXPECTING, EXPECTING, 0, id="one that is never written is recorded as it is"),
    ],
)
def test_a_step_is_settled(late: float, takes: float, admitted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(late)
    monkeypatch.setattr(play, "time", clock)
    golden = {"steps": [{"op": "setup", "result": "ok", "changes": {"ClusterQueue/q": shown(2)}}]}
    player = Player(cast(Api, None), clock.mirrors, {"id": "s", "steps": []}, 2.0, golden)
    entry, facts = player.record({"op": "setup"}, {}, player.expected[0])
    assert facts == {"ClusterQueue/q": shown(admitted)}
    assert "unsettled" not in entry
    assert clock.now == pytest.approx(takes, abs=2 * POLL)


def shown(admitted: int) -> Obj:
    """What is recorded of the ClusterQueue."""
    return {"active": "True/Ready", "pending": 0, "reserving": 0, "admitted": admitted}
