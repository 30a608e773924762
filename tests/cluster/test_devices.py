"""Devices on the real control plane: the API server has their API, kube-scheduler allocates what the slices offer, and
claims are made of templates. No driver runs: a kubelet would ask one only when the pod is on its node. With them what
else of placement needs a feature gate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from api.objects import Raw
from devcluster.controlplane import ControlPlane
from tests.cluster.test_topology import HOSTNAME, POOL, TAINT, node
from tests.cluster.world import World, job, ours
from tests.core.devices.samples import a_class, a_slice, device, exactly, template
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

SOURCE = "driver: DRIVER, deviceSelector: {cel: {expression: 'true'}}"
CONFIGURATION = f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
featureGates: {{KueueDRAIntegrationConsumableCapacity: true, TASTopologySpreading: true}}
integrations: {{labelKeysToCopy: [app]}}
resources:
  deviceClassMappings:
  - {{name: gpus, deviceClassNames: [gpu.example.com]}}
  - name: parts
    deviceClassNames: [part.example.com]
    sources: [{{counter: {{name: memory, {SOURCE.replace("DRIVER", "part.example.com")}}}}}]
  - name: shares
    deviceClassNames: [share.example.com]
    sources: [{{capacity: {{name: memory, {SOURCE.replace("DRIVER", "share.example.com")}}}}}]
"""
CLASSES = {
    "gpu.example.com": "example.com/card",
    "part.example.com": "",
    "share.example.com": "",
}
RESOURCES = ("cpu", "gpus", "parts", "shares", "example.com/card")


