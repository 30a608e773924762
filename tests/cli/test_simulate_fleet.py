"""``seiretsu simulate`` over a manager and its worker clusters."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from api.manifests import stored
from api.names import Label
from api.objects import Raw, Resource
from cli import fleet, learned, live
from cli import workers as worker_clusters
from cli.main import application
from cli.reader import Reader
from cli.target import ChosenCluster
from cli.workers import Workers, workers
from controller.kube import config
from controller.kube.errors import NotFound

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "multikueue" / "simulate"
MANAGER = EXAMPLE / "manager.yaml"
HEADER = "at,run_for,queue,namespace,name,cpu\n"
BOTH = ("--worker", f"small={EXAMPLE / 'small.yaml'}", "--worker", f"large={EXAMPLE / 'large.yaml'}")
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def simulate(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(application(["simulate"]), ["simulate", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def played(*words: str | Path) -> Raw:
    code, out, err = simulate(*words, "-o", "json")
    assert code == 0, err
    found: Raw = json.loads(out)
    return found


def ran_in(told: Raw) -> dict[str, list[tuple[str, float]]]:
    """Where and when each job started."""
    return {
        job["job"]: [(attempt["worker"]["name"], attempt["started"]) for attempt in job["attempts"]]
        for job in told["workloads"]
    }


def trace(folder: Path, *lines: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def test_the_example_of_the_page_prints_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "simulate.md").read_text()
    found = re.search(r"```console\n\$ seiretsu (simulate (?:.*\\\n)*.*)\n([^`]*)```", page)
    assert found is not None
    monkeypatch.chdir(ROOT)
    code, out, err = simulate(*shlex.split(found[1].replace("\\\n", ""))[1:])
    assert (code, err) == (0, "")
    assert out.startswith(found[2])
    assert "Worker cluster small\n\nCLUSTERQUEUE" in out


def test_the_json_has_the_worker_of_each_attempt_and_the_report_of_each_worker() -> None:
    told = played(MANAGER, EXAMPLE / "jobs.csv", *BOTH)
    assert ran_in(told)["fourth"] == [("large", 660)]
    (fourth,) = [job for job in told["workloads"] if job["job"] == "fourth"]
    assert fourth["attempts"][0]["worker"] == {
        "name": "large",
        "clusterQueue": "research",
        "flavors": ["large-nodes"],
    }
    reason = "asks for 8 cpu, at most 4 is allowed"
    assert fourth["dispatched"] == [{"at": 660, "worker": "large", "notIn": {"small": reason}}]
    (huge,) = [job for job in told["workloads"] if job["job"] == "huge"]
    assert huge["dispatched"][-1]["worker"] is None
    assert list(told["workers"]) == ["small", "large"]
    assert told["workers"]["large"]["clusterQueues"][0]["admitted"] == 3
    assert told["workers"]["large"]["workloads"] == [], "the copies are among those of the manager"


def test_jobs_of_a_worker_itself_take_its_quota_and_are_in_its_own_table(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = trace(tmp_path / "own", "0,1h,main,team-a,own,14")
    jobs = trace(tmp_path, "1m,10m,main,team-a,mine,4")
    words = (MANAGER, jobs, *BOTH[:2], "--worker", f"large={EXAMPLE / 'large.yaml'}", "--worker", f"large={own}")
    assert ran_in(played(*words)) == {"mine": [("small", 60)]}
    _, out, _ = simulate(*words)
    assert out.index("Worker cluster large") < out.index("team-a/own")


def test_a_changed_manager_is_compared_with_the_same_workers(tmp_path: Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: MultiKueueConfig\nmetadata: {name: workers}\n"
        "spec: {clusters: [large, small]}\n"
    )
    told = played(MANAGER, EXAMPLE / "jobs.csv", *BOTH, "--what-if", patch)
    before, after = (ran_in(each)["first"] for each in told["outcomes"])
    assert (before, after) == ([("small", 0)], [("large", 0)])
    code, _, _ = simulate(MANAGER, EXAMPLE / "jobs.csv", *BOTH, "--plot", tmp_path / "out.svg")
    assert code == 0
    assert "team-a/fourth" in (tmp_path / "out.svg").read_text()


def test_without_workers_the_check_passes_at_once_and_a_note_says_so(tmp_path: Path) -> None:
    code, out, _ = simulate(MANAGER, trace(tmp_path, "0,10m,main,team-a,mine,4"))
    assert code == 0
    assert "AdmissionCheck workers of MultiKueue passes immediately: --worker NAME=FILES" in out


def test_the_incremental_dispatcher_of_the_configuration_is_used(tmp_path: Path) -> None:
    chosen = tmp_path / "config.yaml"
    chosen.write_text(
        "multiKueue:\n  dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental\n"
        "  incrementalDispatcherConfig: {stepSize: 1}\n"
    )
    told = played(MANAGER, trace(tmp_path, "0,10m,main,team-a,mine,8"), *BOTH, "--config", chosen)
    assert ran_in(told) == {"mine": [("large", 300)]}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_that_are_queued_run_in_workers_too(tmp_path: Path, kind: str) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}]}}
    metadata = {"name": "web", "namespace": "team-a", "labels": {Label.QUEUE_NAME: "main"}}
    spec = {"replicas": 1, "selector": {}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
    (tmp_path / "web.json").write_text(json.dumps(web))
    (tmp_path / "config.yaml").write_text(f"integrations: {{frameworks: [batch/job, pod, {kind.lower()}]}}\n")
    told = played(MANAGER, tmp_path / "web.json", *BOTH, "--config", tmp_path / "config.yaml")
    (where,) = ran_in(told).values()
    assert where == [("large", 0)]


def test_the_groups_of_a_leader_worker_set_run_in_one_worker(tmp_path: Path) -> None:
    """The second one would fit into the large worker at once."""
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}}
    metadata = {"name": "web", "namespace": "team-a", "labels": {Label.QUEUE_NAME: "main"}}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
    web = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}
    (tmp_path / "web.json").write_text(json.dumps(web))
    frameworks = "[batch/job, pod, leaderworkerset.x-k8s.io/leaderworkerset]"
    (tmp_path / "config.yaml").write_text(f"integrations: {{frameworks: {frameworks}}}\n")
    told = played(MANAGER, tmp_path / "web.json", *BOTH, "--config", tmp_path / "config.yaml")
    assert ran_in(told) == {"web-0": [("small", 0)], "web-1": []}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--worker", "small"), "--worker small: write NAME=PATH, for example worker1=worker1.yaml"),
        (("--worker", f"other={EXAMPLE / 'small.yaml'}"), "no MultiKueueConfig names it; they name large, small"),
        (("--worker", "small=nothing.yaml"), "nothing.yaml: No such file or directory"),
    ],
)
def test_a_worker_that_cannot_be_used_is_a_mistake(words: tuple[str, str], told: str) -> None:
    code, _, err = simulate(MANAGER, EXAMPLE / "jobs.csv", *words)
    assert code == 1
    assert told in err


def test_workers_of_a_cluster_that_is_no_manager_are_a_mistake() -> None:
    code, _, err = simulate(ROOT / "examples" / "queues.yaml", *BOTH)
    assert code == 1
    assert "the manager has no AdmissionCheck of MultiKueue whose MultiKueueConfig names clusters" in err


def test_a_worker_without_a_path_counts_as_lost_with_a_note(tmp_path: Path) -> None:
    jobs = trace(tmp_path, "0,10m,main,team-a,mine,4")
    _, out, _ = simulate(MANAGER, jobs, "--worker", f"small={EXAMPLE / 'small.yaml'}")
    assert "worker cluster large is not simulated and counts as lost: --worker large=FILES" in out
    assert "team-a/mine not in worker cluster large: not connected" in out


def status(*kinds: str) -> list[Raw]:
    since = "2026-01-01T00:00:00Z"
    return [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since} for kind in kinds
    ]


def copy_of_a_running_job() -> Raw:
    """A Workload of 3 cpu that the manager has in a worker, where its Job has adopted it."""
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}}
    usage = {"name": "main", "flavors": {"cpu": "small-nodes"}, "resourceUsage": {"cpu": "3"}, "count": 1}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "older", "uid": "u", "controller": True}
    found = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "job-older",
            "namespace": "team-a",
            "uid": "w",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {Label.MULTIKUEUE_ORIGIN: "multikueue"},
            "ownerReferences": [owner],
        },
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": template}]},
        "status": {
            "conditions": status("QuotaReserved", "Admitted"),
            "admission": {"clusterQueue": "research", "podSetAssignments": [usage]},
        },
    }
    return stored(found)[0]


def test_a_worker_is_read_with_its_kubeconfig_and_its_running_jobs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copy_of_a_running_job()
    objects = [*yaml.safe_load_all((EXAMPLE / "small.yaml").read_text()), copied]
    asked: list[str] = []

    def read(connection: config.Connection) -> live.Seen:
        asked.append(connection.server)
        return live.Seen(objects, ("limitranges",))

    monkeypatch.setattr(fleet, "worker", read)
    mine = {**copied, "metadata": {**copied["metadata"], "labels": {}}}
    check = {"name": "workers", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    mine["status"] = {**mine["status"], "clusterName": "small", "admissionChecks": [check]}
    usage = {**mine["status"]["admission"]["podSetAssignments"][0], "flavors": {"cpu": "any"}}
    mine["status"]["admission"] = {"clusterQueue": "research", "podSetAssignments": [usage]}
    (tmp_path / "older.json").write_text(json.dumps(mine))
    (tmp_path / "small.kubeconfig").write_text(KUBECONFIG)
    jobs = trace(tmp_path, "0,10m,main,team-a,mine,4")
    words = (
        MANAGER,
        tmp_path / "older.json",
        jobs,
        "--worker",
        f"small={tmp_path / 'small.kubeconfig'}",
        "--run-for",
        "5m",
    )
    told = played(*words)
    assert asked == ["https://127.0.0.1:1"]
    assert ran_in(told) == {"older": [("small", 0)], "mine": [("small", 300)]}
    assert told["workers"]["small"]["remarks"] == ["taken to have no limitranges: its kubeconfig may not list them"]


def multikueue_config(folder: Path, *clusters: str) -> Path:
    """A MultiKueueConfig that replaces the one of the manager."""
    path = folder / "clusters.yaml"
    path.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: MultiKueueConfig\nmetadata: {name: workers}\n"
        f"spec: {{clusters: [{', '.join(clusters)}]}}\n"
    )
    return path


def live_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager of the example is live, with three worker clusters, of which it uses two."""
    objects = [stored(raw)[0] for raw in yaml.safe_load_all(MANAGER.read_text())]
    configs = [raw for raw in objects if raw["kind"] == "MultiKueueConfig"]
    others = [raw | {"status": {"conditions": status("Active")}} for raw in objects if raw not in configs]
    connections: dict[str, config.Connection | str] = {
        name: config.Connection(f"https://{name}") for name in ("small", "large", "spare")
    }

    def read(connection: config.Connection) -> live.Seen:
        name = connection.server.removeprefix("https://")
        found = yaml.safe_load_all((EXAMPLE / f"{name}.yaml").read_text())
        return live.Seen([stored(raw)[0] for raw in found], ())

    monkeypatch.setattr(live, "objects", lambda *_: others)
    monkeypatch.setattr(fleet, "workers", lambda *_: Workers(configs, connections))
    monkeypatch.setattr(ChosenCluster, "connection", lambda target: config.Connection("https://manager"))
    monkeypatch.setattr(fleet, "worker", read)
    monkeypatch.setattr(learned, "remembered", lambda *_: learned.NOTHING)


