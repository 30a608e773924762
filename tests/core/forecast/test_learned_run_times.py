"""Run times of finished workloads are remembered by class, in bounded space, and survive encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.forecast.learned import BUCKETS, FEWEST, FEWEST_NAMED, FORMAT, LearnedRunTimes, Lengths, compressed, stem
from core.model import Key, Workload
from core.model.owner import Owner
from tests.builders import workload

SECONDS = st.lists(st.floats(0, 1_000_000), min_size=1, max_size=400)


def job(name: str, cpu: int = 1, queue: str = "lq", namespace: str = "ns") -> Workload:
    owner = Owner("batch", "Job", namespace, name)
    return replace(workload(name, cpu, queue=queue, owner=owner), key=Key(namespace, f"job-{name}"))


def learned(*seconds: float, like: Workload | None = None) -> LearnedRunTimes:
    made = LearnedRunTimes()
    for each in seconds:
        made.add(like or job("train-1"), each)
    return made


@pytest.mark.parametrize(
    ("name", "shorter"),
    [
        ("train", "train"),
        ("train-17", "train"),
        ("train-x7k2p", "train"),
        ("nightly-28461240", "nightly"),
        ("nightly-28461240-x7k2p", "nightly"),
        ("run-3f2a9c1b", "run"),
        ("2024", "2024"),
        ("resnet50-eval", "resnet50-eval"),
    ],
)
def test_a_generated_end_is_no_part_of_the_class(name: str, shorter: str) -> None:
    assert stem(name) == shorter


def test_a_job_of_the_same_name_runs_as_long() -> None:
    found = learned(*[600.0] * FEWEST).run_time(job("train-2"), 0.0)
    assert found.exact and found.at(0.5) == pytest.approx(600, rel=0.01)
    assert found.rests_on == "jobs of the same name and shape in the same LocalQueue"


def test_few_alike_are_not_asked_and_wider_classes_are() -> None:
    known = learned(*[600.0] * (FEWEST_NAMED - 1))
    assert not known.run_time(job("train-2"), 0.0).known
    for _ in range(FEWEST - 1):
        known.add(job("other"), 60.0)
    assert known.run_time(job("third"), 0.0).rests_on == "jobs of the same shape in the same LocalQueue"
    assert known.run_time(job("third", cpu=2), 0.0).rests_on == "jobs in the same LocalQueue"
    assert not known.run_time(job("third", queue="else"), 0.0).known
    assert (
        known.run_time(job("other", queue="else"), 0.0).rests_on == "jobs of the same name and shape in the namespace"
    )
    assert not known.run_time(job("other", namespace="else"), 0.0).known


def test_few_of_the_same_name_are_taken_to_have_missed_the_shortest_and_the_longest() -> None:
    few, enough = learned(*[600.0] * FEWEST_NAMED), learned(*[600.0] * FEWEST)
    found = few.run_time(job("train-2"), 0.0)
    assert (found.at(0.0), found.at(0.5), found.at(1.0)) == pytest.approx((600 / 1.4, 600, 840))
    assert found.together > enough.run_time(job("train-2"), 0.0).together > 0
    assert enough.run_time(job("train-2"), 0.0).exact


def test_of_few_that_all_ran_as_long_the_rest_is_known_to_the_end() -> None:
    found = learned(*[600.0] * FEWEST).run_time(job("train-2"), 599.0)
    assert found.exact
    assert found.at(0.5) == pytest.approx(1.0)


def test_the_rest_of_a_workload_that_runs_is_that_of_those_that_ran_longer() -> None:
    known = learned(*[60.0] * 20, *[6000.0] * 10)
    assert known.run_time(job("train-2"), 0.0).at(0.5) < 70
    assert known.run_time(job("train-2"), 1000.0).at(0.5) == pytest.approx(5000, rel=0.1)


def test_a_workload_that_outlives_all_known_ones_may_run_for_long() -> None:
    found = learned(*[60.0] * 20).run_time(job("train-2"), 1000.0)
    assert found.at(0.5) == 1000.0
    assert found.rests_on.endswith("none of which ran as long")


@given(SECONDS)
def test_quantiles_are_those_of_the_lengths(seconds: list[float]) -> None:
    made = Lengths(seconds[0], seconds[0], bytearray(BUCKETS))
    for each in seconds[:200]:
        made.add(each)
    found, ordered = made.quantiles(), sorted(seconds[:200])
    assert list(found) == sorted(found)
    assert found[0] == pytest.approx(ordered[0], rel=0.17, abs=0.2) or found[0] <= ordered[0] + 0.2
    middle = found[len(found) // 2]
    assert ordered[(len(ordered) - 1) // 2] * 0.86 - 1 <= middle * 1.16 + 1
    assert middle <= ordered[len(ordered) // 2] * 1.16 + 1


@given(SECONDS, SECONDS)
def test_encoding_and_merging_lose_no_class(one: list[float], other: list[float]) -> None:
    mine, its = learned(*one), learned(*other, like=job("else", queue="q2"))
    again = LearnedRunTimes.decode(mine.encode())
    assert len(again) == len(mine)
    assert again.run_time(job("train-9"), 0.0).quantiles == pytest.approx(mine.run_time(job("train-9"), 0.0).quantiles)
    again.merge(its)
    assert len(again) == len(mine) + len(its)


@pytest.mark.parametrize("data", [b"", b"{}", FORMAT, FORMAT + b"x", FORMAT + learned(1.0).encode()])
def test_what_is_no_encoding_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        LearnedRunTimes.decode(data)


def test_no_number_of_job_names_makes_another_namespace_forget() -> None:
    known = LearnedRunTimes(most=40)
    for _ in range(FEWEST):
        known.add(job("train", namespace="mine"), 60.0)
    for number in range(200):
        known.add(job(f"{number}-x", cpu=number, namespace="theirs"), 1.0)
    assert len(known) == 40
    assert known.run_time(job("train", namespace="mine"), 0.0).known


def test_all_together_are_less_than_1_mib() -> None:
    known = LearnedRunTimes()
    for number in range(2_500):
        known.add(job(f"{number}-x", cpu=number, namespace=f"ns-{number % 300}"), float(number * 37 % 5000))
    assert len(known) == 6_000
    assert len(known.encode()) < 2**20


def test_parts_of_bytes_are_whole_while_others_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.forecast.learned.PART", 2)
    known = learned(60.0, 70.0)
    parts = []
    for number, part in enumerate(known.plain_in_parts()):
        parts.append(part)
        known.add(job(f"new-{number}x"), 5.0)
        known.add(job("new", namespace=f"other-{number}"), 5.0)
    assert len(parts) == 4, "the namespace, and six classes two at a time"
    again = LearnedRunTimes.decode(compressed(b"".join(parts)))
    assert len(again) == 6
    assert again.run_time(job("train-9"), 0.0).known


def test_what_happened_lately_weighs_more() -> None:
    known = learned(*[60.0] * 1000, *[6000.0] * 250)
    assert known.run_time(job("train-2"), 0.0).at(0.5) > 5000


def test_a_namespace_of_which_all_is_forgotten_takes_no_room() -> None:
    known = LearnedRunTimes(most=8)
    for number in range(300):
        known.add(replace(job(f"j{number}"), key=Key(f"build-{number}", "w")), 60.0)
    assert len(known.encode()) < 1000
