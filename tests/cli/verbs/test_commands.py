"""The commands with an API server that shows what was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from api.objects import Raw
from cli.main import PLUGIN, _started
from cli.words import GIVEN
from tests.cli.api_server import EMPTY, Asked, Reply, kubeconfig, refusal, serving

V1BETA2 = "/apis/kueue.x-k8s.io/v1beta2"
Run = Callable[..., tuple[int, str, str, list[Asked]]]


def queue(name: str, **fields: object) -> Raw:
    metadata = {"name": name, "creationTimestamp": "2020-01-01T00:00:00Z"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": metadata, "spec": {}, **fields}


def workload(name: str, *, owner: str = "", uid: str = "u1", **conditions: str) -> Raw:
    metadata: Raw = {
        "name": name,
        "namespace": "team-a",
        "uid": f"uid-{name}",
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": uid}]
    told = [
        {"type": kind, "status": "True", "lastTransitionTime": at, "message": "", "reason": "R"}
        for kind, at in conditions.items()
    ]
    return {"metadata": metadata, "spec": {"queueName": "main"}, "status": {"conditions": told}}


def items(*found: Raw) -> Reply:
    return Reply({"metadata": {"resourceVersion": "7"}, "items": [*found]})


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command of the plugin in this process; returns exit code, stdout, stderr and the requests."""

    def ran(answer: Callable[[Asked], Reply], *words: str) -> tuple[int, str, str, list[Asked]]:
        token = GIVEN.set({})
        try:
            with serving(answer) as (url, asked):
                config = kubeconfig(tmp_path / "config", url)
                try:
                    _started([*words, "--kubeconfig", str(config)], PLUGIN, "kubectl seiretsu")
                    code = 0
                except SystemExit as end:
                    code = int(end.code or 0)
        finally:
            GIVEN.reset(token)
        out, err = capsys.readouterr()
        return code, out, err, asked

    return ran