def test_a_worker_cluster_that_no_multikueueconfig_names_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_manager(monkeypatch)
    told = played(trace(tmp_path, "0,10m,main,team-a,mine,8"), "--from-cluster")
    assert ran_in(told) == {"mine": [("large", 0)]}
    assert list(told["workers"]) == ["small", "large"]


def test_a_live_cluster_is_played_with_a_stated_running_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_manager(monkeypatch)
    jobs = trace(tmp_path, "0,10m,main,team-a,mine,8")
    given = played(jobs, "--from-cluster", "--run-for", "5m")["remarks"]
    assert "assumed: each workload runs 5 min more (as asked for)" in given
    for name in ("out.svg", "out.html"):
        code, out, err = simulate(jobs, "--from-cluster", "--run-for", "5m", "--plot", tmp_path / name)
        assert code == 0, err
        assert "each workload runs 5 min more (as asked for)" in html.unescape((tmp_path / name).read_text())
        assert "assumed: each workload runs 5 min more (as asked for)" in " ".join(out.split())


def test_a_live_manager_whose_gate_multikueue_is_off_is_simulated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_manager(monkeypatch)
    (tmp_path / "config.yaml").write_text("featureGates: {MultiKueue: false}\n")
    jobs = trace(tmp_path, "0,10m,main,team-a,mine,8")
    told = played(jobs, "--from-cluster", "--config", tmp_path / "config.yaml")
    assert "workers" not in told
    code, _, err = simulate(MANAGER, jobs, *BOTH, "--config", tmp_path / "config.yaml")
    assert code == 1
    assert "--worker: the feature gate MultiKueue is off in the Configuration" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (KUBECONFIG.replace("current-context: x", ""), "--worker small: no cluster: "),
        (KUBECONFIG.replace("server:", "certificate-authority: nothing.crt, server:"), "--worker small: no cluster: "),
        (KUBECONFIG, "--worker small: The connection to the server 127.0.0.1:1 was refused"),
    ],
    ids=["no current context", "no CA file", "does not answer"],
)
def test_a_kubeconfig_of_a_worker_that_cannot_be_used_is_a_mistake_with_its_name(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "kc.yaml").write_text(text)
    code, _, err = simulate(MANAGER, EXAMPLE / "jobs.csv", "--worker", f"small={tmp_path / 'kc.yaml'}")
    assert code == 1
    assert told in err


