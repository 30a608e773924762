"""When a waiting Job starts: simulated if the whole queue can be read, else estimated from the waits of others."""

from __future__ import annotations

import pytest

from api.objects import Raw
from cli.live import Seen
from cli.main import PLUGIN, completions
from cli.when import When, of_server, text, when
from core.model.forecast import span
from tests.cli.test_explain import QUEUES, workload

NOW = 1_000.0
HIDDEN = ("clusterqueues", "cohorts", "resourceflavors", "namespaces", "workloads outside team-a")


def conditions(raw: Raw, **times: str) -> Raw:
    """The Workload with these conditions, by type; `Finished="30"`: since 30 seconds past the hour."""
    given = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": f"1970-01-01T00:00:{at}Z"}
        for kind, at in times.items()
    ]
    return raw | {"status": {**raw["status"], "conditions": given}}


def asked(*objects: Raw, unseen: tuple[str, ...] = (), of: str = "b", run_for: float | None = None) -> When:
    answer = when(Seen([*QUEUES, *objects] if not unseen else list(objects), unseen), of, "team-a", NOW, None, run_for)
    assert isinstance(answer, When), answer
    return answer


FULL = [workload(f"a{n}", 8, at=n, holds=queue, namespace=queue) for n, queue in enumerate(("team-a", "team-b"))]


def test_with_all_rights_it_is_simulated_how_long_the_others_run() -> None:
    answer = asked(*FULL, workload("b", 8, at=5), run_for=600)
    assert (answer.how, answer.seconds) == ("simulated", 600)
    assert text(answer, NOW) == (
        "team-a/b: starts in about 10 min, at 00:26:40 UTC: simulated, if each workload runs 10 min more (as asked for)"
        " and no other is created"
    )


def test_the_others_run_as_long_as_those_like_them_that_finished() -> None:
    done = [conditions(workload(f"d{at}", 1, at=1), Admitted="02", Finished=f"{at + 2}") for at in range(10, 50, 5)]
    answer = asked(FULL[0], *done, workload("b", 8, at=5))
    assert answer.how == "simulated"
    assert "jobs in the same LocalQueue" in answer.why


def test_without_finished_jobs_nothing_is_known_of_run_times() -> None:
    answer = asked(*FULL, workload("b", 8, at=5))
    assert answer.how == "unknown"
    assert answer.why.startswith("it depends on how long up to ")
    assert "--run-for" in answer.why


def test_the_forecast_of_the_server_is_shown_with_its_age_and_interval() -> None:
    answer = {"ageSeconds": 12, "p10Seconds": 300, "p50Seconds": 720, "p90Seconds": 2400, "restsOn": "jobs"}
    found = of_server(answer, "team-a/b")
    assert found is not None
    assert text(found, NOW) == (
        "team-a/b: starts in about 12 min (5 to 40), at 00:28:40 UTC: forecast 12 s ago, from jobs"
    )
    assert of_server({"ageSeconds": 1, "unknown": "nothing is known"}, "team-a/b") is None
    assert of_server(None, "team-a/b") is None


def test_a_job_that_can_never_start_is_reported_with_its_reason() -> None:
    answer = asked(*FULL, workload("b", 50, at=5), run_for=600)
    assert (answer.how, answer.seconds) == ("unknown", None)
    assert "it does not start as things are" in answer.why
    assert "insufficient" in answer.why


def test_with_rights_in_the_namespace_alone_it_is_estimated_from_the_waits_of_others() -> None:
    others = [conditions(workload(f"c{n}", 1, at=0), Admitted=f"{n}") for n in range(10, 20)]
    mine = workload("b", 1, at=0)
    mine["metadata"]["creationTimestamp"] = "1970-01-01T00:16:40Z"
    answer = asked(*others, mine, unseen=HIDDEN)
    assert (answer.how, answer.seconds, answer.unseen) == ("estimated", 14, HIDDEN)
    assert text(answer, NOW).splitlines() == [
        "team-a/b: starts in about 14 s, with 90 % certainty within 19 s (from 10 jobs of this queue that waited at"
        " least as long)",
        "Your rights do not show clusterqueues, cohorts, resourceflavors and 2 other kinds of objects. With the role"
        " view in the whole cluster the start is simulated.",
    ]


def test_with_too_few_others_it_is_not_known_and_the_missing_rights_are_named() -> None:
    answer = asked(workload("b", 1, at=0), unseen=HIDDEN)
    assert answer.how == "unknown"
    assert answer.why == "too few jobs of LocalQueue main waited as long as this one has (17 min)"
    assert "Your rights do not show clusterqueues" in text(answer, NOW)


@pytest.mark.parametrize(("kind", "how"), [("Admitted", "started"), ("Finished", "finished")])
def test_a_job_that_does_not_wait_has_the_time_it_started_or_finished(kind: str, how: str) -> None:
    for unseen in ((), HIDDEN):
        told = asked(conditions(workload("b", 1, at=0, holds="team-a"), **{kind: "30"}), unseen=unseen)
        assert (told.how, told.why) == (how, "at 1970-01-01T00:00:30Z")


def test_a_job_that_does_not_exist_is_reported() -> None:
    told = when(Seen(list(QUEUES), ()), "none", "team-a", NOW)
    assert isinstance(told, str)
    assert "there is no Job none in namespace team-a" in told


def test_durations_are_in_the_unit_that_suits_them() -> None:
    assert [span(each) for each in (5, 600, 36_000)] == ["5 s", "10 min", "10 h"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([""], [command.name for command in PLUGIN]),
        (["w"], ["when", "why-preempted"]),
        (["list", ""], ["clusterqueue", "localqueue", "pods", "resourceflavor", "workload"]),
        (["stop", ""], ["clusterqueue", "localqueue", "workload"]),
        (["get", "c"], ["clusterqueue"]),
        (["list", "workload", "--status", "p"], ["pending"]),
        (["list", "workload", "--st"], ["--status"]),
        (["-n", "x", "list", "cq", "--dry-run=cl"], ["--dry-run=client"]),
        (["create", "clusterqueue", ""], []),
        (["why-preempted", "-o", "y"], ["yaml"]),
        (["list", "cq", "-o", "w"], ["wide"]),
        (["when", ""], []),
        (["when", "--ru"], ["--run-for"]),
        (["explain", "job", "-"], None),
    ],
)
def test_kubectl_completes_the_commands_and_options_of_the_plugin(words: list[str], found: list[str] | None) -> None:
    told = completions(words)
    assert told == found if found is not None else {"--namespace", "-n", "--output", "--help"} <= set(told)


def test_the_plugin_has_the_commands_of_people_who_use_queues() -> None:
    assert {"explain", "when", "simulate", "doctor", "list", "stop", "version"} <= {each.name for each in PLUGIN}
    assert not {"serve", "migrate", "uninstall"} & {each.name for each in PLUGIN}
