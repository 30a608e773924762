"""Every manifest in ``seeds/``, applied with real kubectl as written, does what the document it is copied from says.

If no API server can accept a document's manifest, or Seiretsu must not (a shorthand that pruning would turn into
something else), the test shows kubectl's error, and that the corrected manifest does what the text says. Names are
``test_seed_<document>_<place>_...``; what the figures of seed 1 show is in ``test_documented_preemptions``.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest
import yaml

from api.objects import Raw
from devcluster.controlplane import ControlPlane
from tests.cluster.seeds import seed
from tests.cluster.world import World, done, holds
from tests.eventually import until
from tests.serving import Served

pytestmark = pytest.mark.cluster

Done = subprocess.CompletedProcess[str]
OLD = "Warning: This version is deprecated. Use v1beta2 instead."
QUEUES = (
    *("cluster-total", "ns-selector-sample", "cluster-queue", "tenant-a", "tenant-b", "queue-strict", "cohort-queue"),
    *("team-a-cq", "team-b-cq", "borrows", "borrows-last", "preempts", "preempts-last", "lends", "lends-last"),
)
FLAVORS = (
    *("default", "c2-on-demand", "c4-on-demand", "k80", "spot", "on-demand", "vendor1", "vendor2", "default-flavor"),
    *("first", "second"),
)


@pytest.fixture
def desk(cluster: ControlPlane, served: Served) -> Iterator[World]:
    """The namespace `default`, which the documents use; what a test left there is removed."""
    yield World(cluster, "default")
    kueue, administrator = "/apis/kueue.x-k8s.io/v1beta2", cluster.administrator

    def names(path: str) -> set[str]:
        status, content = administrator.request("GET", path)
        assert status == 200, content
        return {each["metadata"]["name"] for each in json.loads(content)["items"]}

    def without(path: str, *these: str) -> None:
        for name in names(path) & {*these}:
            administrator.request("DELETE", f"{path}/{name}", {"propagationPolicy": "Background"})
        until(lambda: not names(path) & {*these}, f"{path} is as before")

    # a Queue creates its LocalQueue again, a Job its Workload
    of_namespaces = ("/apis/kueue.x-k8s.io/v1alpha1", "queues"), ("/apis/batch/v1", "jobs"), (kueue, "workloads")
    for version, plural in (*of_namespaces, (kueue, "localqueues")):
        for namespace in ("default", "team-a"):
            path = f"{version}/namespaces/{namespace}/{plural}"
            without(path, *names(path))
    without(f"{kueue}/clusterqueues", *QUEUES)
    without(f"{kueue}/resourceflavors", *FLAVORS)
    without("/apis/scheduling.k8s.io/v1/priorityclasses", "high-priority")
    without(f"{kueue}/workloadpriorityclasses", "sample-priority", "low-priority")


def kubectl(desk: World, verb: str, text: str, *arguments: str) -> Done:
    """The documents' own namespaces count where the desk is `default`."""
    elsewhere = ("-n", desk.namespace) if desk.namespace != "default" else ()
    return desk.plane.kubectl(verb, *elsewhere, "-f", "-", *arguments, stdin=text)


def put(desk: World, verb: str, text: str) -> Done:
    """What kubectl does without a fault."""
    printed = kubectl(desk, verb, text)
    assert printed.returncode == 0, printed.stderr
    return printed


def told(found: Done) -> list[str]:
    """What kubectl printed on stderr, but that an old version is old, and that a job of a dry run would start."""
    printed = [line for line in found.stderr.splitlines() if line and line != OLD]
    return [line for line in printed if not line.startswith("Warning: would start now")]


def flavor(*names: str, **spec: Any) -> str:
    made = (
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor"} | {"metadata": {"name": n}} for n in names
    )
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [{**each, "spec": spec} for each in made]})


def local_queue(cluster_queue: str, name: str = "main") -> str:
    return json.dumps(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": {"name": name},
            "spec": {"clusterQueue": cluster_queue},
        }
    )