def test_all_mistakes_in_the_workers_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(KUBECONFIG.replace("current-context: x", ""))
    (tmp_path / "large.yaml").write_text(KUBECONFIG.replace("server:", "certificate-authority: nothing.crt, server:"))
    (tmp_path / "spare.yaml").write_text("kind: [")
    paths = {name: f"{name}={tmp_path / name}.yaml" for name in ("small", "large", "spare")}
    words = [word for each in (*paths.values(), "nothing") for word in ("--worker", each)]
    code, _, err = simulate(MANAGER, EXAMPLE / "jobs.csv", *words)
    assert code == 1
    lines = err.splitlines()
    assert len(lines) == 4
    for wanted in ("--worker nothing: write NAME=PATH", "--worker small: no cluster", "--worker large: no cluster"):
        assert len([line for line in lines if wanted in line]) == 1, (wanted, err)
    assert any("spare.yaml" in line for line in lines), err


def test_a_change_that_removes_a_worker_is_compared_with_both(tmp_path: Path) -> None:
    told = played(MANAGER, EXAMPLE / "jobs.csv", *BOTH, "--what-if", multikueue_config(tmp_path, "large"))
    before, after = told["outcomes"]
    assert (ran_in(before)["first"], ran_in(after)["first"]) == ([("small", 0)], [("large", 0)])
    assert (list(before["workers"]), list(after["workers"])) == (["small", "large"], ["large"])


