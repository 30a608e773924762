"""``seiretsu import`` against a small API server that stores objects, and stops answering after so many writes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from api.names import Annotation, Label
from api.objects import Raw
from cli import importing
from cli.import_writes import TRIES, Rate
from cli.main import PLUGIN, application
from core.jobs.imported import GATE
from core.jobs.kinds import BATCH_JOB, POD
from core.jobs.situation import JobSituation
from core.wire import decode
from core.wire.merge import merged
from tests.cli.api_server import Asked, Reply, kubeconfig, refusal, serving

PATH = re.compile(r"/apis?/(?:(?P<group>[^/]+)/)?(?P<version>v[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<rest>.+)")
TOKEN = {"name": "kube-api-access-x7k2p", "projected": {}}
MOUNT = {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}


def container(cpu: str = "1", **more: Any) -> Raw:
    return {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}


def pod(name: str, *, node: str = "n1", owner: Raw | None = None, cpu: str = "1", **metadata: Any) -> Raw:
    found: Raw = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", **metadata}
    if owner is not None:
        found["ownerReferences"] = [owner]
    spec = {"containers": [container(cpu, volumeMounts=[MOUNT])], "volumes": [TOKEN], "nodeName": node}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": found, "spec": spec, "status": {"phase": "Running"}}


def job(name: str, *, pods: int = 1, cpu: str = "1", **metadata: Any) -> Raw:
    found = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", **metadata}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(cpu)]}}
    spec = {"parallelism": pods, "completions": pods, "suspend": False, "template": template}
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": found, "spec": spec, "status": {"active": pods}}


def pod_of(owner: Raw, number: int, node: str) -> Raw:
    metadata = owner["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    reference |= {"name": metadata["name"], "uid": metadata["uid"]}
    return pod(f"{metadata['name']}-{number}", node=node, owner=reference)


def node(name: str, **labels: str) -> Raw:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name, "labels": labels}}


def ours(kind: str, name: str, spec: Raw, namespace: str = "") -> Raw:
    metadata = {"name": name, "uid": f"{kind}-{name}", **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": metadata, "spec": spec}


def cluster_queue(name: str, *flavors: str, cpu: int = 8, **spec: Any) -> Raw:
    quotas = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for flavor in flavors]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    return ours("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def queues() -> list[Raw]:
    return [
        ours("ResourceFlavor", "default", {}),
        ours("ResourceFlavor", "spot", {"nodeLabels": {"type": "spot"}}),
        cluster_queue("shared", "default", "spot"),
        ours("LocalQueue", "main", {"clusterQueue": "shared"}, "team-a"),
        node("n1", type="spot"),
        node("n2"),
    ]


PLURALS = {
    "pods": "Pod",
    "jobs": "Job",
    "nodes": "Node",
    "workloads": "Workload",
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "resourceflavors": "ResourceFlavor",
    "priorityclasses": "PriorityClass",
    "admissionchecks": "AdmissionCheck",
}


class Name(NamedTuple):
    kind: str
    name: str


@dataclass
class Stored:
    """The objects of one namespace and of the cluster, and what was written. After ``most`` writes each further one is
    lost on its way (the connection breaks before it, or, with ``late``, after it was made).
    """

    objects: dict[Name, Raw]
    writes: list[str] = field(default_factory=list)
    most: int | None = None
    version: int = 100

    def answer(self, asked: Asked) -> Reply:
        match = PATH.fullmatch(asked.path)
        assert match is not None, asked.path
        plural, _, rest = match["rest"].partition("/")
        name, _, part = rest.partition("/")
        kind = PLURALS.get(plural, plural)
        if asked.method == "GET" and not name:
            found = [raw for key, raw in sorted(self.objects.items()) if key.kind == kind]
            return Reply({"kind": "List", "metadata": {}, "items": copy.deepcopy(found)})
        if asked.method == "GET":
            raw = self.objects.get(Name(kind, name))
            return Reply(copy.deepcopy(raw)) if raw is not None else refusal(404, "NotFound", f"no {kind} {name}")
        if self.most is not None and len(self.writes) >= self.most:
            return refusal(401, "Unauthorized", "the account has gone")
        return self._write(asked, kind, name or asked.body["metadata"]["name"], part)

    def _write(self, asked: Asked, kind: str, name: str, part: str) -> Reply:
        key, body = Name(kind, name), dict(asked.body)
        old = self.objects.get(key)
        self.version += 1
        if asked.method == "POST":
            if old is not None:
                return refusal(409, "AlreadyExists", f"{kind} {name} exists")
            old, body = {}, {**body, "metadata": {**body["metadata"], "uid": f"uid-{name}"}}
            body.pop("status", None)
        elif old is None:
            return refusal(404, "NotFound", f"no {kind} {name}")
        elif asked.method == "DELETE":
            del self.objects[key]
            self.writes.append(f"DELETE {kind} {name}")
            return Reply({"kind": "Status"})
        else:
            guard = body["metadata"]
            for each in ("uid", "resourceVersion"):
                if each in guard and guard[each] != old["metadata"].get(each):
                    return refusal(409, "Conflict", "the object has been modified")
        made = merged(old, body)
        made["metadata"] = {**made["metadata"], "resourceVersion": str(self.version)}
        self.objects[key] = made
        self.writes.append(f"{asked.method} {kind} {name}{f'/{part}' if part else ''}")
        return Reply(copy.deepcopy(made))

    def workloads(self) -> dict[str, Raw]:
        """The Workloads by the name of their job."""
        found = (raw for key, raw in self.objects.items() if key.kind == "Workload")
        return {raw["metadata"]["ownerReferences"][0]["name"]: raw for raw in found}

    def get(self, kind: str, name: str) -> Raw:
        return self.objects[Name(kind, name)]


def stored(*objects: Raw) -> Stored:
    found = {Name(raw["kind"], raw["metadata"]["name"]): raw for raw in (*queues(), *objects)}
    return Stored(copy.deepcopy(found))


class Importer:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mapping: Any = [{"toLocalQueue": "main"}]

    def run(self, there: Stored, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of an import."""
        file = self.directory / "mapping.json"
        file.write_text(json.dumps(self.mapping))
        with serving(there.answer) as (url, _):
            config = kubeconfig(self.directory / "config", url)
            arguments = ["import", "-n", "team-a", "--kubeconfig", str(config), "--queuemapping-file", str(file)]
            arguments += ["--qps", "100000", *words]
            done = CliRunner().invoke(application(arguments, PLUGIN), arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def __call__(self, there: Stored, *words: str) -> str:
        """The output of an import that succeeds."""
        code, out, errors = self.run(there, *words)
        assert code == 0, (out, errors)
        return out


@pytest.fixture
def importer(tmp_path: Path) -> Iterator[Importer]:
    yield Importer(tmp_path)


def test_nothing_is_written_unless_asked_for(importer: Importer) -> None:
    there = stored(pod("one"), job("two"))
    out = importer(there)
    assert there.writes == []
    assert re.search(r"^team-a +Pod +one +main +shared +spot +create its Workload$", out, re.M), out
    assert "ClusterQueue shared uses 1 cpu of flavor spot after it, 0 before; its nominal quota is 8" in out
    assert out.endswith("Nothing was written: --dry-run=false imports\n")


@pytest.mark.parametrize("option", ["--apply", "--dry-run=false"])
def test_a_pod_gets_an_admitted_workload_and_then_its_labels(importer: Importer, option: str) -> None:
    there = stored(pod("one", labels={"app": "x"}))
    importer(there, option)
    workload = there.workloads()["one"]
    name = workload["metadata"]["name"]
    assert there.writes == [f"POST Workload {name}", f"PATCH Workload {name}/status", "PATCH Pod one"]
    conditions = {each["type"]: (each["status"], each["reason"]) for each in workload["status"]["conditions"]}
    assert conditions == {"QuotaReserved": ("True", "Imported"), "Admitted": ("True", "Imported")}
    assert workload["status"]["admission"] == {
        "clusterQueue": "shared",
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}, "count": 1}],
    }
    assert workload["spec"]["queueName"] == "main"
    labels = there.get("Pod", "one")["metadata"]["labels"]
    assert labels == {"app": "x", Label.MANAGED: "true", Label.QUEUE_NAME: "main"}