def job(name: str, queue: str = "main", *, labels: Raw | None = None, pods: int = 1, asks: Raw, **spec: Any) -> str:
    """A Job that names its queue as people do today, and runs until it is deleted."""
    scarce = {resource: amount for resource, amount in asks.items() if "/" in resource}
    container = {"name": "main", "image": "none", "resources": {"requests": asks, "limits": scarce}}
    template = {
        "metadata": {"annotations": {"seiretsu.dev/run-for": "3600s"}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue, **(labels or {})}}
    made = {"parallelism": pods, "completions": pods, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": made})


def starts(desk: World, name: str) -> None:
    desk.until(f"{name} starts", lambda: name in desk.running())


def flavor_of(desk: World, name: str, resource: str = "cpu") -> str:
    (assigned,) = desk.workloads()[name]["status"]["admission"]["podSetAssignments"]
    given: str = assigned["flavors"][resource]
    return given


def why(desk: World, name: str) -> str:
    """The reason why the Job waits, once a cycle has considered it."""

    def said() -> str:
        conditions = desk.workloads().get(name, {}).get("status", {}).get("conditions", [])
        found = (c["message"] for c in conditions if c["type"] == "QuotaReserved" and c["status"] == "False")
        return next(found, "")

    return desk.until(f"{name} is told why it waits", said)


def told_of(desk: World, name: str) -> set[str]:
    """The types of the conditions of a Job's Workload, whatever their status."""
    return {found["type"] for found in desk.workloads()[name]["status"]["conditions"]}


def used(desk: World, cluster_queue: str, resource: str, of: str) -> tuple[str, str]:
    """Total and borrowed, as `kubectl get clusterqueue` of today has them."""
    status = desk.get("clusterqueues", cluster_queue).get("status", {})
    for usage in status.get("flavorsUsage", []):
        for found in usage["resources"]:
            if (usage["name"], found["name"]) == (of, resource):
                return found["total"], found.get("borrowed", "0")
    return "?", "?"


def warned(desk: World, text: str, *expected: str) -> None:
    """A dry run prints exactly this in the end: the caches may get the applied objects a moment later."""
    last: list[list[str]] = []

    def says() -> bool:
        last[:] = [told(kubectl(desk, "create", text, "--dry-run=server"))]
        return last[0] == [f"Warning: {line}" for line in expected]

    try:
        desk.until(f"kubectl says {expected}", says)
    except AssertionError as error:
        raise AssertionError(f"{error}\nit says {last}") from None


def test_seed_0_slides_14_to_18_and_seed_3_the_demo(desk: World) -> None:
    """Set up, a Job that asks for its queue by annotation: suspended, admitted, `suspend: true` gone, three pods."""
    kinds = desk.plane.kubectl("get", "crd", "-o", "name", check=True).stdout
    for name in ("clusterqueues", "queues", "resourceflavors", "workloads"):
        assert f"{name}.kueue.x-k8s.io" in kinds
    put(desk, "apply", seed("s0-slide14-settings").text)
    desk.until("the Queue acts", lambda: desk.get("localqueues", "main"))
    created = kubectl(desk, "create", seed("s0-slide15-job").text, "-o", "json")
    assert told(created) == [
        "Warning: annotation kueue.x-k8s.io/queue-name is from v0.1: this job is queued, but use a label instead"
    ]
    name = json.loads(created.stdout)["metadata"]["name"]
    assert name.startswith("sample-job-")
    # Two more, as in the repository that the slide links: 6 of 6 cpu have to wait, and 7 never fit.
    first = seed("s0-slide15-job")
    for wider, cpu, pods in (("sample2", "2", 3), ("sample3", "3.5", 2)):
        corrections = (
            ("generateName: sample-job-", f"name: {wider}"),
            ('cpu: "1"', f'cpu: "{cpu}"'),
            (": 3", f": {pods}"),
        )
        more = kubectl(desk, "create", first.corrected(*corrections))
        never = (
            'Warning: never starts: 2 pods ask for 7 cpu, ClusterQueue "cluster-total" allows 6 in default;'
            " set parallelism to 1 or less"
        )
        assert (never in told(more)) is (wider == "sample3")
    desk.until("all are complete", lambda: [done(found) for found in desk.jobs().values()] == [True] * 2 + [False])
    shown = desk.jobs()[name]
    assert shown["spec"]["suspend"] is False
    assert (shown["spec"]["parallelism"], shown["spec"]["completions"], shown["spec"]["backoffLimit"]) == (3, 3, 6)
    assert shown["status"]["succeeded"] == 3
    assert desk.jobs()["sample2"]["status"]["startTime"] >= shown["status"]["completionTime"], "6 of 6 cpu: not at once"
    listed = desk.plane.kubectl("get", "pod", "-n", "default", "--no-headers", check=True).stdout
    assert sum(line.startswith(f"{name}-") and "Completed" in line for line in listed.splitlines()) == 3
    reported = {"CreatedWorkload", "Started", "FinishedWorkload"}
    desk.until("all of it is reported", lambda: reported <= desk.events("Job", name))
    assert not desk.jobs()["sample3"].get("status", {}).get("startTime"), "7 of 6 cpu never fit"
    get = ("get", "queues.v1alpha1.kueue.x-k8s.io", "main", "-n", "default", "--no-headers")
    shown_queue = ["main", "cluster-total", "1"]
    desk.until("the Queue counts who waits", lambda: desk.plane.kubectl(*get, check=True).stdout.split() == shown_queue)


def test_seed_0_slides_31_and_32_who_may_use_a_cluster_queue(desk: World) -> None:
    """The slide's shorthand is refused with the fix, since pruning would make it match all; when fixed, it matches."""
    sample = seed("s0-slide32-namespace-selector")
    written = kubectl(desk, "apply", sample.text)
    assert "namespace/team-a created" in written.stdout
    assert "queue.kueue.x-k8s.io/main created" in written.stdout
    assert written.stderr.endswith(
        "spec.namespaceSelector.team: Forbidden: unknown field; it would be dropped and leave a selector that matches"
        " more namespaces than meant (write matchLabels: {team: ...})\n"
    )
    assert not desk.get("clusterqueues", "ns-selector-sample")
    fixed = sample.corrected(('"team": "team-a"', 'matchLabels: {"team": "team-a"}'))
    put(desk, "apply", fixed)
    elsewhere = World(desk.plane, "team-a")
    asks: Raw = {"asks": {}}
    put(desk, "create", local_queue("ns-selector-sample"))
    warned(elsewhere, job("match", **asks), NOTHING_ASKED)
    unselected = 'ClusterQueue "ns-selector-sample" does not admit namespace "default": it needs label team=team-a'
    warned(desk, job("other", **asks), unselected, NOTHING_ASKED)
    put(elsewhere, "create", job("match", **asks))
    put(desk, "create", job("other", **asks))
    starts(elsewhere, "match")
    assert why(desk, "other") == UNSELECTED
    # nil: no namespace. {}: every namespace, and who waited starts.
    change = ("patch", "clusterqueue", "ns-selector-sample", "--type=merge", "-p")
    desk.plane.kubectl(*change, '{"spec":{"namespaceSelector":null}}', check=True)
    nobody = (
        'ClusterQueue "ns-selector-sample" admits no namespace at all: its namespaceSelector is not set ({} admits all)'
    )
    warned(elsewhere, job("another", **asks), nobody, NOTHING_ASKED)
    desk.plane.kubectl(*change, '{"spec":{"namespaceSelector":{"matchLabels":null}}}', check=True)
    starts(desk, "other")


UNSELECTED = "workload namespace doesn't match ClusterQueue selector"
NOTHING_ASKED = "no container requests anything (main): the job uses no quota; add resources.requests"


def test_seed_0_slides_34_and_35_capacity_is_resource_by_flavor(desk: World) -> None:
    """1,000 cpu in each of two flavors, 2,000 in all; a Job runs where labels match, else in the first with room."""
    slide = seed("s0-slide34-flavors")
    written = kubectl(desk, "apply", slide.text)
    for index in (0, 1):
        assert (
            f"spec.resources[0].flavors[{index}]: Invalid value: write the quota of a flavor as quota: {{min: ...,"
            " max: ...}; min and max beside the name would be lost"
        ) in written.stderr
    assert not desk.get("clusterqueues", "cluster-queue")
    put(desk, "apply", slide.corrected(("min: 1000", "quota: {min: 1000}")))
    put(desk, "create", local_queue("cluster-queue"))
    family = "cloud.provider.com/vm-family"
    warned(
        desk,
        job("x1", asks={"cpu": "1"}, nodeSelector={family: "x1"}),
        f"no flavor matches pod set main: c2-on-demand has {family}=c2, not x1; 1 more flavors",
    )
    put(desk, "create", job("any-1", asks={"cpu": "600"}))
    starts(desk, "any-1")
    put(desk, "create", job("any-2", asks={"cpu": "600"}))
    starts(desk, "any-2")
    put(desk, "create", job("only-c4", asks={"cpu": "400"}, nodeSelector={family: "c4"}))
    starts(desk, "only-c4")
    given = {name: flavor_of(desk, name) for name in ("any-1", "any-2", "only-c4")}
    assert given == {"any-1": "c2-on-demand", "any-2": "c4-on-demand", "only-c4": "c4-on-demand"}
    assert desk.jobs()["any-2"]["spec"]["template"]["spec"]["nodeSelector"] == {family: "c4"}
    put(desk, "create", job("too-many", asks={"cpu": "401"}))
    assert "insufficient unused quota for cpu in flavor c2-on-demand, 1 more needed" in why(desk, "too-many")
    put(desk, "create", job("rest", asks={"cpu": "400"}))
    starts(desk, "rest")
    view = ("get", "clusterqueues.v1alpha1.kueue.x-k8s.io", "cluster-queue", "-o", "json")

    def all_of_it() -> bool:
        status = json.loads(desk.plane.kubectl(*view, check=True).stdout)["status"]
        each = {"total": "1k", "borrowing": "0"}
        found: bool = status["usedResources"] == {"cpu": {"c2-on-demand": each, "c4-on-demand": each}}
        return found

    desk.until("2,000 cpu are in use", all_of_it)


def test_seed_0_slides_28_and_37_tenants_that_borrow(desk: World) -> None:
    """10 alone, up to 20 with what the cohort leaves; the flavor's labels and taints decide who may have it."""
    slide = seed("s0-slide37-cohort")
    written = kubectl(desk, "apply", slide.text)
    for name in ("tenantA", "tenantB"):  # no API server takes capitals in a name
        assert (
            f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of' in written.stderr
        )
    tenants = slide.corrected(("tenantA", "tenant-a"), ("tenantB", "tenant-b"))
    asks_10: Raw = {"asks": {"nvidia.com/gpus": "10"}, "tolerations": [{"key": PREEMPTIBLE, "operator": "Exists"}]}
    asks_11: Raw = {**asks_10, "asks": {"nvidia.com/gpus": "11"}}
    alone, _, other = tenants.partition("---\n")
    missing, nobody = told(kubectl(desk, "apply", alone))
    assert missing.startswith('Warning: ResourceFlavor "k80" does not exist')
    assert nobody == "Warning: namespaceSelector is not set, so no namespace is admitted; {} admits all namespaces"
    put(desk, "create", K80)
    put(desk, "create", local_queue("tenant-a"))
    select = ("patch", "clusterqueue", "tenant-a", "--type=merge", "-p", '{"spec":{"namespaceSelector":{}}}')
    desk.plane.kubectl(*select, check=True)
    owns = 'asks for 11 nvidia.com/gpus, "tenant-a" has 10, cohort "borrowing-cohort" lends none'
    warned(desk, job("a", **asks_11), f"never starts: {owns}; ask for 10 or less")
    put(desk, "apply", other)
    nodeless = f'no node has the labels of flavor "k80" ({ACCELERATOR}=nvidia-tesla-k80): its pods stay pending'
    warned(desk, job("a", **asks_11), nodeless)  # what it lacks is borrowed at once
    untolerated = (
        "no flavor matches pod set main: k80 needs a toleration of cloud.provider.com/preemptible=true:NoSchedule"
    )
    warned(desk, job("a", asks=asks_10["asks"]), untolerated)
    for name in ("a-1", "a-2"):
        put(desk, "create", job(name, **asks_10))
        starts(desk, name)
    assert desk.jobs()["a-1"]["spec"]["template"]["spec"]["nodeSelector"] == {ACCELERATOR: "nvidia-tesla-k80"}
    view = ("get", "clusterqueues.v1alpha1.kueue.x-k8s.io", "tenant-a", "-o", "json")

    def borrowing() -> bool:
        status: Raw = json.loads(desk.plane.kubectl(*view, check=True).stdout)["status"]
        expected = {"nvidia.com/gpus": {"k80": {"total": "20", "borrowing": "10"}}}
        return bool(status["usedResources"] == expected and status["admittedWorkloads"] == 2)

    desk.until("10 are borrowed", borrowing)
    never = 'never starts: asks for 21 nvidia.com/gpus, ClusterQueue "tenant-a" allows 20 in k80; ask for 20 or less'
    warned(desk, job("a", **{**asks_10, "asks": {"nvidia.com/gpus": "21"}}), never)


PREEMPTIBLE = "cloud.provider.com/preemptible"
ACCELERATOR = "cloud.provider.com/accelerator"
K80 = f"""
apiVersion: kueue.x-k8s.io/v1alpha1
kind: ResourceFlavor
metadata: {{name: k80}}
labels: {{{ACCELERATOR}: nvidia-tesla-k80}}
taints: [{{key: {PREEMPTIBLE}, value: "true", effect: NoSchedule}}]
"""


def test_seed_0_slides_39_and_40_strict_and_best_effort_order(desk: World) -> None:
    """By priority, then time; in a strict queue a head that does not fit blocks a Job that would, else not."""
    slide = seed("s0-slide40-strict")
    written = kubectl(desk, "create", slide.text)
    assert written.stdout == "priorityclass.scheduling.k8s.io/high-priority created\n"
    assert (
        "spec.resources[0].flavors[0]: Invalid value: write the quota of a flavor as quota: {min: ...,"
        in written.stderr
    )
    assert "quantities must match the regular expression" in written.stderr  # the slide's quotation mark
    quota, mark = ("min: 50", "quota: {min: 50}"), ('“2"', '"2"')
    again = kubectl(desk, "create", slide.corrected(quota, mark))
    assert 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"' in again.stderr
    desk.until("the ClusterQueue is there", lambda: desk.get("clusterqueues", "queue-strict"))
    put(desk, "create", flavor("default"))
    put(desk, "create", local_queue("queue-strict"))
    for name, cpu in (("long", "47"), ("short", "2")):
        put(desk, "create", job(name, asks={"cpu": cpu}))
        starts(desk, name)
    put(desk, "create", job("head", asks={"cpu": "2"}))
    assert why(desk, "head")
    seconds = int(time.time())
    desk.until("the next second has begun: times of creation are whole seconds", lambda: time.time() > seconds + 1)
    put(desk, "create", job("would-fit", asks={"cpu": "1"}))
    restart = ("priorityClassName: high-priority", "priorityClassName: high-priority\n      restartPolicy: Never")
    _, urgent, _ = slide.corrected(mark, restart, ("generateName: sample-job-", "name: urgent")).split("---\n")
    put(desk, "create", urgent)
    assert "1 more needed" in why(desk, "urgent"), "it is looked at before the others, having the highest priority"
    spec = desk.workloads()["urgent"]["spec"]
    assert (spec["priority"], spec["priorityClassRef"]["kind"]) == (1000000, "PriorityClass")
    assert desk.running() == {"long", "short"}
    desk.plane.kubectl("delete", "job", "short", "-n", "default", check=True)  # 3 cpu are free now
    desk.until(
        "the urgent one goes first", lambda: "urgent" in desk.jobs() and not desk.jobs()["urgent"]["spec"]["suspend"]
    )
    assert not {"head", "would-fit"} & desk.running()
    change = ("patch", "clusterqueue", "queue-strict", "--type=merge", "-p")
    desk.plane.kubectl(*change, '{"spec":{"queueingStrategy":"BestEffortFIFO"}}', check=True)
    starts(desk, "would-fit")


def test_seed_0_slide_31_and_seed_1_line_78_a_selector_by_the_name_of_the_namespace(desk: World) -> None:
    """The fragment stands for the `namespaceSelector` of the ClusterQueue above it: `default` alone may use it."""
    fragment = yaml.safe_load(seed("s1-line78-namespace-selector").text)
    cluster_queue = yaml.safe_load(seed("s1-line87-cohort").text.partition("---\n")[0])
    cluster_queue["spec"].pop("cohort")
    cluster_queue["spec"] |= fragment
    put(desk, "apply", flavor("default-flavor"))
    put(desk, "apply", json.dumps(cluster_queue))
    team_a = World(desk.plane, "team-a")
    put(desk, "apply", json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}))
    for each in (desk, team_a):
        put(each, "create", local_queue("cluster-queue"))
        put(each, "create", job("job", asks={"cpu": "100m", "memory": "1Mi"}))
    starts(desk, "job")
    assert why(team_a, "job") == UNSELECTED