def test_list_clusterqueue_has_the_columns_of_kueuectl(run: Run) -> None:
    active = {"conditions": [{"type": "Active", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}
    found = queue("a", spec={"cohortName": "all"}, status={"pendingWorkloads": 2, "admittedWorkloads": 1, **active})
    code, out, _, asked = run(lambda each: items(found, queue("b")), "list", "cq", "-l", "x=y")
    head, first, second = out.splitlines()
    assert code == 0
    assert head.split("   ") == ["NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE"]
    assert first.split()[:5] == ["a", "all", "2", "1", "true"]
    assert second.split()[:4] == ["b", "0", "0", "false"]
    assert (asked[0].path, asked[0].query["labelSelector"]) == (f"{V1BETA2}/clusterqueues", ["x=y"])


def test_list_clusterqueue_filters_by_active(run: Run) -> None:
    _, out, _, _ = run(lambda each: items(queue("b")), "list", "clusterqueue", "--active=false", "-o=name")
    assert out == "clusterqueue.kueue.x-k8s.io/b\n"
    _, out, err, _ = run(lambda each: items(queue("b")), "list", "clusterqueue", "--active", "true")
    assert (out, err) == ("", "No resources found\n")
    code, _, err, _ = run(lambda each: EMPTY, "list", "clusterqueue", "--active=true", "--active=false")
    assert (code, "only one active flag" in err) == (2, True)


def of_workloads(*found: Raw) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/pendingworkloads"):
            place = {"metadata": {"name": "w", "namespace": "team-a"}, "positionInLocalQueue": 4}
            return items(place)
        if asked.path.endswith("/localqueues"):
            return items({"metadata": {"name": "main", "namespace": "team-a"}, "spec": {"clusterQueue": "cq"}})
        return items(*found)

    return answer


def test_list_workload_has_the_columns_of_kueuectl(run: Run) -> None:
    ran = workload("r", owner="runs", Admitted="2020-01-01T00:00:00Z", Finished="2020-01-01T00:01:30Z")
    code, out, _, asked = run(of_workloads(workload("w", owner="train"), ran), "list", "kwl")
    head, first, second = out.splitlines()
    names = "NAME|JOB TYPE|JOB NAME|LOCALQUEUE|CLUSTERQUEUE|STATUS|POSITION IN QUEUE|EXEC TIME|AGE"
    assert code == 0
    assert [each.strip() for each in head.split("   ") if each.strip()] == names.split("|")
    assert first.split()[:7] == ["w", "job", "train", "main", "cq", "PENDING", "4"]
    assert second.split()[:7] == ["r", "job", "runs", "main", "cq", "FINISHED", "90s"]
    assert [each.path for each in asked if "visibility" in each.path] == [
        "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team-a/localqueues/main/pendingworkloads"
    ]


def test_list_workload_wide_has_the_forecast_of_the_server(run: Run) -> None:
    known = {
        "metadata": {"name": "w", "namespace": "team-a"},
        "forecast": {"message": "starts in about 12 min (5 to 40)"},
    }
    others = of_workloads(workload("w", owner="train"), workload("x", owner="eval"))

    def answer(asked: Asked) -> Reply:
        return Reply({"workloads": [known]}) if asked.path.endswith("/localqueues/main/standing") else others(asked)

    _, out, _, _ = run(answer, "list", "workload", "-o", "wide")
    head, first, second = out.splitlines()
    assert "STARTS IN" in head
    assert "12 min (5 to 40)" in first and "min" not in second
    _, out, _, _ = run(others, "list", "workload", "-o", "wide")
    assert len(out.splitlines()) == 3, "without the visibility API the column is empty"


def test_list_workload_filters(run: Run) -> None:
    answer = of_workloads(workload("w"), workload("r", Admitted="2020-01-01T00:00:00Z"))
    for words, found in (
        (["--status", "pending"], "w"),
        (["--status", "Admitted", "--status", "finished"], "r"),
        (["--status", "all"], "w r"),
        (["-q", "other"], ""),
        (["-c", "cq"], "w r"),
        (["--clusterqueue", "no"], ""),
    ):
        _, out, _, _ = run(answer, "list", "workload", *words, "-o", "jsonpath={.items[*].metadata.name}")
        assert out == found, words
    code, _, err, _ = run(answer, "list", "workload", "--status", "done")
    assert (code, "invalid status value (done)" in err) == (2, True)


def test_list_workload_of_a_job_asks_for_the_label_with_its_uid(run: Run) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team-a", "uid": "u1"}}

    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/jobs/train"):
            return Reply(job)
        labelled = "labelSelector" in asked.query
        return items() if labelled else items(workload("w", owner="train"), workload("x", owner="y", uid="u2"))

    _, out, _, asked = run(answer, "list", "workload", "--for", "job/train", "-o", "name")
    assert out == "workload.kueue.x-k8s.io/w\n"
    assert asked[1].query["labelSelector"] == ["kueue.x-k8s.io/job-uid=u1"]
    code, _, err, _ = run(answer, "list", "workload", "--for", "jbo/train")
    assert (code, "did you mean job?" in err) == (1, True)
    code, _, err, _ = run(answer, "list", "workload", "--for", "train")
    assert (code, "TYPE[.API-GROUP]/NAME" in err) == (2, True)


def test_list_pods_prints_the_table_of_the_api_server(run: Run) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team-a", "uid": "u1"}}
    columns = [{"name": "Name", "priority": 0}, {"name": "Status", "priority": 0}, {"name": "IP", "priority": 1}]
    shown = Reply({"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": ["train-0", "Running", None]}]})
    answer = lambda asked: Reply(job) if asked.path.endswith("/jobs/train") else shown  # noqa: E731
    _, out, _, asked = run(answer, "list", "pods", "--for", "job/train")
    assert out == "NAME      STATUS\ntrain-0   Running\n"
    assert asked[1].query["labelSelector"] == ["batch.kubernetes.io/job-name=train"]
    _, out, _, _ = run(answer, "list", "po", "--for", "jobs.batch/train", "-o", "wide")
    assert out.splitlines()[0] == "NAME      STATUS    IP"


def test_what_may_not_be_listed_is_said_as_kubectl_says_it(run: Run) -> None:
    denied = refusal(403, "Forbidden", "clusterqueues is forbidden")
    code, out, err, _ = run(lambda asked: denied, "list", "cq", "-o", "json")
    assert (code, json.loads(out)["exitCode"]) == (3, 3)
    assert "Error from server (Forbidden): clusterqueues is forbidden" in err


def test_a_cluster_without_the_definitions_is_named(run: Run) -> None:
    code, _, err, _ = run(lambda asked: refusal(404, "NotFound", "not found"), "list", "cq")
    assert (code, "is Seiretsu installed in this cluster?" in err) == (1, True)