def test_the_workload_stays_out_of_its_queue_until_it_has_quota(importer: Importer) -> None:
    there = stored(job("two"))
    there.most = 1
    importer.run(there, "--apply")
    assert there.workloads()["two"]["metadata"]["annotations"] == {Annotation.ADMISSION_GATED_BY: GATE}


def test_a_job_is_counted_with_all_its_pods_in_the_flavor_of_their_nodes(importer: Importer) -> None:
    made = job("two", pods=3, cpu="2")
    there = stored(made, *(pod_of(made, number, "n1") for number in range(3)))
    importer(there, "--apply")
    assert there.workloads().keys() == {"two"}
    (assigned,) = there.workloads()["two"]["status"]["admission"]["podSetAssignments"]
    assert assigned == {"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "6"}, "count": 3}
    after = there.get("Job", "two")
    assert after["spec"] == made["spec"]
    assert after["metadata"]["labels"] == {Label.QUEUE_NAME: "main"}


def test_the_controller_takes_the_workload_for_that_of_the_job_as_it_runs(importer: Importer) -> None:
    there = stored(pod("one"), job("two"))
    importer(there, "--apply")
    for kind, name in ((POD, "one"), (BATCH_JOB, "two")):
        raw = there.get(kind.kind, name)
        lean = kind.lean(raw, lambda found, /, **own: {**found, **own})
        workload = there.workloads()[name]
        value = decode.workload(workload, decode.WorkloadContext())
        assert JobSituation(kind, lean, 0.0, (workload,), {value.key: value}).match is workload


def test_a_second_import_changes_nothing(importer: Importer) -> None:
    there = stored(pod("one"), job("two"))
    importer(there, "--apply")
    before = copy.deepcopy(there.objects)
    there.writes.clear()
    out = importer(there, "--apply")
    assert there.writes == []
    assert there.objects == before
    assert "Nothing is to be imported" in out
    assert re.search(r"^Left alone: it is queued already, with Workload pod-one-\w+ \(Pod team-a/one\)$", out, re.M)


def settled(objects: dict[Name, Raw]) -> dict[Name, Raw]:
    """The objects without what differs by the moment and number of writes."""
    found = copy.deepcopy(objects)
    for raw in found.values():
        raw["metadata"].pop("resourceVersion", None)
        for condition in (raw.get("status") or {}).get("conditions") or ():
            condition.pop("lastTransitionTime", None)
    return found


def test_an_import_that_ends_after_any_write_is_completed_by_the_next_one(importer: Importer) -> None:
    objects = pod("one"), job("two")
    whole = stored(*objects)
    importer(whole, "--apply")
    assert len(whole.writes) == 6
    for most in range(len(whole.writes)):
        there = stored(*objects)
        there.most = most
        code, _, errors = importer.run(there, "--apply")
        assert (code, len(there.writes)) == (3, most), errors
        there.most = None
        importer(there, "--apply")
        assert settled(there.objects) == settled(whole.objects)
        assert len(there.writes) == len(whole.writes), "no write is made twice"


def test_a_workload_whose_job_has_ended_before_it_was_imported_is_deleted(importer: Importer) -> None:
    there = stored(pod("one"))
    there.most = 1
    importer.run(there, "--apply")
    there.most = None
    del there.objects[Name("Pod", "one")]
    out = importer(there, "--apply")
    assert there.workloads() == {}
    assert "1 Workloads of an earlier import, whose jobs have ended, are deleted" in out


def test_one_that_has_quota_is_finished_by_the_controller(importer: Importer) -> None:
    there = stored(pod("one"))
    there.most = 2
    importer.run(there, "--apply")
    there.most = None
    del there.objects[Name("Pod", "one")]
    importer(there, "--apply")
    assert there.workloads().keys() == {"one"}


def test_the_gate_of_a_queued_job_is_no_reason_to_delete_its_workload(importer: Importer) -> None:
    """Its owner writes the gate, on a job of a kind that is not imported."""
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "c", "uid": "u", "controller": True}
    waits = ours("Workload", "raycluster-c-1", {"queueName": "main", "podSets": []}, "team-a")
    waits["metadata"] |= {"annotations": {Annotation.ADMISSION_GATED_BY: GATE}, "ownerReferences": [owner]}
    there = stored(waits)
    importer(there, "--apply")
    assert there.writes == []