def test_seed_1_line_40_flavors_in_order_and_the_sum_of_requests_below_the_quota(desk: World) -> None:
    put(desk, "apply", flavor("spot", "on-demand", "vendor1", "vendor2"))
    put(desk, "apply", seed("s1-line40-cluster-queue").text)
    put(desk, "create", local_queue("cluster-queue"))
    gives = "the ClusterQueue allows 50 in spot, 100 in on-demand"
    most = f"never starts: asks for 101 pods, {gives}; set parallelism to 100 or less"
    warned(desk, job("wide", pods=101, asks={"cpu": "10m", "memory": "1Mi"}), most)
    for name, cpu, expected in (("a", "9", "spot"), ("b", "10", "on-demand"), ("c", "8", "on-demand")):
        put(desk, "create", job(name, asks={"cpu": cpu, "memory": "1Gi"}))
        starts(desk, name)
        assert {flavor_of(desk, name, each) for each in ("cpu", "memory", "pods")} == {expected}
    put(desk, "create", job("d", asks={"cpu": "1", "memory": "1Gi"}))
    assert "insufficient unused quota for cpu in flavor spot, 1 more needed" in why(desk, "d")
    desk.until("pods count", lambda: used(desk, "cluster-queue", "pods", "on-demand") == ("2", "0"))
    assert used(desk, "cluster-queue", "cpu", "on-demand") == ("18", "0")
    # No pod can ask for a bare "gpu": that is Kubernetes' own rule. Its quota is kept all the same.
    refused = kubectl(desk, "create", job("gpu", asks={"gpu": "1"}))
    assert "must be a standard resource type or fully qualified" in refused.stderr
    for name, expected in (("g-1", "vendor1"), ("g-2", "vendor2"), ("g-3", "")):
        put(desk, "create", GPUS.replace("NAME", name))
        get = ("get", "workloads.kueue.x-k8s.io", name, "-n", "default", "-o")
        given = "jsonpath={.status.admission.podSetAssignments[0].flavors.gpu}"
        if expected:
            desk.until(f"{name} has {expected}", lambda: desk.plane.kubectl(*get, given).stdout == expected)  # noqa: B023
    message = "jsonpath={.status.conditions[?(@.type=='QuotaReserved')].message}"
    desk.until("20 gpu are all there is", lambda: "insufficient" in desk.plane.kubectl(*get, message).stdout)