def test_create_sends_what_kueuectl_sends(run: Run) -> None:
    words = ("--cohort", "all", "--namespace-selector", "a=b", "--nominal-quota", "alpha:cpu=9")
    code, out, _, asked = run(lambda each: Reply({**each.body}), "create", "clusterqueue", "main", *words)
    assert (code, out) == (0, "clusterqueue.kueue.x-k8s.io/main created\n")
    assert (asked[0].method, asked[0].path) == ("POST", f"{V1BETA2}/clusterqueues")
    assert asked[0].query["fieldManager"] == ["kubectl-seiretsu"]
    assert asked[0].body["spec"] == {
        "cohortName": "all",
        "queueingStrategy": "BestEffortFIFO",
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "alpha", "resources": [{"name": "cpu", "nominalQuota": "9"}]}],
            }
        ],
    }


def test_dry_runs_store_nothing(run: Run) -> None:
    _, out, _, asked = run(lambda each: EMPTY, "create", "--dry-run", "client", "rf", "f", "--node-labels", "a=b")
    assert (out, asked) == ("resourceflavor.kueue.x-k8s.io/f created (client dry run)\n", [])
    _, out, _, asked = run(lambda each: Reply({**each.body}), "create", "rf", "f", "--dry-run=server")
    assert out == "resourceflavor.kueue.x-k8s.io/f created (server dry run)\n"
    assert asked[0].query["dryRun"] == ["All"]


def test_the_warnings_of_the_api_server_are_printed(run: Run) -> None:
    warned = (("Warning", '299 - "no flavor \\"x\\"", 299 seiretsu "second"'),)
    _, _, err, _ = run(lambda each: Reply({**each.body}, headers=warned), "create", "rf", "f")
    assert err == 'Warning: no flavor "x"\nWarning: second\n'


def test_create_localqueue_wants_a_clusterqueue_that_exists(run: Run) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            return Reply({**asked.body})
        if asked.path.endswith("/clusterqueues"):
            return items(queue("main"))
        return refusal(404, "NotFound", "not found")

    code, _, err, _ = run(answer, "create", "lq", "mine", "-c", "mian")
    assert code == 1
    assert 'clusterqueues.kueue.x-k8s.io "mian" not found: did you mean main?' in err
    code, out, _, asked = run(answer, "create", "lq", "mine", "-c", "mian", "-i")
    assert (code, out) == (0, "localqueue.kueue.x-k8s.io/mine created\n")
    assert asked[0].path == f"{V1BETA2}/namespaces/team-a/localqueues"