def test_a_gate_of_the_job_is_not_written_twice(importer: Importer) -> None:
    there = stored(job("j", annotations={Annotation.ADMISSION_GATED_BY: f"a.b/c,{GATE}"}))
    there.most = 1
    importer.run(there, "--apply")
    assert there.workloads()["j"]["metadata"]["annotations"] == {Annotation.ADMISSION_GATED_BY: f"a.b/c,{GATE}"}


@pytest.mark.parametrize("most", [1, 2])
def test_a_job_that_was_scaled_after_an_import_was_interrupted_gets_a_workload_of_its_size(
    importer: Importer, most: int
) -> None:
    there = stored(job("j", pods=2))
    there.most = most
    importer.run(there, "--apply")
    there.most = None
    there.writes.clear()
    there.get("Job", "j")["spec"] |= {"parallelism": 3, "completions": 3}
    out = importer(there, "--apply")
    name = there.workloads()["j"]["metadata"]["name"]
    before, now = [f"PATCH Workload {name}", f"DELETE Workload {name}"], [f"POST Workload {name}"]
    assert there.writes == [*before, *now, f"PATCH Workload {name}/status", "PATCH Job j"]
    assert there.workloads()["j"]["spec"]["podSets"][0]["count"] == 3
    assert "create its Workload" in out
    assert f"ClusterQueue shared uses 3 cpu of flavor default after it, {0 if most == 1 else 2} before" in out


