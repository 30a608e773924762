"""How long Workloads of a live cluster run: what the controller remembers, else what the finished ones have taught."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.objects import Key
from cli.learned import NOTHING, Remembered, assumption, remembered
from cli.target import ChosenCluster, UnreadableError
from core.forecast.learned import LearnedRunTimes
from core.forecast.run_times import UNKNOWN, RunTime
from core.forecast.stored import data_of, manifest
from core.model import Workload
from core.model.owner import Owner
from core.workload import transitions
from tests.builders import reserved
from tests.cli.api_server import Reply, kubeconfig, refusal, serving

PATH = "/api/v1/namespaces/kueue-system/configmaps/seiretsu-run-times"
STORED = Key("kueue-system", "seiretsu-run-times")


def job(number: int, ran: float | None = None) -> Workload:
    name = f"train-{number}"
    made = reserved(f"job-{name}", 1, "cq", queue="lq", owner=Owner("batch", "Job", "ns", name))
    return made if ran is None else transitions.finished(made, "Succeeded", "", ran)


def taught(*seconds: float) -> LearnedRunTimes:
    found = LearnedRunTimes()
    for each in seconds:
        found.add(job(0), each)
    return found


def read(reply: Reply, tmp_path: Path) -> Remembered:
    with serving(lambda asked: reply) as (url, asked):
        found = remembered(ChosenCluster(kubeconfig(tmp_path / "config", url)).connection(), "kueue-system")
    assert [each.path for each in asked] == [PATH]
    return found


def test_it_is_what_the_controller_has_stored(tmp_path: Path) -> None:
    learned = taught(*[600.0] * 20)
    found = read(Reply({**manifest(STORED), **data_of(learned.plain())}), tmp_path)
    assert found.unseen == ""
    assert found.run_times()(job(1), 0.0) == learned.run_time(job(1), 0.0) != UNKNOWN


@pytest.mark.parametrize(
    ("reply", "unseen"),
    [
        (refusal(403, "Forbidden", "no"), "you may not read ConfigMap kueue-system/seiretsu-run-times"),
        (refusal(404, "NotFound", "no"), "there is no ConfigMap kueue-system/seiretsu-run-times"),
        (
            Reply({**manifest(STORED), "binaryData": {"runTimes": "eA=="}}),
            "ConfigMap kueue-system/seiretsu-run-times cannot be read",
        ),
    ],
    ids=["no right", "off", "not written by Seiretsu"],
)
def test_without_it_the_finished_workloads_teach(reply: Reply, unseen: str, tmp_path: Path) -> None:
    found = read(reply, tmp_path)
    assert (found.unseen, found.learned.run_time(job(1), 0.0)) == (unseen, UNKNOWN)


def test_an_api_server_that_fails_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        read(refusal(500, "InternalError", "no"), tmp_path)


def test_what_the_controller_does_not_know_yet_the_finished_workloads_teach() -> None:
    done = [job(number, ran=90.0) for number in range(6)]
    assert NOTHING.run_times(done)(job(9), 0.0).median == 90.0
    assert Remembered(taught(*[600.0] * 9)).run_times(done)(job(1), 0.0).median == 600.0


def test_what_a_simulation_takes_is_stated() -> None:
    of_name, of_queue = (
        RunTime((1.0,), "jobs of the same name in the namespace"),
        RunTime((2.0,), "jobs in the same queue"),
    )
    assert assumption([of_name, of_queue, of_name, UNKNOWN]) == (
        "run times: the median of jobs of the same name in the namespace (2 workloads), the median of jobs in the same"
        " queue (1 workload), nothing is known of 1 workload, which runs without end here: --run-for sets how long"
    )
    assert assumption([]) == ""
