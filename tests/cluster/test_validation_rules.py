"""Every validation rule on the real API server: the message that users read.

The requests are those of kubectl, and a refusal is composed as kubectl prints it; one test compares that with real
kubectl, which for every rule would cost a minute of CPU. The app here is a follower without the lease, so only the test
writes the objects.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

import pytest

from api.names import Label
from api.objects import Raw
from app.identity import AS_CONTROLLER
from devcluster.controlplane import ControlPlane, Spec
from tests.api.objects import condition, pod_set, workload
from tests.api.server import BY_KIND, CUT_SHORT, Server
from tests.api.test_agreement import rules_of
from tests.cluster.follower import follower
from tests.cluster.printed import refusal
from tests.cluster.rules import Rule, checks, flavors, queues, workloads
from tests.webhook.test_job_validation import CHANGED, CREATED

pytestmark = pytest.mark.cluster


RULES: dict[str, Rule] = {
    f"{of}: {name}": rule
    for of, table in {
        "ClusterQueue": queues.CLUSTER_QUEUES,
        "Cohort": queues.COHORTS,
        "LocalQueue": queues.LOCAL_QUEUES,
        "ResourceFlavor": flavors.FLAVORS,
        "Topology": flavors.TOPOLOGIES,
        "checks and classes": checks.CHECKS,
        "Workload": workloads.ASKED | workloads.CHANGED | workloads.GIVEN,
    }.items()
    for name, rule in table.items()
}
GATES = "featureGates: {ConcurrentAdmission: true, PriorityBoost: true}\n"
"""Off in Kueue as it ships; their rules hold where they are on."""

JOBS = "/apis/batch/v1/namespaces/default/jobs"
NAMES = (f"x{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A control plane for this module alone, with Seiretsu's webhooks and no reconciling controller."""
    directory = tmp_path_factory.mktemp("serve")
    with ControlPlane.start(spec=Spec(nodes=())) as plane, follower(plane, directory, GATES) as process:
        process.ready()
        made = Server(plane)
        yield made
        made.close()


def stored(server: Server, obj: Raw, path: str = "") -> Raw:
    """The object on the API server, with its status and a unique name."""
    named = {**obj, "metadata": {**obj["metadata"], "name": next(NAMES)}}
    status, found = server.ask("POST", path or server.path(named), named)
    assert status == 201, found
    if "status" in obj:
        status, found = server.put(found, {**found, "status": obj["status"]}, "/status")
        assert status == 200, found
    return found


DRY = "dryRun=All&fieldValidation=Strict"


def asked(server: Server, rule: Rule) -> Raw:
    """The object that a rule is about; if it is changed, with the name and version of the old one, which is stored."""
    if rule.old is None:
        return rule.new
    old = stored(server, rule.old)
    kept = {key: old["metadata"][key] for key in ("name", "namespace", "resourceVersion") if key in old["metadata"]}
    return {**rule.new, "metadata": {**rule.new["metadata"], **kept}}


def refused(server: Server, rule: Rule, obj: Raw) -> str:
    """What kubectl prints of the refusal."""
    subresource = "/status" if rule.status else ""
    path = server.path(obj) if rule.old is None else f"{server.path(obj, named=True)}{subresource}"
    status, answer = server.ask("POST" if rule.old is None else "PUT", f"{path}?{DRY}", obj)
    assert status >= 400, answer
    return refusal(answer, "creating" if rule.old is None else "replacing")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_refusal_names_the_rule_that_is_violated(server: Server, rule: Rule) -> None:
    obj = asked(server, rule)
    said = refused(server, rule, obj)
    if rule.by:
        doing = "creating" if rule.old is None else "replacing"
        denied = f'admission webhook "{rule.by}" denied the request'
        assert said == f'Error from server (Forbidden): error when {doing} "STDIN": {denied}: {rule.said}'
    else:
        head = f'The {rule.new["kind"]} "{obj["metadata"]["name"]}" is invalid: '
        assert said.startswith(head)
        assert each_of(said.removeprefix(head)) == each_of(rule.said)