def test_nothing_is_written_while_one_job_cannot_be_imported(importer: Importer) -> None:
    importer.mapping = [{"match": {"labels": {"team": "a"}}, "toLocalQueue": "main"}]
    there = stored(pod("one", labels={"team": "a"}), pod("other"), pod("more"))
    code, _, errors = importer.run(there, "--apply")
    assert (code, there.writes) == (1, [])
    assert errors.splitlines() == [
        "seiretsu import: no mapping found: add a rule for its labels, or one with skip: true (Pod team-a/more, Pod"
        " team-a/other)",
        "seiretsu import: 2 cannot be imported: nothing was written",
    ]


LOCAL_QUEUE = ours("LocalQueue", "main", {"clusterQueue": "gone"}, "team-a")
CHECK = ours("AdmissionCheck", "elsewhere", {"controllerName": "kueue.x-k8s.io/multikueue"})


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([pod("p", labels={Label.QUEUE_NAME: "x"})], 'another local queue name is set "x" expecting "main"'),
        ([pod("p"), LOCAL_QUEUE], 'LocalQueue "main" names ClusterQueue "gone": there is none'),
        ([pod("p"), ours("ClusterQueue", "shared", {})], '"shared" has no resource groups: clusterqueue invalid'),
        ([pod("p"), cluster_queue("shared", "a")], '"shared" missing flavors [a]: clusterqueue invalid'),
        (
            [{**pod("p"), "spec": {"containers": [{**container(), "resources": {"requests": {"gpu": "1"}}}]}}],
            'resource "gpu" is not covered by ClusterQueue "shared"',
        ),
        (
            [{**pod("p"), "spec": {"containers": [container()], "priorityClassName": "none"}}],
            'PriorityClass "none" not found: create it, or change the job',
        ),
        (
            [pod("p", node="n2"), cluster_queue("shared", "spot")],
            "node n2 belongs to no flavor of spot (type=spot) that the pods allow",
        ),
        (
            [
                pod("p"),
                CHECK,
                cluster_queue(
                    "shared", "default", admissionChecksStrategy={"admissionChecks": [{"name": "elsewhere"}]}
                ),
            ],
            'ClusterQueue "shared" sends its jobs to other clusters, and this one runs here',
        ),
        (
            [pod("p"), cluster_queue("shared", "default", namespaceSelector={"matchLabels": {"team": "b"}})],
            'ClusterQueue "shared" is not for namespace team-a (namespaceSelector)',
        ),
        ([pod("p", labels={Label.POD_GROUP_NAME: "g"})], "it belongs to a group of pods: groups are not imported"),
    ],
)
def test_what_prevents_an_import_is_told(importer: Importer, objects: list[Raw], why: str) -> None:
    there = stored(*objects)
    code, _, errors = importer.run(there, "--apply")
    assert (code, there.writes) == (1, [])
    assert errors.splitlines()[0] == f"seiretsu import: {why} (Pod team-a/p)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("integrations: {frameworks: [batch/job]}", "the integration pod is not enabled"),
        (
            "integrations: {frameworks: [pod]}\nmanagedJobsNamespaceSelector: {matchLabels: {managed: 'yes'}}",
            "namespace team-a is not managed (managedJobsNamespaceSelector)",
        ),
        ("integrations: {frameworks: [pod]}", ""),
    ],
)
def test_what_the_controller_would_not_know_is_not_imported(importer: Importer, text: str, why: str) -> None:
    there, file = stored(pod("p")), importer.directory / "config.yaml"
    file.write_text(text)
    code, _, errors = importer.run(there, "--apply", "--config", str(file))
    assert (code, len(there.writes)) == ((1, 0) if why else (0, 3)), errors
    assert errors.startswith(f"seiretsu import: {why}" if why else "")


