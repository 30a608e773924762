"""Jobs of every sort that a controller writes something for, created at a steady rate: the traffic of the soak.

Two ClusterQueues share a cohort with limits of borrowing and lending, one preempts; a third has an admission check,
which this module sets to Ready; a fourth has no quota. Jobs run for seconds, and are deleted some seconds after.
"""

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from api.objects import Raw, Resource
from bench.scenario import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from tests.cluster.world import condition, done, job, local_queue, ours

NAMESPACE, CHECK = "soak", "soak"
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
CHECKS = Resource("kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", namespaced=False)
CLASSES = Resource("kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)
SORTS = {"short": 60, "low": 7, "high": 12, "checked": 10, "deleted": 5, "withdrawn": 3, "queue": 3}
"""What is created, and how often of a hundred times."""
MOST_OPEN = 60
"""While so many Jobs have not ended, none are created."""
LOOK_SECONDS, AGAIN_SECONDS, SOON_SECONDS, PROVOKE_SECONDS = 2.0, 0.5, 3.0, 0.25


def setting() -> list[tuple[Resource, Raw]]:
    """Returns what must exist before the first Job."""

    def queue(name: str, cpu: int, limits: Raw, **spec: object) -> Raw:
        resources = [{"name": "cpu", "nominalQuota": cpu, **limits}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": NAMESPACE, "resources": resources}]}
        return ours("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})

    preempts = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    check = {"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}}
    queues = [
        queue("soak-a", 6, {"borrowingLimit": 2}, cohortName="soak"),
        queue("soak-b", 6, {"lendingLimit": 3}, cohortName="soak", preemption=preempts),
        queue("soak-c", 4, {}, **check),
        queue("soak-d", 0, {}),
    ]
    return [
        (NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        (FLAVORS, ours("ResourceFlavor", NAMESPACE, {})),
        (CHECKS, ours("AdmissionCheck", CHECK, {"controllerName": "example.com/soak"})),
        *((CLASSES, priority(name, value)) for name, value in (("low", 1), ("high", 100))),
        *((CLUSTER_QUEUES, each) for each in queues),
        *((LOCAL_QUEUES, local_queue(each["metadata"]["name"][-1], each["metadata"]["name"])) for each in queues),
    ]


def priority(name: str, value: int) -> Raw:
    """A WorkloadPriorityClass."""
    version = CLASSES.api_version
    return {"apiVersion": version, "kind": CLASSES.kind, "metadata": {"name": name}, "value": value}


class Traffic:
    """Runs until ``stop``; then ``drained`` waits until every Job has ended. ``created`` counts by sort.

    ``failures`` are the creates that were refused or not answered: they are repeated.
    """

    def __init__(self, client: Client, rate: float, seed: int) -> None:
        self.created: Counter[str] = Counter()
        self.failures: list[str] = []
        self.rate = rate
        self._client = client
        self._random = random.Random(seed)
        self._open = 0
        self._numbers = itertools.count()
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Creates the queues; the check is active."""
        for resource, raw in setting():
            await self._create(resource, raw)
        active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": _now()}
        await self._client.patch(CHECKS, CHECK, "", {"status": {"conditions": [active]}}, subresource="status")

    async def run(self) -> None:
        """Creates Jobs, and gives those of the check their turn, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            while True:
                await asyncio.sleep(1 / self.rate)
                self._begin(self._random.choices(list(SORTS), list(SORTS.values()))[0])

    async def provoke(self, sorts: Sequence[str]) -> None:
        """Creates what is needed for a certain write besides all else, again and again until it is cancelled."""
        for sort in itertools.cycle(sorts):
            self._begin(sort)
            await asyncio.sleep(PROVOKE_SECONDS)

    async def drained(self, within: float) -> None:
        """Creates no more, and waits until all Jobs have ended."""
        self._stopped.set()
        async with asyncio.timeout(within):
            await asyncio.gather(*self._tasks)
            while await self._patiently(self._count_open):  # noqa: ASYNC110 - the Jobs end in another process
                await asyncio.sleep(LOOK_SECONDS)

    def _begin(self, sort: str) -> None:
        if self._open < MOST_OPEN and not self._stopped.is_set():
            task = asyncio.create_task(self._one(sort, next(self._numbers)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _one(self, sort: str, number: int) -> None:
        name = f"{sort}-{number}"
        if sort == "queue":
            await self._create(CLUSTER_QUEUES, ours("ClusterQueue", f"soak-{name}", {"namespaceSelector": {}}))
            await asyncio.sleep(SOON_SECONDS)
            await self._delete(CLUSTER_QUEUES, f"soak-{name}", "")
            return
        queue = {"low": "b", "high": "b", "checked": "c", "deleted": "b", "withdrawn": "d"}.get(sort, "ab"[number % 2])
        labels = {"kueue.x-k8s.io/priority-class": sort} if sort in ("low", "high") else None
        size = 2 if labels else 1
        seconds = {"low": 10.0, "deleted": 600.0}.get(sort, 1.0)
        made = job(name, queue, cpu=size, pods=1, seconds=seconds, labels=labels)
        made["spec"]["ttlSecondsAfterFinished"] = 5
        await self._create(JOBS, made, NAMESPACE)
        self.created[sort] += 1
        if sort in ("deleted", "withdrawn"):
            await asyncio.sleep(SOON_SECONDS)
            if sort == "withdrawn":
                label = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}
                await self._patiently(lambda: self._client.patch(JOBS, name, NAMESPACE, label))
                await asyncio.sleep(SOON_SECONDS)
            await self._delete(JOBS, name, NAMESPACE)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(ApiError):
                self._open = await self._count_open()
                for raw in (await self._client.list(WORKLOADS, NAMESPACE))["items"]:
                    await self._check(raw)

    async def _check(self, raw: Raw) -> None:
        checks = (raw.get("status") or {}).get("admissionChecks") or []
        if condition(raw, "QuotaReserved")[0] != "True" or not any(each["state"] == "Pending" for each in checks):
            return
        ready = [{**each, "state": "Ready", "message": "", "lastTransitionTime": _now()} for each in checks]
        metadata = {"resourceVersion": raw["metadata"]["resourceVersion"]}
        with contextlib.suppress(Conflict, NotFound):
            await self._client.patch(
                WORKLOADS,
                raw["metadata"]["name"],
                NAMESPACE,
                {"metadata": metadata, "status": {"admissionChecks": ready}},
                subresource="status",
            )

    async def _count_open(self) -> int:
        jobs = (await self._client.list(JOBS, NAMESPACE))["items"]
        return sum(not done(each) for each in jobs)

    async def _create(self, resource: Resource, raw: Raw, namespace: str = "") -> None:
        body = {**raw, "apiVersion": resource.api_version}
        place = namespace or (NAMESPACE if resource is LOCAL_QUEUES else "")
        await self._patiently(lambda: self._client.create(resource, body, place), counted=resource is JOBS)

    async def _delete(self, resource: Resource, name: str, namespace: str) -> None:
        await self._patiently(lambda: self._client.delete(resource, name, namespace))

    async def _patiently(self, call: Callable[[], Awaitable[object]], *, counted: bool = False) -> object:
        """Repeats a call until it is answered."""
        while True:
            try:
                return await call()
            except (AlreadyExists, NotFound):
                return None
            except ApiError as error:
                if counted:
                    self.failures.append(str(error))
            await asyncio.sleep(AGAIN_SECONDS)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