def forms() -> dict[str, Rule]:
    """One rule of each form: who refuses, how many errors, whether an object or its status is created or changed."""
    found: dict[tuple[bool, bool, bool, bool], tuple[str, Rule]] = {}
    for name, rule in RULES.items():
        form = (bool(rule.by), "\n* " in rule.said, rule.old is None, rule.status)
        found.setdefault(form, (name, rule))
    return dict(found.values())


@pytest.mark.parametrize("rule", forms().values(), ids=forms().keys())
def test_kubectl_prints_a_refusal_as_it_is_composed_here(server: Server, rule: Rule) -> None:
    obj = asked(server, rule)
    verb = "create" if rule.old is None else "replace"
    arguments = ["--subresource=status"] if rule.status else []
    done = server.plane.kubectl(verb, "-f", "-", "--dry-run=server", *arguments, stdin=json.dumps(obj))
    assert done.returncode == 1, done.stdout
    lines = done.stderr.removesuffix("\n").splitlines()
    assert "\n".join(line for line in lines if not line.startswith("Warning: ")) == refused(server, rule, obj)


def test_a_client_that_writes_a_workload_back_in_another_form_changes_nothing(server: Server) -> None:
    """Go clients do: quantities made canonical, nulls and empty objects where nothing was."""
    found = stored(server, workloads.HELD)
    status, found = server.ask("GET", server.path(found, named=True))
    assert status == 200
    (pod_set,) = found["spec"]["podSets"]
    pod_set["template"]["metadata"] = {"creationTimestamp": None}
    (container,) = pod_set["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1"}}
    container["resources"]["requests"]["cpu"] = "1000m"
    (assignment,) = found["status"]["admission"]["podSetAssignments"]
    assert assignment["resourceUsage"] == {"cpu": "2"}
    assignment["resourceUsage"]["cpu"] = "2000m"
    found["spec"]["active"] = False
    status, found = server.put(found, found)
    assert (status, found.get("spec", {}).get("active")) == (200, False), found
    status, found = server.put(found, found, "/status")
    assert status == 200, found
    container["image"] = "another"
    status, answer = server.put(found, {**found, "spec": {**found["spec"], "podSets": [pod_set]}})
    assert (status, "field is immutable" in answer["message"]) == (403, True), answer


def calls(server: Server) -> int:
    """How often the API server has called the webhook of Workloads."""
    text = server.plane.kubectl("get", "--raw", "/metrics", check=True).stdout
    counted = re.findall(r'^apiserver_admission_webhook_request_total\{.*name="vworkload.kb.io".*\} (\d+)$', text, re.M)
    return sum(map(int, counted))


def large() -> Raw:
    """An admitted Workload of the most pod sets and conditions, of more than half a megabyte."""
    environment = [{"name": f"V{number}", "value": "x" * 100} for number in range(250)]
    pod_sets = [pod_set(f"p{number}") for number in range(18)]
    for made in pod_sets:
        made["template"]["spec"]["containers"][0]["env"] = environment
    assignments = [{"name": made["name"], "count": 2, "resourceUsage": {"cpu": "2"}} for made in pod_sets]
    conditions = [condition("QuotaReserved"), *(condition(f"C{number}") for number in range(14))]
    admission = {"clusterQueue": "c", "podSetAssignments": assignments}
    return workload(*pod_sets, status={"admission": admission, "conditions": conditions})