def test_a_change_may_add_a_worker(tmp_path: Path) -> None:
    spare = ("--worker", f"spare={EXAMPLE / 'large.yaml'}")
    change = multikueue_config(tmp_path, "spare", "small", "large")
    told = played(MANAGER, EXAMPLE / "jobs.csv", *BOTH, *spare, "--what-if", change)
    before, after = (ran_in(each)["first"] for each in told["outcomes"])
    assert (before, after) == ([("small", 0)], [("spare", 0)])


@pytest.mark.parametrize("others", [(), ("0,10m,main,team-a,other,1",)], ids=["first line", "second line"])
def test_a_job_of_a_worker_with_the_name_of_a_job_of_the_manager_is_another_one(
    tmp_path: Path, others: tuple[str, ...]
) -> None:
    (tmp_path / "own").mkdir()
    own = trace(tmp_path / "own", *others, "0,1m,main,team-a,first,1")
    jobs = trace(tmp_path, "1s,10m,main,team-a,first,2")
    assert ran_in(played(MANAGER, jobs, *BOTH, "--worker", f"small={own}")) == {"first": [("small", 1)]}


@pytest.mark.parametrize(("annotations", "passes"), [("{}", True), ("{seiretsu.dev/ready-after: 5m}", False)])
def test_the_note_that_a_check_passes_immediately_is_only_where_it_does(
    tmp_path: Path, annotations: str, passes: bool
) -> None:
    (tmp_path / "check.yaml").write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\n"
        f"metadata: {{name: workers, annotations: {annotations}}}\n"
    )
    jobs = trace(tmp_path, "0,10m,main,team-a,mine,4")
    told = played(MANAGER, jobs, "--what-if", tmp_path / "check.yaml")["outcomes"][1]
    assert told["title"] == "with check.yaml"
    assert any("passes immediately" in remark for remark in told["remarks"]) is passes
    assert told["workloads"][0]["waited"] == (0 if passes else 300)