GPUS = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: NAME}
spec:
  queueName: main
  podSets:
  - name: main
    count: 1
    template:
      spec: {restartPolicy: Never, containers: [{name: main, image: none, resources: {requests: {gpu: 10}}}]}
"""


def test_seed_1_line_87_two_queues_of_a_cohort_use_the_sum_of_both(desk: World) -> None:
    """200m + 3 cpu and 1Gi + 10Gi, from either side."""
    put(desk, "apply", flavor("default-flavor"))
    assert told(kubectl(desk, "apply", seed("s1-line87-cohort").text)) == []
    put(desk, "create", local_queue("cluster-queue"))
    put(desk, "create", local_queue("cohort-queue", "other"))
    for queue, cluster_queue in (("main", "cluster-queue"), ("other", "cohort-queue")):
        gives = f'ClusterQueue "{cluster_queue}" allows 3200m in default-flavor'
        never = f"never starts: asks for 3201m cpu, {gives}; ask for 3200m or less"
        warned(desk, job("never", queue, asks={"cpu": "3201m", "memory": "1Gi"}), never)
    put(desk, "create", job("all", asks={"cpu": "3200m", "memory": "11Gi"}))
    starts(desk, "all")
    desk.until("borrowed", lambda: used(desk, "cluster-queue", "cpu", "default-flavor") == ("3200m", "3"))
    assert used(desk, "cluster-queue", "memory", "default-flavor") == ("11Gi", "10Gi")
    listed = desk.plane.kubectl("get", "clusterqueue", "cluster-queue", "cohort-queue", "--no-headers", check=True)
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["cluster-queue", "same-keyword", "0"],
        ["cohort-queue", "same-keyword", "0"],
    ]


def test_seed_1_lines_134_and_151_limits_of_borrowing_and_lending(desk: World) -> None:
    """9 + 1 = 10 with borrowingLimit 1; as much without it where only 1 is lent, and 11 stay with the lender."""
    put(desk, "apply", flavor("default-flavor"))
    team_a, team_b = seed("s1-line134-borrowing-limit"), seed("s1-line151-lending-limit")
    written = kubectl(desk, "apply", team_a.text)  # covers memory, and says no quota of it: Kueue refuses it as well
    assert "flavors must have the same number of resources as the coveredResources" in written.stderr
    covered = team_a.corrected(('["cpu", "memory"]', '["cpu"]'))
    put(desk, "apply", team_b.text)
    put(desk, "apply", covered)
    put(desk, "create", local_queue("team-a-cq", "a"))
    put(desk, "create", local_queue("team-b-cq", "b"))
    most = 'ClusterQueue "team-a-cq" allows 10 in default-flavor'
    never = f'never starts: asks for 11 cpu, {most}; LocalQueue "b" could run it'
    warned(desk, job("a", "a", asks={"cpu": "11"}), never)
    put(desk, "apply", covered.replace("        borrowingLimit: 1\n", ""))
    quota = "jsonpath={.spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit}"
    assert desk.plane.kubectl("get", "clusterqueue", "team-a-cq", "-o", quota, check=True).stdout == ""
    warned(desk, job("a", "a", asks={"cpu": "11"}), never)
    put(desk, "create", job("a", "a", asks={"cpu": "10"}))
    starts(desk, "a")
    put(desk, "create", job("b-12", "b", asks={"cpu": "12"}))
    assert "insufficient unused quota for cpu in flavor default-flavor, 1 more needed" in why(desk, "b-12")
    put(desk, "create", job("b-11", "b", asks={"cpu": "11"}))
    starts(desk, "b-11")


def test_seed_1_line_317_flavor_fungibility(desk: World) -> None:
    """Reads back as written; `TryNextFlavor` tries the next flavor before it borrows, or preempts, in this one."""
    written = seed("s1-line317-fungibility")
    put(desk, "apply", written.text)
    get = ("get", "clusterqueues.v1beta1.kueue.x-k8s.io", "team-a-cq", "-o", "json")
    view = json.loads(desk.plane.kubectl(*get, check=True).stdout)
    assert view["spec"]["flavorFungibility"] == yaml.safe_load(written.text)["spec"]["flavorFungibility"]
    put(desk, "apply", flavor("first", "second"))
    preemption = {"withinClusterQueue": "LowerPriority"}
    for name, fungibility, more in (
        ("borrows", {}, {"cohort": "one"}),  # the default
        ("lends", {}, {"cohort": "one"}),
        ("borrows-last", {"whenCanBorrow": "TryNextFlavor"}, {"cohort": "two"}),
        ("lends-last", {}, {"cohort": "two"}),
        ("preempts", {"whenCanPreempt": "Preempt"}, {"preemption": preemption}),
        ("preempts-last", {}, {"preemption": preemption}),  # the default
    ):
        made = {"flavorFungibility": fungibility, **more}
        put(desk, "create", two_flavors(name, **made))
        put(desk, "create", local_queue(name, name))
    put(desk, "create", SAMPLE)
    asks: Raw = {"asks": {"cpu": "2"}}
    names = ("borrows", "borrows-last", "preempts", "preempts-last")
    for name in names:
        put(desk, "create", job(f"{name}-1", name, **asks))
        starts(desk, f"{name}-1")
        labels = {"kueue.x-k8s.io/priority-class": "sample-priority"}
        put(desk, "create", job(f"{name}-2", name, labels=labels, **asks))
        starts(desk, f"{name}-2")
    assert [flavor_of(desk, f"{name}-1") for name in names if name != "preempts"] == ["first"] * 3
    assert [flavor_of(desk, f"{name}-2") for name in names] == ["first", "second", "first", "second"]
    desk.until("who was preempted starts in the other flavor", lambda: "preempts-1" in desk.running())
    assert flavor_of(desk, "preempts-1") == "second"
    assert "Preempted" in told_of(desk, "preempts-1")
    assert "Preempted" not in told_of(desk, "preempts-last-1")


def two_flavors(name: str, **spec: Any) -> str:
    quota = {"resources": [{"name": "cpu", "nominalQuota": 2}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": each, **quota} for each in ("first", "second")]}]
    made = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    head = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": name}}
    return json.dumps({**head, "spec": made})


SAMPLE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: sample-priority}
value: 10000
description: Sample priority
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: low-priority}
value: 10
"""