@pytest.mark.parametrize(
    ("words", "path", "spec", "line"),
    [
        (["stop", "cq", "main"], "clusterqueues/main", {"stopPolicy": "HoldAndDrain"}, "stopped"),
        (["stop", "cq", "main", "--keep-already-running"], "clusterqueues/main", {"stopPolicy": "Hold"}, "stopped"),
        (["resume", "cq", "main"], "clusterqueues/main", {"stopPolicy": "None"}, "resumed"),
        (["stop", "lq", "m", "-n", "t"], "namespaces/t/localqueues/m", {"stopPolicy": "HoldAndDrain"}, "stopped"),
        (["resume", "-n", "t", "lq", "m"], "namespaces/t/localqueues/m", {"stopPolicy": "None"}, "resumed"),
        (["stop", "workload", "w"], "namespaces/team-a/workloads/w", {"active": False}, "stopped"),
        (["resume", "kwl", "w"], "namespaces/team-a/workloads/w", {"active": True}, "resumed"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_stop_and_resume_are_one_patch(run: Run, words: list[str], path: str, spec: Raw, line: str) -> None:
    code, out, _, asked = run(lambda each: Reply(queue("main")), *words)
    assert (code, out) == (0, f"clusterqueue.kueue.x-k8s.io/main {line}\n")
    assert [(each.method, each.path, each.body) for each in asked] == [("PATCH", f"{V1BETA2}/{path}", {"spec": spec})]


def of_deletion(asked: Asked) -> Reply:
    known = {"w": workload("w", owner="train"), "alone": workload("alone")}
    name = asked.path.rpartition("/")[2]
    if asked.method == "DELETE":
        return Reply({"kind": "Status"})
    if name == "workloads":
        return items(*known.values())
    return Reply(known[name]) if name in known else refusal(404, "NotFound", "gone")


def deleted(asked: list[Asked]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(each.path, each.body) for each in asked if each.method == "DELETE"]


def test_delete_workload_deletes_its_job_after_a_confirmation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda: "y")
    code, out, _, asked = run(of_deletion, "delete", "workload", "w")
    assert code == 0
    assert out == (
        "This operation will also delete:\n"
        "  - jobs.batch/train associated with the team-a/w workload\n"
        "Do you want to proceed (y/n)? jobs.batch/train deleted\n"
    )
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    assert deleted(asked) == [
        ("/apis/batch/v1/namespaces/team-a/jobs/train", options | {"preconditions": {"uid": "u1"}})
    ]
    monkeypatch.setattr("builtins.input", lambda: "n")
    code, out, _, asked = run(of_deletion, "delete", "workload", "w")
    assert (code, out.splitlines()[-1], deleted(asked)) == (0, "Do you want to proceed (y/n)? Deletion is canceled", [])


def test_delete_workload_without_a_job_deletes_it(run: Run) -> None:
    _, out, _, asked = run(of_deletion, "delete", "kwl", "alone", "-y")
    assert out == "workload.kueue.x-k8s.io/alone deleted\n"
    assert [path for path, _ in deleted(asked)] == [f"{V1BETA2}/namespaces/team-a/workloads/alone"]


def test_delete_workload_of_another_name_says_which_is_meant(run: Run) -> None:
    code, out, err, _ = run(of_deletion, "delete", "workload", "alnoe", "w", "--yes")
    assert (code, out) == (1, "jobs.batch/train deleted\n")
    assert 'workloads.kueue.x-k8s.io "alnoe" not found in namespace team-a: did you mean alone?' in err


def test_the_name_of_a_job_cannot_control_the_terminal(run: Run) -> None:
    named = workload("w", owner="a\x1b[2Jb")
    _, out, _, _ = run(lambda asked: Reply(named), "delete", "workload", "w", "--dry-run=client")
    assert out == "jobs.batch/a [2Jb deleted (client dry run)\n"


@pytest.mark.parametrize(("version", "kind"), [("v1", "Namespace"), ("v1", "Secret"), ("example.com/v1", "Database")])
def test_an_owner_that_is_no_job_is_kept_and_so_is_the_workload(run: Run, version: str, kind: str) -> None:
    owned = workload("w", owner="prod")
    owned["metadata"]["ownerReferences"][0] |= {"apiVersion": version, "kind": kind}
    code, out, err, asked = run(lambda asked: Reply(owned), "delete", "workload", "w", "-y")
    assert (code, out, deleted(asked)) == (1, "", [])
    assert f"Workload team-a/w belongs to {kind} prod of {version}, which is no job that is known" in err


def test_delete_all_workloads(run: Run) -> None:
    _, out, _, asked = run(of_deletion, "delete", "workload", "--all", "--dry-run=client")
    assert out.splitlines() == [
        "jobs.batch/train deleted (client dry run)",
        "workload.kueue.x-k8s.io/alone deleted (client dry run)",
    ]
    assert deleted(asked) == []
    code, _, err, _ = run(of_deletion, "delete", "workload", "--all", "w")
    assert (code, "either --all or the names" in err) == (2, True)


def test_an_object_that_was_created_again_is_kept(run: Run) -> None:
    def answer(asked: Asked) -> Reply:
        return refusal(409, "Conflict", "the UID differs") if asked.method == "DELETE" else of_deletion(asked)

    code, _, err, _ = run(answer, "delete", "workload", "w", "-y")
    assert (code, "jobs.batch/train was created again meanwhile: it is kept" in err) == (1, True)


def test_kubectls_options_for_the_connection_are_obeyed(run: Run) -> None:
    words = ("--token", "t2", "--as", "jane", "--as-uid", "7", "--as-user-extra", "team=a", "--request-timeout=5s")
    _, _, _, asked = run(lambda each: items(queue("a")), *words, "list", "cq")
    sent = dict(asked[0].headers)
    assert sent["Authorization"] == "Bearer t2"
    assert (sent["Impersonate-User"], sent["Impersonate-Uid"], sent["Impersonate-Extra-team"]) == ("jane", "7", "a")


def test_get_is_given_to_kubectl(tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text('#!/bin/sh\nif [ "$2" = none ]; then exit 1; fi\necho "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    command = [sys.executable, "-m", "cli.main", "get", "cq", "main", "-o", "yaml", "--server-side"]
    environ = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "get clusterqueue.kueue.x-k8s.io main -o yaml --server-side\n"
    done = subprocess.run(command, env={**environ, "PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, "is not on PATH" in done.stderr) == (127, True)