JOB_SET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({**job("j"), "spec": {**job("j")["spec"], "suspend": True}}, "it is suspended"),
        ({**job("j"), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}, "it has ended"),
        (job("j", ownerReferences=[JOB_SET]), "it belongs to a JobSet, a kind that is not imported"),
        (pod("p", owner=JOB_SET), "it belongs to a JobSet, a kind that is not imported"),
        ({**job("j"), "spec": {**job("j")["spec"], "managedBy": "x/y"}}, "another controller manages it"),
        (job("j", labels={Label.PREBUILT_WORKLOAD: "w"}), "it names Workload w, with which it is queued without"),
        (pod("p", annotations={"kubernetes.io/config.mirror": "x"}), "its kubelet runs it from a file"),
        ({**pod("p"), "spec": {"schedulingGates": [{"name": "g"}], "containers": [container()]}}, "it waits behind"),
    ],
)
def test_what_does_not_run_or_belongs_to_others_is_left_alone(importer: Importer, raw: Raw, why: str) -> None:
    there = stored(raw)
    importer.mapping = []
    out = importer(there, "--apply")
    assert there.writes == []
    assert f"Left alone: {why}" in out


def test_jobs_that_a_rule_skips_are_left_alone(importer: Importer) -> None:
    importer.mapping = [{"match": {"labels": {"app": "j"}}, "skip": True}, {"toLocalQueue": "main"}]
    there = stored(job("j"), job("k"))
    out = importer(there, "--apply")
    assert there.workloads().keys() == {"k"}
    assert "Left alone: the mapping skips it (Job team-a/j)" in out


def test_a_label_of_the_pods_maps_their_job(importer: Importer) -> None:
    importer.mapping = [{"match": {"labels": {"app": "j"}}, "toLocalQueue": "main"}]
    there = stored(job("j"))
    importer(there, "--apply")
    assert there.workloads().keys() == {"j"}


def test_what_a_cron_job_makes_next_has_no_queue_and_that_is_told(importer: Importer) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c", "controller": True}
    out = importer(stored(job("j", ownerReferences=[owner])))
    note = (
        "Note: CronJob nightly creates others without a queue name: set the label in its template, too (Job team-a/j)"
    )
    assert note in out


def test_usage_beyond_the_quota_is_told_and_imported(importer: Importer) -> None:
    there = stored(job("j", pods=2, cpu="5"))
    out = importer(there, "--apply")
    assert (
        "ClusterQueue shared uses 10 cpu of flavor default after it, 0 before; its nominal quota is 8: until less is"
        " used it starts no other job, and other queues may reclaim what it borrows" in out
    )
    assert there.workloads()["j"]["status"]["admission"]["clusterQueue"] == "shared"


def test_added_labels_are_on_jobs_and_workloads(importer: Importer) -> None:
    there = stored(job("j"))
    importer(there, "--apply", "--add-labels", "from=import,batch=1")
    for raw in (there.get("Job", "j"), there.workloads()["j"]):
        assert raw["metadata"]["labels"].items() >= {"from": "import", "batch": "1"}.items()