def test_the_page_and_the_help_say_that_a_change_is_of_the_manager_alone() -> None:
    page = (ROOT / "docs" / "simulate.md").read_text()
    assert "`--what-if` changes the objects of the manager alone" in page
    _, out, _ = simulate("--help")
    assert "manager alone" in " ".join(re.sub(r"[│\s]+", " ", out).split())


class FakeClient:
    """An API server that has one worker cluster, whose Secret is in the namespace ``queues``."""

    denied: tuple[str, ...] = ()

    def __init__(self, connection: config.Connection) -> None:
        self.connection = connection

    async def __aenter__(self) -> FakeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def get(self, resource: Resource, name: str, namespace: str) -> Raw:
        if namespace != "queues":
            raise NotFound(404, "NotFound", f"{resource.plural} {name} not found")
        return {"data": {"kubeconfig": base64.b64encode(b"{}").decode()}}


class FakeReader(Reader):
    """The same API server, as it is read without an event loop."""

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", most: int = 0
    ) -> list[Raw] | None:
        if resource.plural in FakeClient.denied:
            return None
        objects: dict[str, Raw] = {
            "leases": {"metadata": {"name": "lease", "namespace": "queues"}},
            "multikueueclusters": {
                "metadata": {"name": "small"},
                "spec": {"clusterSource": {"kubeConfig": {"location": "small", "locationType": "Secret"}}},
            },
            "multikueueconfigs": {"metadata": {"name": "workers"}, "spec": {"clusters": ["small"]}},
        }
        found = objects[resource.plural]
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **found}]


def live_workers_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *denied: str) -> Workers:
    (folder / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setattr(FakeClient, "denied", denied)
    monkeypatch.setattr(worker_clusters, "Client", FakeClient)
    monkeypatch.setattr(worker_clusters, "Reader", FakeReader)
    return workers(config.load(folder / "kubeconfig"), "kueue-system")


def test_the_kubeconfigs_are_read_in_the_namespace_of_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = live_workers_of(tmp_path, monkeypatch)
    assert str(found.connections["small"]).startswith("its kubeconfig may not be used: ")
    found = live_workers_of(tmp_path, monkeypatch, "leases")
    assert found.connections["small"] == "Secret kueue-system/small: secrets small not found"


def test_a_live_manager_whose_multikueue_objects_may_not_be_listed_is_simulated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = live_workers_of(tmp_path, monkeypatch, "multikueueconfigs", "multikueueclusters")
    live_manager(monkeypatch)
    assert found == Workers([], {}, ("multikueueconfigs", "multikueueclusters"))
    monkeypatch.setattr(fleet, "workers", lambda *_: found)
    told = played(trace(tmp_path, "0,10m,main,team-a,mine,8"), "--from-cluster")
    assert "workers" not in told
    assert "worker clusters are not read from the cluster: you may not list multikueueconfigs" in told["remarks"]


TEMPLATE = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: team-a}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
"""
CLAIMING = """
---
apiVersion: batch/v1
kind: Job
metadata: {name: claiming, namespace: team-a, labels: {kueue.x-k8s.io/queue-name: main}}
spec:
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      containers: [{name: main, image: i, resources: {requests: {cpu: "1"}}}]
"""


def test_a_job_runs_in_the_worker_that_has_its_claim_template(tmp_path: Path) -> None:
    config = tmp_path / "configuration.yaml"
    config.write_text(
        "resources: {deviceClassMappings: [{name: example.com/gpus, deviceClassNames: [gpu.example.com]}]}"
    )

    def with_gpus(name: str, more: str) -> Path:
        text = (EXAMPLE / f"{name}.yaml").read_text().replace("[cpu]", "[example.com/gpus, cpu]")
        text = re.sub(r"(resources: \[)(\{name: cpu,)", r"\1{name: example.com/gpus, nominalQuota: 4}, \2", text)
        (tmp_path / f"{name}.yaml").write_text(text + more)
        return tmp_path / f"{name}.yaml"

    manager = with_gpus("manager", TEMPLATE + CLAIMING)
    small, large = with_gpus("small", ""), with_gpus("large", TEMPLATE)
    told = played(manager, "--worker", f"small={small}", "--worker", f"large={large}", "--config", config)
    assert [place for place, _ in ran_in(told)["claiming"]] == ["large"]
    without = played(manager, "--worker", f"small={small}", "--config", config)
    assert ran_in(without)["claiming"] == []
