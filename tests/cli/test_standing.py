"""`explain` and `when` ask the server first: complete answers with the rights of a user of one namespace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from api.objects import Raw
from cli.main import application
from core.explain import document
from core.explain.analysis import Audience, ExplanationBounds, explain_in_steps
from core.explain.sight import of_namespace
from core.model import Key
from tests.builders import NOW
from tests.cli.api_server import EMPTY, Asked, Reply, kubeconfig, refusal, serving
from tests.core.test_standing import ended, shared

FORBIDDEN = refusal(403, "Forbidden", "no")
NOT_SERVED = refusal(404, "NotFound", "the server could not find the requested resource")
STANDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/next/standing"
WORKLOADS, JOBS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads", "/apis/batch/v1/namespaces/ns/jobs"
BOUNDS = ExplanationBounds(queues=100, holders=100, tries=24, nodes=100, names=20)


def workload(name: str) -> Raw:
    owner = {"kind": "Job", "name": f"job-{name}", "uid": name, "apiVersion": "batch/v1", "controller": True}
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [owner],
    }
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]}
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "as the status has it"}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [waits]}}


def stands(**changes: Any) -> Raw:
    """What the server answers a tenant about the workload `next`."""
    answer = ended(explain_in_steps(shared(), Key("ns", "next"), NOW, Audience(of_namespace("ns"), BOUNDS)))
    assert answer is not None
    job = {"mine": "job-mine", "ahead": "job-ahead"}
    fields = document.written(answer, lambda key: job.get(key.name, ""))
    return {"metadata": {"namespace": "ns", "name": "next"}, **fields, **changes}


def tenant(standing: Reply) -> Callable[[Asked], Reply]:
    """An API server for a user who may read Workloads and Jobs of the namespace `ns`, and nothing else."""
    here = {
        WORKLOADS: Reply({"kind": "List", "metadata": {}, "items": [workload("next"), workload("mine")]}),
        JOBS: EMPTY,
        STANDING: standing,
    }
    return lambda asked: here.get(asked.path, FORBIDDEN)


def run(tmp_path: Path, answer: Callable[[Asked], Reply], *words: str) -> tuple[Result, list[str]]:
    with serving(answer) as (url, asked):
        file = kubeconfig(tmp_path / "config", url, namespace="ns")
        arguments = [*words, "--kubeconfig", str(file)]
        done = CliRunner().invoke(application(arguments), arguments)
    return done, [each.path for each in asked]


def test_with_the_rights_of_a_tenant_the_answer_is_complete(tmp_path: Path) -> None:
    done, asked = run(tmp_path, tenant(Reply(stands())), "explain", "job-next")
    assert done.exit_code == 0, done.output
    assert done.output == (
        "ns/job-next (Workload next): waiting in ClusterQueue cq, queue position 3 of 3, priority 0\n"
        "  behind ns/job-ahead, 1 more\n"
        "  WaitingForQuota: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor"
        " default, 6 more needed\n"
        "\n"
        "FLAVOR   RESOURCE  ASKED  FREE NOW  IN USE  OWN QUOTA  MAXIMUM\n"
        "default  cpu       6      0         8       8          12\n"
        "\n"
        "Held by\n"
        "  ns/job-mine in cq, priority 0: 2 cpu in default\n"
        "  2 other workloads in cq: 6 cpu in default\n"
        "  1 other workload in other ClusterQueues: 4 cpu in default\n"
        "\n"
        "What would let it start\n"
        "  - it fits when 2 workloads of other namespaces have ended\n"
        "  - with 6 cpu more quota in flavor default (nominalQuota of ClusterQueue cq)\n"
        "Other waiting workloads may get free quota first: 2 ahead of it.\n"
    )
    assert asked == [WORKLOADS, JOBS, STANDING], "nothing of the cluster is read"


def test_programs_get_what_is_not_named_as_numbers(tmp_path: Path) -> None:
    done, _ = run(tmp_path, tenant(Reply(stands())), "explain", "workload/next", "-o", "json")
    found = json.loads(done.stdout)
    assert (found["queuePosition"], found["ahead"], found["aheadNotNamed"]) == (3, ["ns/job-ahead"], 1)
    assert [(each["workloads"], each["clusterQueue"]) for each in found["heldByOthers"]] == [(2, "cq"), (1, "")]
    assert (found["notReadable"], found["notComputed"]) == ([], [])


@pytest.mark.parametrize(
    "standing",
    [NOT_SERVED, FORBIDDEN, refusal(503, "ServiceUnavailable", "down"), Reply({"kind": "Of another version"})],
    ids=["not served", "not allowed", "down", "another version"],
)
@pytest.mark.parametrize("command", ["explain", "when"])
def test_without_an_answer_of_the_server_it_is_what_the_rights_show(
    tmp_path: Path, standing: Reply, command: str
) -> None:
    done, _ = run(tmp_path, tenant(standing), command, "job-next")
    assert done.exit_code == 0, done.output
    assert "Your rights do not show" in done.output


def test_what_the_server_leaves_out_is_named(tmp_path: Path) -> None:
    left_out = "4000 workloads hold quota"
    done, asked = run(tmp_path, tenant(Reply(stands(notComputed=[left_out]))), "explain", "job-next")
    assert f"Not computed: {left_out}." in done.output
    assert "Your rights do not show" not in done.output
    assert len(asked) > 3, "with more rights it would be computed here"


def test_when_says_where_the_job_stands_and_names_no_missing_rights(tmp_path: Path) -> None:
    done, _ = run(tmp_path, tenant(Reply(stands())), "when", "job-next")
    assert done.output == (
        "ns/job-next: not known when it starts: too few jobs of LocalQueue lq waited as long as this one has"
        f" ({done.output.rpartition('(')[2].partition(')')[0]})\n"
        "  queue position 3 of 3 in ClusterQueue cq; it lacks 6 cpu in flavor default\n"
    )


def test_a_job_that_lacks_nothing_has_its_reason() -> None:
    from cli.when import stands as sentence

    told = document.read(stands(flavors=[], message="behind another", positionInClusterQueue=0))
    assert sentence(told) == "queue position 1 of 3 in ClusterQueue cq: behind another"


EXPECTED = {
    "ageSeconds": 12,
    "p10Seconds": 300,
    "p50Seconds": 720,
    "p90Seconds": 2400,
    "message": "starts in about 12 min (5 to 40)",
    "restsOn": "jobs in the same LocalQueue",
}


def test_explain_and_when_show_the_forecast_of_the_server(tmp_path: Path) -> None:
    for command, shown in (
        ("explain", "It starts in about 12 min (5 to 40): forecast 12 s ago, from jobs in the same LocalQueue\n"),
        ("when", "forecast 12 s ago, from jobs in the same LocalQueue\n"),
    ):
        done, _ = run(tmp_path, tenant(Reply(stands(forecast=EXPECTED))), command, "job-next")
        assert "starts in about 12 min (5 to 40)" in done.output
        assert shown in done.output


def test_explain_says_why_the_server_does_not_know_when_it_starts(tmp_path: Path) -> None:
    unknown = {"ageSeconds": 1, "unknown": "the forecast was not played to its end"}
    done, _ = run(tmp_path, tenant(Reply(stands(forecast=unknown))), "explain", "job-next")
    assert done.output.endswith("It is not known when it starts: the forecast was not played to its end\n")
