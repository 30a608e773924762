"""Queues and Jobs of one test on the real control plane, made and asked about with real kubectl."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from devcluster.controlplane import ControlPlane

Raw = dict[str, Any]
Answer = TypeVar("Answer")

PATIENCE = 60.0
"""Seconds until a test gives up; a busy machine needs a few of them, an idle one a fraction of one."""


class World:
    """A namespace, with a flavor and ClusterQueues that carry its name, so that tests do not meet."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def create(self, *objects: Raw) -> None:
        """Create objects, in order."""
        for made in objects:
            text = json.dumps(made)
            self.plane.kubectl("create", "--namespace", self.namespace, "-f", "-", stdin=text, check=True, timeout=300)

    def flavor(self, **labels: str) -> None:
        """The flavor, which has the namespace's name."""
        self.create(ours("ResourceFlavor", self.namespace, {"nodeLabels": labels}))

    def queue(self, name: str, cpu: int, *, cohort: bool = False, **spec: Any) -> None:
        """A ClusterQueue of so many cpu, and a LocalQueue of its name."""
        covered = {"name": self.namespace, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        fields = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [covered]}],
            **({"cohortName": self.namespace} if cohort else {}),
            **spec,
        }
        self.create(ours("ClusterQueue", self.full(name), fields), local_queue(name, self.full(name)))

    def job(self, name: str, queue: str, *, cpu: int = 1, pods: int = 1, seconds: float = 1.0, **metadata: Any) -> None:
        """A Job whose pods run for so many seconds."""
        self.create(job(name, queue, cpu=cpu, pods=pods, seconds=seconds, **metadata))

    def full(self, name: str) -> str:
        """The name of a ClusterQueue."""
        return f"{self.namespace}-{name}"

    def get(self, kind: str, name: str = "") -> Raw:
        """An object, or all of a kind as a list."""
        found = self.plane.kubectl("get", kind, *([name] if name else []), "-n", self.namespace, "-o", "json")
        return json.loads(found.stdout) if found.returncode == 0 else {}

    def jobs(self) -> dict[str, Raw]:
        """The Jobs by name."""
        return {item["metadata"]["name"]: item for item in self.get("jobs").get("items", [])}

    def workloads(self) -> dict[str, Raw]:
        """The Workloads by the name of the Job they stand for."""
        items = self.get("workloads.kueue.x-k8s.io").get("items", [])
        return {owner["name"]: item for item in items for owner in item["metadata"].get("ownerReferences", [])}

    def running(self) -> set[str]:
        """The Jobs that are not suspended and not done."""
        return {name for name, found in self.jobs().items() if not found["spec"].get("suspend") and not done(found)}

    def status(self, name: str) -> Raw:
        """The status of a ClusterQueue."""
        found: Raw = self.get("clusterqueues.kueue.x-k8s.io", self.full(name)).get("status", {})
        return found

    def used(self, name: str) -> tuple[str, str]:
        """What a ClusterQueue says of its cpu: total and borrowed."""
        flavors = self.status(name).get("flavorsUsage") or [{"resources": [{"total": "?", "borrowed": "?"}]}]
        found = flavors[0]["resources"][0]
        return found["total"], found.get("borrowed", "0")

    def events(self, kind: str, name: str) -> set[str]:
        """The reasons of the events about an object."""
        items = self.get("events").get("items", [])
        about = (
            item for item in items if item["involvedObject"] | {"kind": kind, "name": name} == item["involvedObject"]
        )
        return {item["reason"] for item in about}

    def until(self, station: str, question: Callable[[], Answer], *, within: float = PATIENCE) -> Answer:
        """Ask until the answer is yes; fails with the name of the station and what there is then."""
        end = time.monotonic() + within
        while not (answer := question()):
            if time.monotonic() > end:
                raise AssertionError(f"stuck at the station {station!r} after {within:g} s:\n{self.picture()}")
            time.sleep(0.1)
        return answer

    def picture(self) -> str:
        """What a person would look at."""
        kinds = "jobs,workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io,pods"
        found = self.plane.kubectl("get", kinds, "-n", self.namespace, "-o", "wide")
        told = self.plane.kubectl("get", "events", "-n", self.namespace)
        return f"{found.stdout}\n{told.stdout[-3000:]}"


def ours(kind: str, name: str, spec: Raw) -> Raw:
    """An object of our group."""
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def local_queue(name: str, cluster_queue: str) -> Raw:
    """A LocalQueue."""
    return ours("LocalQueue", name, {"clusterQueue": cluster_queue})


def job(name: str, queue: str, *, cpu: int, pods: int, seconds: float, labels: Raw | None = None) -> Raw:
    """A Job of so many pods, all at once."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {
        "metadata": {"annotations": {"seiretsu.dev/run-for": f"{seconds}s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue, **(labels or {})}},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def done(found: Raw) -> bool:
    """Whether a Job is complete."""
    return holds(found, "Complete")


def holds(found: Raw, kind: str) -> bool:
    """Whether a condition of an object is True."""
    return any(c["type"] == kind and c["status"] == "True" for c in found.get("status", {}).get("conditions", []))
