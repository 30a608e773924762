"""A manager and two workers for tests of MultiKueue: three real control planes, each with its own `seiretsu serve`."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path

from api.names import MULTIKUEUE_CONTROLLER, NAMESPACE
from api.objects import Raw
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster.world import World, condition, local_queue, of_flavor, ours
from tests.eventually import PATIENCE
from tests.serving import Service

NAMESPACES = "/api/v1/namespaces"
FRAMEWORKS = ("batch/job", "pod", "statefulset")
WATCH_SECONDS = 3600
_KINDS = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {{frameworks: [{frameworks}]}}
"""
_LOST = """
multiKueue: {{workerLostTimeout: {lost}, gcInterval: 1s, externalFrameworks: [{{name: Widget.v1.example.com}}],
             kubeConfigs: {{allowHttp: true}}}}
featureGates: {{MultiKueueKubeConfigPathValidation: false}}
"""
_GATED = """
featureGates: {MultiKueueOrchestratedPreemption: true}
"""
"""In the workers: it changes nothing for copies that have no gate."""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WIDGETS: Raw = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""A kind of another vendor."""


class Fleet:
    """``manager`` and ``workers`` are Worlds of one namespace; nothing runs in the manager, which has no nodes.

    ``services`` are the programs, the manager's first.
    """

    def __init__(
        self,
        planes: list[ControlPlane],
        services: list[Service],
        namespace: str,
        directory: Path,
        frameworks: Sequence[str],
    ) -> None:
        self.planes = planes
        self.services = services
        self.namespace = namespace
        self.directory = directory
        self.frameworks = frameworks
        self.manager, *self.workers = [World(plane, namespace) for plane in planes]

    def begin(self) -> None:
        """Creates the namespace in all clusters, and the worker clusters in the manager."""
        for plane in self.planes:
            plane.administrator.request("POST", NAMESPACES, {"metadata": {"name": self.namespace}})
        for place, worker in enumerate(self.workers, start=1):
            self.connect(f"worker{place}", worker.plane.kubeconfig.read_text())

    def give_up_after(self, lost: str) -> None:
        """Starts the manager's program again with another ``workerLostTimeout``."""
        configured(self.directory, lost, self.frameworks)
        self.services[0].kill()
        self.services[0].ready()

    def rotate(self, name: str, kubeconfig: str) -> None:
        """Writes another kubeconfig into the Secret of a MultiKueueCluster."""
        data = {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
        self.manager.merge(secret, {"data": data})

    def connect(self, name: str, kubeconfig: str) -> None:
        """Creates a MultiKueueCluster with a Secret of its name."""
        self.manager.plane.administrator.request("POST", NAMESPACES, {"metadata": {"name": NAMESPACE}})
        path = f"{NAMESPACES}/{NAMESPACE}/secrets"
        data = {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        status, answer = self.manager.plane.administrator.request("POST", path, secret)
        assert status == 201, answer
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        self.manager.create(ours("MultiKueueCluster", name, {"clusterSource": source}))

    def check(self, name: str, *workers: str) -> None:
        """An AdmissionCheck for these worker clusters."""
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
        check = {"controllerName": MULTIKUEUE_CONTROLLER, "parameters": parameters}
        self.manager.create(
            ours("MultiKueueConfig", name, {"clusters": [*workers]}), ours("AdmissionCheck", name, check)
        )

    def queue(
        self, name: str, *more: str, here: int = 8, there: tuple[int, ...] = (8, 8), flavor: Raw | None = None
    ) -> None:
        """A queue in all clusters, with so many cpu of a flavor in the manager and in each worker, and its check, which
        names ``more`` clusters, too.
        """
        full = self.manager.full(name)
        self.check(full, *more, *(f"worker{place}" for place in range(1, len(self.workers) + 1)))
        for world, cpu in zip((self.manager, *self.workers), (here, *there), strict=True):
            spec: Raw = {"namespaceSelector": {}, "resourceGroups": [of_flavor(full, cpu)]}
            if world is self.manager:
                spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": full}]}
            world.create(
                ours("ResourceFlavor", full, flavor or {}), ours("ClusterQueue", full, spec), local_queue(name, full)
            )
        for world in (self.manager, *self.workers):
            world.until(f"queue {name} is active", partial(_is_active, world, name))

    def active(self, worker: str) -> tuple[str, str, str]:
        """The condition Active of a MultiKueueCluster."""
        return condition(self.manager.get("multikueueclusters", worker), "Active")

    def is_connected(self, plane: ControlPlane) -> bool:
        """Whether the manager is connected to the worker with this control plane."""
        return self.active(plane.spec.name)[0] == "True"

    def where(self, job: str) -> list[str]:
        """The workers that have a job, by name."""
        found = (f"worker{place}" for place, world in enumerate(self.workers, start=1) if job in world.jobs())
        return list(found)


def _is_active(world: World, queue: str) -> bool:
    return world.active(queue)[0] == "True"


def configured(directory: Path, lost: str, frameworks: Sequence[str]) -> Path:
    """The Configuration of the manager, in which a worker is lost after that time."""
    path = directory / "manager.yaml"
    path.write_text(_kinds(frameworks) + _LOST.format(lost=lost))
    return path


def _kinds(frameworks: Sequence[str]) -> str:
    return _KINDS.format(frameworks=", ".join(frameworks))


@contextmanager
def fleet(
    directory: Path, *, lost: str = "15m", nodes: int = 1, frameworks: Sequence[str] = FRAMEWORKS
) -> Iterator[Fleet]:
    """Three control planes, the workers with so many nodes, and what runs on them; all end with the context."""
    with ExitStack() as stack:
        workers = (Spec(name=f"worker{place}", nodes=(NodeGroup(nodes),)) for place in (1, 2))
        specs = [Spec(name="manager", nodes=()), *workers]
        planes = [stack.enter_context(ControlPlane.start(spec=spec)) for spec in specs]
        for plane in planes:
            plane.administrator.request("POST", _DEFINITIONS, _WIDGETS)
        in_workers = directory / "worker.yaml"
        in_workers.write_text(_kinds(frameworks) + _GATED)
        settings = (configured(directory, lost, frameworks), *(in_workers for _ in planes[1:]))
        services = [
            Service(plane, directory / plane.spec.name, "--config", str(path))
            for plane, path in zip(planes, settings, strict=True)
        ]
        for service in services:
            stack.callback(service.kill)
            service.ready()
        made = Fleet(planes, services, "fleet", directory, frameworks)
        made.begin()
        yield made


@contextmanager
def pods_of(clusters: Fleet) -> Iterator[dict[str, set[str]]]:
    """The uids of the pods that each Job has had in any worker since the block began, by its name, as watches of both
    API servers report.
    """
    found: dict[str, set[str]] = {}

    def follow(world: World, since: str) -> None:
        query = f"watch=1&resourceVersion={since}&timeoutSeconds={WATCH_SECONDS}"
        with closing(world.plane.administrator.connection(timeout=WATCH_SECONDS)) as connection:
            connection.request("GET", f"/api/v1/namespaces/{world.namespace}/pods?{query}")
            started.release()
            with (
                suppress(OSError, HTTPException),
                closing(connection.getresponse()) as answer,
            ):  # it may be stopped first
                for line in answer:
                    event = json.loads(line)
                    metadata = event["object"]["metadata"]
                    if event["type"] == "ADDED":
                        found.setdefault(metadata["labels"]["job-name"], set()).add(metadata["uid"])

    started = threading.Semaphore(0)
    for world in clusters.workers:
        threading.Thread(target=follow, args=(world, world.version("pods")), daemon=True).start()
    for _ in clusters.workers:
        assert started.acquire(timeout=PATIENCE)
    yield found