def test_seed_2_a_workload_priority_class_orders_the_queue_and_leaves_the_pods_alone(desk: World) -> None:
    """The class is a label of the Job, its value the Workload's; it wins over the pods' class, and may be raised."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high-priority"}}
    for text in (
        SAMPLE,
        flavor("default"),
        seed("s0-slide14-settings").text.split("---\n")[2],
        local_queue("cluster-total"),
        json.dumps({**high, "value": 1000000}),
    ):
        put(desk, "apply", text)
    put(desk, "create", job("runs", asks={"cpu": "6"}))
    starts(desk, "runs")
    sample, low = ({"kueue.x-k8s.io/priority-class": f"{name}-priority"} for name in ("sample", "low"))
    asks: Raw = {"asks": {"cpu": "6"}}
    put(desk, "create", job("both", labels=sample, priorityClassName="high-priority", **asks))
    put(desk, "create", job("class", labels=sample, **asks))
    put(desk, "create", job("pods-class", priorityClassName="high-priority", **asks))
    put(desk, "create", job("none", **asks))
    put(desk, "create", job("low", labels=low, **asks))
    names = ("both", "class", "pods-class", "none", "low")
    desk.until("all wait", lambda: set(names) <= set(desk.workloads()))
    workloads = desk.workloads()
    found = {name: workloads[name]["spec"] for name in names}
    assert {name: spec["priority"] for name, spec in found.items()} == {
        **{"both": 10000, "class": 10000, "pods-class": 1000000, "none": 0, "low": 10}
    }
    kinds = {name: spec.get("priorityClassRef", {}).get("kind") for name, spec in found.items()}
    assert kinds["both"] == kinds["class"] == "WorkloadPriorityClass"
    assert (kinds["pods-class"], kinds["none"]) == ("PriorityClass", None)
    assert desk.jobs()["both"]["spec"]["template"]["spec"]["priorityClassName"] == "high-priority"
    raised = workloads["low"]["metadata"]["name"]
    patch = ("patch", "workload", raised, "-n", "default", "--type=merge", "-p", '{"spec":{"priority":2000000}}')
    desk.plane.kubectl(*patch, check=True)  # "it does not get its turn: raise its priority"
    order: list[str] = []
    for _ in range(3):
        running = next(iter(desk.running()))
        desk.plane.kubectl("delete", "job", running, "-n", "default", check=True)
        desk.until("the next one starts", lambda: desk.running() - {running})  # noqa: B023
        order += desk.running()
    assert order[:2] == ["low", "pods-class"]
    assert order[2] in {"both", "class"}, "of one priority, and perhaps of one second"


def test_seeds_1_and_2_other_kinds_they_name_are_let_alone_and_python_clients_queue(desk: World) -> None:
    """Of the integrations they list, batch/v1 Jobs from any client are queued; a plain Pod is not suspended."""
    put(desk, "apply", flavor("default"))
    put(desk, "apply", seed("s0-slide14-settings").text.split("---\n")[2])
    put(desk, "create", local_queue("cluster-total"))
    desk.until("the queue is ready", lambda: holds(desk.get("localqueues", "main"), "Active"))
    pod = yaml.safe_load(job("pod", asks={"cpu": "1"}))
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]["template"]["spec"]}
    only = 'label kueue.x-k8s.io/queue-name queues no Pod: it starts now; enable "pod" in integrations.frameworks'
    assert told(kubectl(desk, "create", json.dumps(plain))) == [f"Warning: {only}"]
    found = desk.get("pods", "pod")
    assert "schedulingGates" not in found["spec"]
    python: Any = kubernetes  # which is typed in parts
    client = python.config.new_client_from_config(str(desk.plane.kubeconfig))
    body = yaml.safe_load(job("python", asks={"cpu": "1"}))
    made = python.client.BatchV1Api(client).create_namespaced_job("default", body)
    assert made.spec.suspend is True
    starts(desk, "python")
    assert "pod" not in desk.workloads()
    desk.plane.kubectl("delete", "pod", "pod", "-n", "default", "--now", check=True)