@pytest.fixture(scope="module")
def served(unserved: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`seiretsu serve` that maps three classes of devices."""
    directory = tmp_path_factory.mktemp("devices")
    (directory / "configuration.yaml").write_text(CONFIGURATION)
    with serving(unserved.kubeconfig, directory, "--config", str(directory / "configuration.yaml")) as process:
        process.ready()
        yield process


@pytest.fixture
def world(world: World) -> Iterator[World]:
    """A queue that covers devices; the classes; what a test offers is withdrawn at its end."""
    covered = [{"name": name, "nominalQuota": "100Gi" if name in ("parts", "shares") else "4"} for name in RESOURCES]
    groups = [{"coveredResources": [*RESOURCES], "flavors": [{"name": world.namespace, "resources": covered}]}]
    world.queue("team", 8, resourceGroups=groups)
    classes = [
        served_as("DeviceClass", a_class(name, f"device.driver == '{name}'", resource=resource))
        for name, resource in CLASSES.items()
    ]
    for each in classes:
        each["metadata"].pop("creationTimestamp")
    world.create(*classes)
    yield world
    for made in (*classes, *offered(world)):
        world.remove(made)


def served_as(kind: str, raw: Raw) -> Raw:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, **raw}


def offered(world: World) -> list[Raw]:
    """The slices of this test."""
    found = json.loads(world.plane.kubectl("get", "resourceslices", "-o", "json").stdout)["items"]
    return [each for each in found if each["metadata"]["name"].startswith(world.namespace)]


def offer(world: World, driver: str, *devices: Raw, on: str = "") -> None:
    """Devices of a driver on a node, the first unless it is named."""
    name = on or sorted(each["metadata"]["name"] for each in world.get("nodes")["items"])[0]
    made = served_as("ResourceSlice", a_slice(f"{world.namespace}-slice", *devices, driver=driver, node=name))
    consumed = [each for each in devices if each.get("consumesCounters")]
    if consumed:
        # Counters are shared in a slice of their own of the same pool.
        counters = {"name": "s", "counters": {"memory": {"value": "80Gi"}}}
        made["spec"]["pool"] = {"name": world.namespace, "generation": 1, "resourceSliceCount": 2}
        shared = json.loads(json.dumps(made))
        shared["metadata"]["name"] += "-counters"
        shared["spec"] |= {"devices": [], "sharedCounters": [counters]}
        del shared["spec"]["devices"]
        world.create(shared)
    world.create(made)


def claims(world: World, name: str, *requests: Raw) -> None:
    """A ResourceClaimTemplate."""
    made = template(name, *requests, namespace=world.namespace)
    world.create(served_as("ResourceClaimTemplate", made))


def claiming(name: str, of: str, *, pods: int = 1) -> Raw:
    """A Job whose pods have a claim of a template."""
    found = job(name, "team", cpu=1, pods=pods, seconds=3000)
    spec = found["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": of}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "device"}]
    return found


def used(world: World) -> dict[str, str]:
    """What the ClusterQueue has in use."""
    flavors: list[Any] = world.status("team").get("flavorsUsage") or [{"resources": []}]
    return {each["name"]: each["total"] for each in flavors[0]["resources"] if each["total"] != "0"}


def counts(world: World, name: str, **resources: str) -> None:
    world.until(f"{name} runs", lambda: name in world.running())
    usage = {"cpu": "1", **resources}
    world.until(f"{usage} is in use", lambda: used(world) == usage)


def warned(world: World, made: Raw) -> str:
    """What kubectl says of a Job as it is created; it is not."""
    text = json.dumps(made)
    return world.plane.kubectl("create", "-n", world.namespace, "-f", "-", "--dry-run=server", stdin=text).stderr


def test_devices_count_and_kube_scheduler_allocates_them(world: World) -> None:
    offer(world, "gpu.example.com", *[device("large")] * 2)
    claims(world, "large", exactly("gpu.example.com", 1, "device.attributes['gpu.example.com'].profile == 'large'"))
    world.create(claiming("train", "large", pods=2))
    world.until("it runs", lambda: world.running() == {"train"})
    world.until("2 devices are in use", lambda: used(world) == {"cpu": "2", "gpus": "2"})

    def allocated() -> bool:
        found = json.loads(world.plane.kubectl("get", "resourceclaims", "-n", world.namespace, "-o", "json").stdout)
        return sum("allocation" in each.get("status", {}) for each in found["items"]) == 2

    world.until("kube-scheduler has allocated both", allocated)


def test_a_job_waits_for_its_template_and_kubectl_says_so(world: World) -> None:
    made = claiming("early", "late")
    assert (
        'Warning: ResourceClaimTemplate "late" does not exist: nothing starts; create it in this namespace'
        in warned(world, made)
    )
    world.create(made)
    missing = (
        "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for"
        ' ResourceClaimTemplate late in podset main: resourceclaimtemplates.resource.k8s.io "late" not found'
    )
    expected = ("False", "Misconfigured", missing)
    world.until("it waits for the template", lambda: world.condition("early", "QuotaReserved") == expected)
    assert world.condition("early", "Requeued") == ("False", "Inadmissible", missing)
    assert "create it in this namespace" in world.explain("job/early")
    claims(world, "late", exactly("gpu.example.com", 3))
    counts(world, "early", gpus="3")
    assert world.condition("early", "Requeued") == ("", "", "")


def test_a_job_waits_for_devices_that_its_selector_matches(world: World) -> None:
    claims(world, "one", exactly("gpu.example.com", 1, "true"))
    world.create(claiming("choosy", "one"))
    world.until("it waits", lambda: "0 device(s) match" in world.condition("choosy", "QuotaReserved")[2])
    offer(world, "gpu.example.com", device())
    counts(world, "choosy", gpus="1")


def test_partitions_count_by_what_they_consume(world: World) -> None:
    offer(world, "part.example.com", device("a", "10Gi"), device("b", "40Gi"))
    small = "device.attributes['part.example.com'].profile == 'a'"
    claims(world, "small", exactly("part.example.com", 1, small))
    world.create(claiming("part", "small"))
    counts(world, "part", parts="10Gi")


def test_shares_count_by_what_they_ask_for(world: World) -> None:
    policy = {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]}
    shared = device(capacity={"memory": {"value": "80Gi", "requestPolicy": policy}}) | {
        "allowMultipleAllocations": True
    }
    offer(world, "share.example.com", shared)
    claims(world, "some", exactly("share.example.com", capacity={"requests": {"memory": "15Gi"}}))
    world.create(claiming("share", "some"))
    counts(world, "share", shares="20Gi")


@pytest.mark.parametrize("resource", ["example.com/card", "deviceclass.resource.kubernetes.io/gpu.example.com"])
def test_an_extended_resource_counts_as_its_class(world: World, resource: str) -> None:
    made = job("card", "team", cpu=1, pods=1, seconds=3000)
    amounts = made["spec"]["template"]["spec"]["containers"][0]["resources"]
    amounts["requests"][resource] = "2"
    amounts["limits"] = {resource: "2"}
    world.create(made)
    counts(world, "card", gpus="2")


@pytest.fixture
def hosts(world: World) -> Iterator[tuple[str, str]]:
    """Two nodes whose hostname is the level of a topology, and queue "hosts" for them."""
    names = (f"{world.namespace}-a", f"{world.namespace}-b")
    nodes = [node(name, world.namespace, "a") for name in names]
    flavor = {
        "nodeLabels": {POOL: world.namespace},
        "topologyName": world.namespace,
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
    }
    placing = f"{world.namespace}-hosts"
    world.create(*nodes, ours("Topology", world.namespace, {"levels": [{"nodeLabel": HOSTNAME}]}))
    world.create(ours("ResourceFlavor", placing, flavor))
    amounts = [{"name": name, "nominalQuota": 8} for name in ("cpu", "gpus")]
    group = {"coveredResources": ["cpu", "gpus"], "flavors": [{"name": placing, "resources": amounts}]}
    world.queue("hosts", 8, resourceGroups=[group])
    yield names
    for each in nodes:
        world.remove(each)


def test_pods_with_a_topology_run_where_their_devices_are_free(world: World, hosts: tuple[str, str]) -> None:
    offer(world, "gpu.example.com", device(), device(), on=hosts[1])
    claims(world, "two", exactly("gpu.example.com", 2))
    for name in ("first", "second"):
        made = claiming(name, "two")
        made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "hosts"
        marks = made["spec"]["template"]["metadata"]["annotations"]
        marks["kueue.x-k8s.io/podset-required-topology"] = HOSTNAME
        world.create(made)

    def nodes() -> list[str]:
        return [each["spec"]["nodeName"] for each in world.get("pods")["items"] if each["spec"].get("nodeName")]

    world.until("kube-scheduler has put a pod where its devices are", lambda: nodes() == [hosts[1]])
    (waiting,) = {"first", "second"} - world.running()

    def lacks() -> bool:
        return 'excluded: resource "gpus": 2' in world.condition(waiting, "QuotaReserved")[2]

    world.until("the other one waits for devices, although there is quota", lacks)
    assert 'resource "gpus"' in world.explain(f"job/{waiting}")


SPREADING = "kueue.x-k8s.io/podset-topology-spreading"


def replica(name: str, share: str) -> Raw:
    """A Job of one pod that is spread over hosts beside those with the same label."""
    made = job(name, "hosts", cpu=1, pods=1, seconds=3000, labels={"app": "web"})
    rule = {"topologyKey": HOSTNAME, "maxShareAllowingPlacement": share}
    selector = {"key": "app", "operator": "In", "values": ["web"]}
    marks = made["spec"]["template"]["metadata"]["annotations"]
    marks["kueue.x-k8s.io/podset-required-topology"] = HOSTNAME
    marks[SPREADING] = json.dumps({"workloadLabelSelectors": [selector], "rules": [rule]})
    return made


def test_replicas_of_a_service_run_on_different_hosts(world: World, hosts: tuple[str, str]) -> None:
    path = f"spec.template.metadata.annotations[{SPREADING}].rules[0].maxShareAllowingPlacement"
    assert f'{path}: Invalid value: "1": must be greater than 0 and less than 1' in warned(world, replica("r", "1"))
    for name in ("first", "second"):
        world.create(replica(name, "0.4"))
        world.until(f"{name} runs", partial(lambda each: each in world.running(), name))
    world.create(replica("third", "0.4"))

    def nodes() -> list[str]:
        return sorted(each["spec"]["nodeName"] for each in world.get("pods")["items"] if each["spec"].get("nodeName"))

    world.until("each has a host of its own", lambda: nodes() == list(hosts))
    excluded = f"topology spreading excludes all topology domains at level: {HOSTNAME}"
    world.until("the third one waits", lambda: excluded in world.condition("third", "QuotaReserved")[2])