@pytest.mark.parametrize("made", [workloads.HELD, large()], ids=["small", "large"])
def test_writes_that_no_rule_looks_at_call_no_webhook(server: Server, made: Raw) -> None:
    """Else each Workload of other clients would cost the API server two or three calls instead of one."""
    found = stored(server, made)
    before = calls(server)
    status, found = server.put(found, {**found, "metadata": {**found["metadata"], "labels": {"a": "b"}}})
    assert status == 200, found
    body = {key: found[key] for key in ("apiVersion", "kind")} | {"status": {"conditions": [condition("Finished")]}}
    apply = {"Content-Type": "application/apply-patch+yaml"}
    path = f"{server.path(found, named=True)}/status?fieldManager=tests&force=true"
    status, found = server.ask("PATCH", path, body, headers=apply)
    assert status == 200, found
    released = [
        condition("QuotaReserved", "False") if one["type"] == "QuotaReserved" else one
        for one in found["status"]["conditions"]
    ]
    status, found = server.put(found, {**found, "status": {"conditions": released}}, "/status")
    assert status == 200, found
    assert calls(server) == before
    reserved = {**found["status"], "conditions": made["status"]["conditions"]}
    status, answer = server.put(found, {**found, "status": reserved}, "/status")
    assert (status, "status.admission: Required value" in answer["message"]) == (403, True), answer
    assert calls(server) == before + 1


def each_of(said: str) -> list[str]:
    """The errors, without the remark that CEL looks only at what has the right form."""
    return [error for error in said.split("\n* ") if error and CUT_SHORT not in error]


def test_the_table_has_every_rule_of_the_crds() -> None:
    said = "\n".join(rule.said for rule in RULES.values())
    missing = [(kind, text) for kind in BY_KIND for text in rules_of(kind) if text not in said]
    assert missing == []


VJOB = 'admission webhook "vjob.kb.io" denied the request: '


def said_of_job(answer: Raw) -> str:
    """The message of Seiretsu's refusal; '' if there is none."""
    return str(answer.get("message", "")).partition(VJOB)[2].strip()


def complete(raw: Raw, *, queue: str) -> Raw:
    """The Job of a table case, with all that Kubernetes wants of one."""
    labels = {**({Label.QUEUE_NAME: queue} if queue else {}), **(raw["metadata"].get("labels") or {})}
    pod = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
    metadata = {**raw["metadata"], "name": "case", "namespace": "default", "labels": labels}
    return {**raw, "metadata": metadata, "spec": {**raw["spec"], "template": {**raw["spec"]["template"], "spec": pod}}}


def whenever(job: Raw) -> Raw:
    """The Job without the version it is a change of: kube-controller-manager writes its status meanwhile."""
    return {**job, "metadata": {key: value for key, value in job["metadata"].items() if key != "resourceVersion"}}


def names_queue(raw: Raw) -> bool:
    return any(Label.QUEUE_NAME in (raw["metadata"].get(holder) or {}) for holder in ("labels", "annotations"))


@pytest.mark.parametrize(("new", "message"), CREATED)
def test_a_refused_new_job_names_the_rule_that_is_violated(server: Server, new: Raw, message: str) -> None:
    job = complete(new, queue="" if names_queue(new) else "main")
    _, answer = server.ask("POST", f"{JOBS}?{DRY}", job)
    assert said_of_job(answer) == message, answer


@pytest.mark.parametrize(("old", "new", "message"), CHANGED)
def test_a_refused_change_of_a_job_names_the_rule_that_is_violated(
    server: Server, old: Raw, new: Raw, message: str
) -> None:
    queue = "" if names_queue(old) or names_queue(new) else "main"
    before, after = complete(old, queue=queue), complete(new, queue=queue)
    found = stored(server, before, JOBS)
    if not old["spec"].get("suspend"):  # our webhook has suspended it; only what admits it starts it
        started = {**whenever(found), "spec": {**found["spec"], "suspend": False}}
        path = f"{JOBS}/{found['metadata']['name']}"
        status, found = server.ask("PUT", path, started, headers=AS_CONTROLLER)
        assert status == 200, found
    metadata = {**found["metadata"], **{key: after["metadata"].get(key, {}) for key in ("labels", "annotations")}}
    fields = {key: after["spec"][key] for key in ("suspend", "parallelism") if key in after["spec"]}
    change = {**found, "metadata": whenever({"metadata": metadata})["metadata"], "spec": {**found["spec"], **fields}}
    _, answer = server.ask("PUT", f"{JOBS}/{found['metadata']['name']}?{DRY}", change)
    assert said_of_job(answer) == message, answer
