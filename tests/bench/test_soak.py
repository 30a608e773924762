"""Which promises a run of ``bench.soak`` did not keep."""

from __future__ import annotations

import pytest

from bench.soak import LAG, LEADS_TO, RSS, TASKS, SoakFault, Steady, series, unkept
from bench.traffic import SORTS
from tests.write_points import POINTS

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
        SoakFault("SIGTERM of the leader, default lease", 5.0, 3.1),
        SoakFault("SIGKILL of the leader, default lease", 18.0, 16.9),
        SoakFault("SIGKILL of the leader, default lease", 18.0, 17.2),
        SoakFault("leader stopped until another one leads", 30.0, 25.0),
    ]
    assert unkept([], met, [], 0) == [
        "SIGTERM: another one led after 3.1 s, not within 3",
        "SIGKILL: another one led after 17.2 s, not within 17",
    ]


def test_of_a_page_of_metrics_only_the_series_that_are_read_are_kept() -> None:
    page = f"""# HELP {RSS} Resident memory.
{RSS} 1.5e+08
{TASKS} 230.0
{LAG}{{le="0.005"}} 12.0
kueue_pending_workloads{{cluster_queue="a",status="active"}} 3.0
"""
    assert series(page) == {RSS: 1.5e8, TASKS: 230, f'{LAG}{{le="0.005"}}': 12}


def test_what_is_created_for_a_write_is_known_to_the_traffic() -> None:
    assert LEADS_TO.keys() <= POINTS.keys()
    assert {sort for sorts in LEADS_TO.values() for sort in sorts} <= SORTS.keys()
