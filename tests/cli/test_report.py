"""`seiretsu report`: of a file, and of a server, with the rights of its user."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from api.objects import Raw
from cli.history.text import as_csv
from cli.main import application
from controller.history import document, queries
from controller.history.database import FILE, Sqlite
from controller.history.queries import GroupedBy
from core.explain.sight import EVERYTHING, Sight, of_namespace
from core.history.report import Window
from tests.cli.api_server import Asked, Reply, kubeconfig, refusal, serving
from tests.controller.history import HOUR, recorded

BASE = "/apis/visibility.kueue.x-k8s.io/v1beta2"
OVER = Window(0.0, 5 * HOUR, HOUR)
FORBIDDEN = refusal(403, "Forbidden", "ann may not get reports")


@pytest.fixture(autouse=True)
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is seen of the history must not depend on how long a run of all tests takes."""
    monkeypatch.setattr("cli.history.command.time", SimpleNamespace(time=lambda: 5 * HOUR))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("report")) / FILE


def run(*words: str) -> Result:
    return CliRunner().invoke(application(["report"]), ["report", "--since=5h", *words])


def of_file(file: Path, *words: str) -> str:
    found = run("--file", str(file), *words)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_the_table_has_use_waits_preemptions_fairness_and_idle_quota(file: Path) -> None:
    lines = of_file(file, "--by", "user").splitlines()
    assert [line.split() for line in lines if line.startswith(("alice", "bob"))] == [
        ["alice", "17.0", "2", "10m", "1h00m", "1h00m", "1", "1", "1", "1"],
        ["bob", "4.0", "1", "40m", "40m", "40m", "1", "0", "0", "0"],
    ]
    assert any(line.startswith("Fairness") and "lowest 0.50" in line for line in lines)
    assert any(line.split() == ["team", "default", "cpu", "40.0", "19.0", "48%"] for line in lines)
    assert any("one/job-low of alice" in line and "two/job-high of bob" in line for line in lines)


def test_csv_has_a_row_for_each_group_with_full_numbers(file: Path) -> None:
    head, alice, _ = csv.reader(io.StringIO(of_file(file, "--by", "user", "-o", "csv")))
    assert head[:2] == ["user", "cpu in default (cpu hours)"]
    assert alice == ["alice", "17.0000", "2", "600", "3600", "3600", "1", "1", "1", "1"]


def test_workloads_are_exported_one_by_one(file: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(of_file(file, "--workloads", "-o", "csv"))))
    assert [(row["namespace"], row["name"], row["user"], row["outcome"]) for row in rows] == [
        ("one", "low", "alice", "Failed"),
        ("two", "high", "bob", "Succeeded"),
    ]
    assert "job-low" in of_file(file, "--workloads")


def test_a_name_that_a_spreadsheet_would_run_is_text() -> None:
    assert as_csv([("=cmd()", "-5", "+x")]) == "'=cmd(),-5,'+x\n"


def test_the_page_has_pictures_with_a_text_for_each(file: Path) -> None:
    shown = of_file(file, "-o", "html")
    pictures = [part.partition("</svg>")[0] for part in shown.split("<svg")[1:]]
    assert len(pictures) == 2
    for each in pictures:
        root = ElementTree.fromstring(f"<svg{each}</svg>")
        assert root.get("role") == "img"
        assert root.get("aria-label")
    assert "ClusterQueue cq-a" in pictures[0]
    assert 'class="borrowed"' in pictures[0], "cq-a used more than its quota"
    assert "http://www.w3.org/2000/svg" in shown
    assert "src=" not in shown


def test_a_document_is_read_as_it_was_written(file: Path) -> None:
    database = Sqlite(file, read_only=True)
    try:
        found = queries.report(database, OVER, GroupedBy.QUEUE)
    finally:
        database.close()
    again = document.read(json.loads(json.dumps(document.written(found))))
    assert document.written(again) == document.written(found)


def answers(file: Path, sight: Sight, path: str) -> Callable[[Asked], Reply]:
    def reply(asked: Asked) -> Reply:
        if asked.path != path:
            return FORBIDDEN
        database = Sqlite(file, read_only=True)
        try:
            found: Raw = document.written(queries.report(database, OVER, GroupedBy.USER, sight))
        finally:
            database.close()
        return Reply({"kind": "Report", **found})

    return reply


def test_who_may_not_read_all_namespaces_gets_the_report_of_his_own(file: Path, tmp_path: Path) -> None:
    mine = f"{BASE}/namespaces/team-a/reports/user"
    with serving(answers(file, of_namespace("one"), mine)) as (server, _):
        found = run("--by", "user", "--kubeconfig", str(kubeconfig(tmp_path / "config", server)))
    assert found.exit_code == 0, found.output
    assert "you may not read the report of all namespaces: this is that of team-a" in found.stderr
    assert "alice" in found.stdout
    assert "bob" not in found.stdout


def test_an_administrator_gets_the_report_of_the_cluster(file: Path, tmp_path: Path) -> None:
    with serving(answers(file, EVERYTHING, f"{BASE}/reports/user")) as (server, _):
        found = run("--by", "user", "--kubeconfig", str(kubeconfig(tmp_path / "config", server)))
    assert found.exit_code == 0, found.output
    assert "bob" in found.stdout


def test_without_a_history_the_answer_says_what_is_needed(tmp_path: Path) -> None:
    none = refusal(404, "NotFound", "the server could not find the requested resource")
    with serving(lambda asked: none) as (server, _):
        found = run("--kubeconfig", str(kubeconfig(tmp_path / "config", server)))
    assert found.exit_code == 1
    assert "history.enabled and visibility.enabled" in found.stderr


def test_a_file_that_is_no_history_is_named(tmp_path: Path) -> None:
    found = run("--file", str(tmp_path / "none"))
    assert found.exit_code == 3
    assert "is no file" in found.stderr
