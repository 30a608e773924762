"""Which promises a run of ``bench.soak`` did not keep."""

from __future__ import annotations

import pytest

from bench.soak import Met, Steady, unkept

LEVEL = Steady("leader", 100.0, 104.0, 4.0, 230.0, 231.0, 19.0)


@pytest.mark.parametrize(
    ("replica", "word"),
    [
        (LEVEL, ""),
        (LEVEL._replace(growth=5.0), "memory"),
        (LEVEL._replace(tasks_then=242.0), "tasks"),
        (LEVEL._replace(lag_ms=20.0), "late"),
    ],
)
def test_without_faults_memory_and_tasks_are_level_and_the_loop_is_prompt(replica: Steady, word: str) -> None:
    found = unkept([replica], [], [], 0)
    assert [word in each for each in found] == [True] * bool(word)


def test_no_create_fails_without_faults() -> None:
    assert unkept([], [], [], 3) == ["3 creates failed without any fault"]


def test_each_write_point_is_met() -> None:
    assert unkept([], [], ["the job is started"], 0) == [
        "no write was met at which to kill the leader: the job is started"
    ]


def test_another_replica_leads_soon_after_the_end_of_the_leader_and_later_after_a_kill() -> None:
    met = [
        Met("SIGTERM of the leader, default lease", 5.0, 3.1),
        Met("SIGKILL of the leader, default lease", 18.0, 16.9),
        Met("SIGKILL of the leader, default lease", 18.0, 17.2),
        Met("leader stopped until another one leads", 30.0, 25.0),
    ]
    assert unkept([], met, [], 0) == [
        "SIGTERM: another one led after 3.1 s, not within 3",
        "SIGKILL: another one led after 17.2 s, not within 17",
    ]
