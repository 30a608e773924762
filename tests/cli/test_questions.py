"""The questions of docs/forecast.md: each command of its table parses, and answers on a small world."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from api.objects import Raw
from cli.main import PLUGIN, application
from tests.cli.api_server import EMPTY, Asked, Reply, refusal
from tests.cli.test_explain import QUEUES, workload
from tests.cli.verbs.test_commands import Run, run

__all__ = ["run"]
PAGE: Final = (Path(__file__).parents[2] / "docs" / "forecast.md").read_text()
TABLE: Final = PAGE.split("## Twenty questions")[1].split("\n## ")[0]
ROWS: Final = [line for line in TABLE.splitlines() if line.startswith("| ") and "| answer |" not in line]
NAMES: Final = {"workload": "job-eval", "clusterqueue": "team-a"}
CREATED: Final = "1970-01-01T00:00:00Z"


def commands() -> Iterator[str]:
    for row in ROWS:
        yield from re.findall(r"`(kubectl (?:seiretsu|create|apply) [^`]+)`", row)


def test_there_are_twenty_and_each_has_a_command() -> None:
    assert len(ROWS) == 20
    assert all(re.search(r"`kubectl (seiretsu|create|apply) ", row) for row in ROWS)


def objects() -> list[Raw]:
    """Two jobs of team-a, of which one waits, and the queues of the examples."""
    spaces = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "team-b", "kube-system")]
    jobs = [
        {"kind": "Job", "metadata": {"name": name, "namespace": "team-a", "uid": name, "creationTimestamp": CREATED}}
        for name in ("eval", "train")
    ]
    queues = [{**raw, "metadata": {**raw["metadata"], "creationTimestamp": CREATED}} for raw in QUEUES]
    found = [workload("train", 12, at=1, holds="team-a"), workload("eval", 10, at=2)]
    return [*spaces, *queues, *jobs, *found]


PLURALS: Final = {
    "Namespace": "namespaces",
    "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Job": "jobs",
    "Workload": "workloads",
}


def answered(asked: Asked) -> Reply:
    """An API server with these objects; it serves no visibility API."""
    words = asked.path.split("/")
    if "visibility" in asked.path:
        return refusal(404, "NotFound", "not served")
    if words[-1] == "pods":
        pod = {"cells": ["eval-x1"], "object": {"metadata": {"name": "eval-x1", "namespace": "team-a"}}}
        columns = [{"name": "Name", "type": "string", "priority": 0}]
        return Reply({"kind": "Table", "metadata": {}, "columnDefinitions": columns, "rows": [pod]})
    for raw in objects():
        if words[-2:] == [PLURALS[raw["kind"]], raw["metadata"]["name"]]:
            return Reply(raw)
    here = words[words.index("namespaces") + 1] if "namespaces" in words[:-1] else ""
    found = [
        raw
        for raw in objects()
        if PLURALS[raw["kind"]] == words[-1] and here in ("", raw["metadata"].get("namespace", ""))
    ]
    return Reply({"metadata": {"resourceVersion": "1"}, "items": found}) if found else EMPTY


@pytest.mark.parametrize("line", [each for each in commands() if each.startswith("kubectl seiretsu")])
def test_a_command_of_the_table_answers(line: str, run: Run, tmp_path: Path) -> None:
    half = tmp_path / "half.yaml"
    changed = next(raw for raw in QUEUES if raw["kind"] == "ClusterQueue")
    changed = yaml.safe_load(yaml.safe_dump(changed).replace("nominalQuota: '8'", "nominalQuota: '4'"))
    half.write_text(yaml.safe_dump(changed))
    words = line.split()[2:]
    if words[0] in ("top", "doctor"):  # a terminal, and a whole installation
        assert words[0] in {each.name for each in PLUGIN}
        assert application(words, PLUGIN) is not None
        return
    name = NAMES.get(words[1], "") if len(words) > 1 else ""
    given = [word.replace("JOB", "eval").replace("NAME", name).replace("FILE", str(half)) for word in words]
    if words[:2] == ["delete", "workload"]:
        given.append("--yes")
    cluster = {"list clusterqueue", "stop clusterqueue"}
    if not (words[0] in ("plan", "simulate") or " ".join(words[:2]) in cluster):
        given += ["-n", "team-a"]
    code, out, err, _ = run(answered, *given)
    if words[0] == "why-preempted":
        assert (code, "was not preempted" in out + err or "never" in out + err) in ((0, True), (1, True)), (out, err)
        return
    assert (code, bool(out.strip())) == (2 if words[0] == "plan" else 0, True), (out, err)
    if words[0] in ("explain", "when"):
        assert "eval" in out


@pytest.mark.parametrize("line", [each for each in commands() if not each.startswith("kubectl seiretsu")])
def test_a_warning_of_the_table_is_asked_for_with_words_of_kubectl(line: str) -> None:
    assert re.fullmatch(r"kubectl (create|apply) --dry-run=server -f FILE", line)