def test_a_job_that_was_changed_meanwhile_is_not_imported(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    there = stored(job("j"), job("k"))
    answer = there.answer

    def grown(asked: Asked) -> Reply:
        if asked.path.endswith("/jobs/j"):
            there.get("Job", "j")["spec"] |= {"parallelism": 5, "completions": 5}
        return answer(asked)

    monkeypatch.setattr(there, "answer", grown)
    code, _, errors = importer.run(there, "--apply")
    assert (code, [*there.workloads()]) == (1, ["k"])
    assert errors == "seiretsu import: Job team-a/j was changed meanwhile: import again (Job team-a/j)\n"


def test_a_queue_name_that_admission_refuses_for_a_moment_is_set_again(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = stored(job("j"))
    answer = there.answer
    refused: list[Asked] = []

    def lags(asked: Asked) -> Reply:
        if asked.method == "PATCH" and asked.path.endswith("/jobs/j") and len(refused) < 2:
            refused.append(asked)
            return refusal(422, "Invalid", "field is immutable while the job runs")
        return answer(asked)

    monkeypatch.setattr(there, "answer", lags)
    importer(there, "--apply")
    assert len(refused) == 2
    assert there.get("Job", "j")["metadata"]["labels"] == {Label.QUEUE_NAME: "main"}


def test_json_has_all_of_a_plan(importer: Importer) -> None:
    there = stored(job("j"))
    found = json.loads(importer(there, "-o", "json"))
    assert (found["kind"], found["written"]) == ("Import", False)
    (one,) = found["imports"]
    assert (one["name"], one["localQueue"], one["clusterQueue"]) == ("j", "main", "shared")
    assert one["podSets"] == [{"name": "main", "count": 1, "flavors": {"cpu": "default"}}]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--queuelabel", "a"], "--queuelabel and --queuemapping are used together"),
        (["--queuelabel", "a", "--queuemapping", "b"], "--queuemapping b: KEY=VALUE"),
        ([], "name either --queuemapping-file, or --queuelabel with --queuemapping"),
        (["--dry-run", "no"], "--dry-run no: true or false"),
        (["--qps", "0"], "--qps 0: a number above 0"),
        (["--add-labels", "a b=c"], "--add-labels a b=c: "),
    ],
)
def test_wrong_options_are_told(words: list[str], why: str) -> None:
    done = CliRunner().invoke(application(["import"], PLUGIN), ["import", "-n", "a", *words])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"seiretsu import: {why}")


def test_requests_keep_their_distance() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    rate = Rate(4.0, lambda: now[0], sleep)
    for _ in range(5):
        rate.turn()
    assert slept == [0.25] * 4
    now[0] += 10.0  # what was not used is not made up for
    rate.turn()
    rate.turn()
    assert slept == [0.25] * 5


def test_a_kind_of_which_two_jobs_were_refused_is_given_up_in_that_namespace(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = stored(*(job(f"j{number}") for number in range(5)), pod("one"))
    answer = there.answer
    tried: list[str] = []

    def denies(asked: Asked) -> Reply:
        if asked.method == "PATCH" and "/jobs/" in asked.path:
            tried.append(asked.path)
            return refusal(403, "Forbidden", "a policy of the cluster forbids this label")
        return answer(asked)

    monkeypatch.setattr(there, "answer", denies)
    monkeypatch.setattr(importing, "Rate", lambda per_second: Rate(per_second, sleep=lambda seconds: None))
    code, out, errors = importer.run(there, "--apply")
    assert (code, {*there.workloads()}) == (1, {"j0", "j1", "one"})
    assert len(tried) == 2 * TRIES
    assert "Pod team-a/one imported into ClusterQueue shared" in out
    assert errors.splitlines() == [
        "seiretsu import: Forbidden: a policy of the cluster forbids this label (Job team-a/j0, Job team-a/j1)",
        "seiretsu import: not begun, because 2 others of this kind and namespace were refused (Job team-a/j2, Job"
        " team-a/j3, Job team-a/j4)",
    ]


def test_one_job_that_is_refused_stops_no_other(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    there = stored(*(job(f"j{number}") for number in range(4)))
    answer = there.answer

    def denies(asked: Asked) -> Reply:
        if asked.method == "POST" and asked.body["metadata"]["ownerReferences"][0]["name"] in ("j0", "j2"):
            return refusal(422, "Invalid", "not this one")
        return answer(asked)

    monkeypatch.setattr(there, "answer", denies)
    code, _, errors = importer.run(there, "--apply")
    assert (code, {*there.workloads()}) == (1, {"j1", "j3"})
    assert errors == "seiretsu import: Invalid: not this one (Job team-a/j0, Job team-a/j2)\n"
