"""Queues and Jobs of one test on the real control plane: created, changed and read with plain requests.

They are the requests that kubectl sends, with its field managers; a process of kubectl would cost a tenth of a second
of CPU each time. Tests of what kubectl prints run it (``plane.kubectl``).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from api.document import loads
from api.objects import Raw
from cli.main import application
from core.wire.timestamps import epoch
from devcluster.api import message
from devcluster.controlplane import ControlPlane
from devcluster.errors import ClusterError
from tests.eventually import PATIENCE, Answer, answered

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"

GROUP = "kueue.x-k8s.io"
API = {
    "jobs": "/apis/batch/v1",
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "leaderworkersets": "/apis/leaderworkerset.x-k8s.io/v1",
    "replicasets": "/apis/apps/v1",
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "provisioningrequests": "/apis/autoscaling.x-k8s.io/v1",
    "widgets": "/apis/example.com/v1",
    "podtemplates": "/api/v1",
    "pods": "/api/v1",
    "events": "/api/v1",
    "nodes": "/api/v1",
    "namespaces": "/api/v1",
}
"""Where resources are served that are not of our group."""
OF_NO_NAMESPACE = frozenset(
    {
        *("clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses", "admissionchecks"),
        *("multikueueclusters", "multikueueconfigs", "provisioningrequestconfigs"),
        *("nodes", "namespaces"),
    }
)

LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.1, 0.4


class Write(NamedTuple):
    """A request that changes something."""

    method: str
    path: str
    body: Raw
    content: str = "application/json"


class World:
    """A namespace, with a flavor and ClusterQueues that carry its name, so that tests do not meet."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._of_thread = threading.local()
        self._served: dict[tuple[str, str], Raw] = {}

    def create(self, *objects: Raw) -> None:
        """Create objects, in order; a List is one for each of its items."""
        items = [item for each in objects for item in (each["items"] if each["kind"] == "List" else [each])]
        query = "fieldManager=kubectl-create&fieldValidation=Strict"
        self._write(*(Write("POST", f"{self._path_of(item)}?{query}", item) for item in items))

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

    def succeed(self, *names: str) -> None:
        """Let the pods that Jobs have now succeed: when these end must not depend on how busy the machine is."""
        for pod in self.get("pods").get("items", []):
            if pod["metadata"].get("labels", {}).get("job-name") in names and pod["status"].get("phase") != "Succeeded":
                self._succeeded(pod["metadata"]["name"])

    def _succeeded(self, pod: str) -> None:
        """A pod succeeds, unless it was deleted meanwhile."""
        try:
            self.patch("pods", pod, {"status": {"phase": "Succeeded"}}, subresource="status")
        except ClusterError as error:
            if ": 404: " not in str(error):
                raise

    def complete(self, *names: str) -> None:
        """Let Jobs that run succeed; returns when they are complete."""

        def completed() -> bool:
            self.succeed(*names)
            return all(done(self.jobs()[name]) for name in names)

        self.until(f"{', '.join(names)} complete", completed)

    def full(self, name: str) -> str:
        """The name of a ClusterQueue."""
        return f"{self.namespace}-{name}"

    def either(self, name: str, kind: str) -> tuple[str, str]:
        """Plural and name of the ClusterQueue or the LocalQueue that ``queue`` made."""
        return ("clusterqueues", self.full(name)) if kind == "ClusterQueue" else ("localqueues", name)

    def get(self, resource: str, name: str = "") -> Raw:
        """An object, or all of a resource (its plural) as a list; {} where there is none."""
        return self._answer(self._path(resource, name))

    def _answer(self, path: str) -> Raw:
        """What the API server answers, {} where that is no object or no answer. The connection is kept: to shake hands
        costs more than to answer.
        """
        for _ in range(2):  # the API server may have closed the connection since the last request
            connection = self._connection()
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                content = answer.read()
            except TimeoutError:
                connection.close()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                continue
            found: Raw = loads(content) if answer.status == 200 else {}
            return found
        return {}

    def _connection(self) -> http.client.HTTPSConnection:
        """The connection of this thread; it is closed when nothing refers to this World any more."""
        made: http.client.HTTPSConnection | None = getattr(self._of_thread, "connection", None)
        if made is None:
            made = self._of_thread.connection = self.plane.administrator.connection()
            weakref.finalize(self, made.close)
        return made

    def patch(self, resource: str, name: str, patch: Raw, *, subresource: str = "") -> None:
        """A merge patch of an object, or of its ``subresource``."""
        path = f"{self._path(resource, name)}{f'/{subresource}' if subresource else ''}"
        query = "fieldManager=kubectl-patch&fieldValidation=Strict"
        self._write(Write("PATCH", f"{path}?{query}", patch, "application/merge-patch+json"))

    def example(self, program: str, python: Path | str = sys.executable, **environment: str) -> str:
        """What a program of examples/python prints, in this namespace; the test fails where the program does."""
        known = os.environ | self.plane.environment() | {"NAMESPACE": self.namespace} | environment
        command = [str(python), str(EXAMPLES / program)]
        done = subprocess.run(command, capture_output=True, text=True, env=known, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def delete(self, resource: str, name: str) -> None:
        """Delete an object without waiting until it is gone."""
        self._write(Write("DELETE", self._path(resource, name), {"propagationPolicy": "Background"}))

    def read(self, found: Raw) -> Raw:
        """The object with the kind and name of this one; {} where there is none."""
        return self._answer(f"{self._path_of(found)}/{found['metadata']['name']}")

    def merge(self, found: Raw, patch: Raw) -> None:
        """A merge patch of the object with the kind and name of this one."""
        path = f"{self._path_of(found)}/{found['metadata']['name']}?fieldManager=kubectl-patch"
        self._write(Write("PATCH", path, patch, "application/merge-patch+json"))

    def remove(self, found: Raw) -> None:
        """Delete the object with the kind and name of this one without waiting until it is gone, if it is there."""
        path = f"{self._path_of(found)}/{found['metadata']['name']}"
        self._write(Write("DELETE", path, {"propagationPolicy": "Background"}))

    def _write(self, *writes: Write) -> None:
        """Send writes in order; ClusterError with the API server's message for one that is refused."""
        with contextlib.closing(self.plane.administrator.connection(timeout=PATIENCE)) as connection:
            for write in writes:
                connection.request(write.method, write.path, json.dumps(write.body), {"Content-Type": write.content})
                answer = connection.getresponse()
                content = answer.read()
                if answer.status >= 300 and (write.method, answer.status) != ("DELETE", 404):
                    raise ClusterError(f"{write.method} {write.path}: {answer.status}: {message(content)}")

    def _path(self, resource: str, name: str = "") -> str:
        """The path of an object, or of a resource, by its plural."""
        base = API.get(resource, f"/apis/{GROUP}/v1beta2")
        within = "" if resource in OF_NO_NAMESPACE else f"/namespaces/{self.namespace}"
        return f"{base}{within}/{resource}{f'/{name}' if name else ''}"

    def _path_of(self, found: Raw) -> str:
        """The path of the resource of an object, from the API server's discovery."""
        version, kind = str(found["apiVersion"]), found["kind"]
        base = f"/{'apis' if '/' in version else 'api'}/{version}"
        if (base, kind) not in self._served:
            resources = self._answer(base).get("resources", [])
            self._served |= {(base, each["kind"]): each for each in resources if "/" not in each["name"]}
        served = self._served[base, kind]
        namespace = found["metadata"].get("namespace", self.namespace)
        return f"{base}{f'/namespaces/{namespace}' if served['namespaced'] else ''}/{served['name']}"

    def version(self, resource: str) -> str:
        """The resource version of now, from which ``seen`` can tell what happened to a resource's objects."""
        return str(self.get(resource)["metadata"]["resourceVersion"])

    def seen(self, resource: str, since: str, until: Callable[[Raw], bool]) -> list[Raw]:
        """Each state of the objects of a resource after a version, as a watch tells them, to the one that was asked
        for: also what lived for one write alone.
        """
        base = API.get(resource, f"/apis/{GROUP}/v1beta2")
        path = f"{base}/namespaces/{self.namespace}/{resource}?watch=1&resourceVersion={since}"
        states: list[Raw] = []
        with contextlib.closing(self.plane.administrator.connection(timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            for line in connection.getresponse():
                states.append(json.loads(line)["object"])
                if until(states[-1]):
                    return states
        raise AssertionError(f"the watch ended after {len(states)} states, none of them the one asked for")

    def jobs(self) -> dict[str, Raw]:
        """The Jobs by name."""
        return {item["metadata"]["name"]: item for item in self.get("jobs").get("items", [])}

    def workloads(self) -> dict[str, Raw]:
        """The Workloads by the name of the Job they stand for."""
        items = self.get("workloads").get("items", [])
        return {owner["name"]: item for item in items for owner in item["metadata"].get("ownerReferences", [])}

    def workload(self, job: str) -> Raw:
        """The Workload of a Job; {} as long as it has none."""
        return self.workloads().get(job, {})

    def condition(self, job: str, kind: str) -> tuple[str, str, str]:
        """A condition of a Job's Workload: status, reason and message; empty texts where it has none."""
        return condition(self.workload(job), kind)

    def reason(self, job: str, kind: str) -> str:
        """A condition of a Job's Workload in short: ``status/reason``."""
        return "/".join(self.condition(job, kind)[:2])

    def outlive_second_of(self, job: str) -> None:
        """Wait until what is made now is younger than this Job's Workload: in one second their uids decide, by
        chance.
        """
        self.until("it has its Workload", lambda: self.workload(job))
        made = epoch(self.workload(job)["metadata"]["creationTimestamp"])
        self.until("that second is over", lambda: time.time() >= made + 1)

    def running(self) -> set[str]:
        """The Jobs that are not suspended and not done."""
        return {name for name, found in self.jobs().items() if not found["spec"].get("suspend") and not done(found)}

    def active(self, name: str) -> tuple[str, str, str]:
        """The condition Active of a ClusterQueue: status, reason and message."""
        return condition(self.get("clusterqueues", self.full(name)), "Active")

    def status(self, name: str) -> Raw:
        """The status of a ClusterQueue."""
        found: Raw = self.get("clusterqueues", self.full(name)).get("status", {})
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

    def explain(self, name: str, *options: str) -> str:
        """What ``seiretsu explain`` prints about an object."""
        words = ["explain", name, "-n", self.namespace, "--kubeconfig", str(self.plane.kubeconfig), *options]
        done = CliRunner().invoke(application(["explain"]), words)
        assert done.exit_code == 0, done.stderr or repr(done.exception)
        return done.stdout

    def until(
        self,
        station: str,
        question: Callable[[], Answer],
        *,
        within: float = PATIENCE,
        progress: Callable[[], int] | None = None,
    ) -> Answer:
        """Ask until the answer is yes; fails with the name of the station and what there is then. What the question
        looks into need not be there yet (``tests.eventually.answered``).

        The time begins again whenever ``progress``, which must have an end, returns more than ever before.
        """
        began = time.monotonic()
        farthest, ends = progress() if progress else 0, began + within
        while True:
            asked = time.monotonic()
            answer, missing = answered(question)
            if answer:
                return answer
            now = time.monotonic()
            if progress is not None and (reached := progress()) > farthest:
                farthest, ends = reached, now + within
            if now > ends:
                raise AssertionError(
                    f"stuck at the station {station!r} after {within:g} s:\n{self.picture()}"
                ) from missing
            # A question costs the API server work: it is asked less often if its answer is long, and in a long wait.
            time.sleep(max(LOOK_SECONDS, 2 * (now - asked), min(LONGEST_LOOK_SECONDS, (now - began) / 10)))

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


def condition(found: Raw, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of an object's condition; empty texts where it has none."""
    for each in found.get("status", {}).get("conditions") or []:
        if each["type"] == kind:
            return each["status"], each["reason"], each.get("message", "")
    return "", "", ""


def done(found: Raw) -> bool:
    """Whether a Job is complete."""
    return holds(found, "Complete")


def holds(found: Raw, kind: str) -> bool:
    """Whether a condition of an object is True."""
    return any(c["type"] == kind and c["status"] == "True" for c in (found.get("status", {}).get("conditions") or []))


def runs(world: World, *jobs: str) -> None:
    world.until(f"{', '.join(jobs)} run", lambda: world.running() == set(jobs))


def of_flavor(name: str, cpu: int) -> Raw:
    """A resource group of one flavor."""
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    return {"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": resources}]}


def quota(world: World, cpu: int) -> Raw:
    """A patch of a ClusterQueue or Cohort: so many cpu of the world's flavor."""
    return {"spec": {"resourceGroups": [of_flavor(world.namespace, cpu)]}}


def pod_of(world: World, name: str) -> Raw:
    found: Raw = world.jobs()[name]["spec"]["template"]["spec"]
    return found


def marked_until(world: World, before: str, evicted: tuple[str, str, str]) -> tuple[str, str]:
    """Reason and message of DeactivationTarget, which lives from the mark to the eviction that it brings about. It is
    written once, whatever else is written meanwhile: that pods are ready.
    """
    states = world.seen("workloads", before, lambda state: condition(state, "Evicted") == evicted)
    marked = [state for state in states if holds(state, "DeactivationTarget")]
    active = [value for value, _ in groupby(state["spec"]["active"] for state in marked)]
    assert active == [True, False], f"it is marked, deactivated, then evicted, but its states are {states}"
    assert not holds(states[-1], "DeactivationTarget"), "the mark goes when it was acted upon"
    (mark,) = (each for each in marked[0]["status"]["conditions"] if each["type"] == "DeactivationTarget")
    assert all(mark in state["status"]["conditions"] for state in marked), f"it is marked once, but there is {marked}"
    return mark["reason"], mark["message"]
