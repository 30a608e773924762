"""When ``bench.fleet`` gives up, and which promises of its kills a run did not keep."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import pytest

from bench.fleet import PATIENCE_SECONDS, reach, unkept
from tests.cluster.fleet_crash import ends_at


class Slow:
    """A load of which so many Jobs have ended at each look; a look takes ``seconds``."""

    def __init__(self, ended: Iterable[int], seconds: float) -> None:
        self.counts = iter(ended)
        self.seconds = seconds
        self.now = 0.0
        self.revived = 0

    async def ended(self) -> int:
        self.now += self.seconds
        return next(self.counts)

    async def revive(self) -> None:
        self.revived += 1

    def waiting(self) -> list[str]:
        return ["soak-7 is in no worker"]

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def reached(load: Slow, count: int) -> None:
    await reach(cast(Any, load), count, clock=lambda: load.now, sleep=load.sleep)


async def test_a_run_on_a_slow_machine_goes_on_as_long_as_jobs_end() -> None:
    load = Slow(range(20), PATIENCE_SECONDS * 0.9)
    await reached(load, 19)
    assert load.now > 10 * PATIENCE_SECONDS
    assert load.revived  # what has lost its lease meanwhile


async def test_a_run_in_which_no_job_ends_any_more_fails_and_reports_what_waits() -> None:
    with pytest.raises(TimeoutError, match="3 have ended, 4 are awaited\nsoak-7 is in no worker"):
        await reached(Slow([1, 2, 3, 3, 3, 3], PATIENCE_SECONDS * 0.6), 4)


def killed(times: int) -> Counter[str]:
    return Counter(point for point, _ in ends_at(random.Random(), sides=2) for _ in range(times))


def test_each_write_is_met_before_it_reaches_the_api_server_and_after() -> None:
    assert unkept(killed(3), 3, {"ends-0": {"a"}}) == []
    assert unkept(killed(3) - Counter(["create the copy"]), 3, {}) == [
        "the manager was killed 5 times, not 6, at: create the copy"
    ]


def test_a_job_that_only_ends_has_one_pod_in_all_workers() -> None:
    pods = {"ends-0": {"a"}, "ends-1": {"a", "b"}, "there-1": {"a", "b"}}
    assert unkept(killed(1), 1, pods) == ["Job ends-1 had 2 pods"]


def test_without_kills_none_is_missed() -> None:
    assert unkept({}, 0, {}) == []
