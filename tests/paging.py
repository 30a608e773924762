"""A cluster for the page, in memory: its objects enter the caches as a watch would enter them, and whoever has a token
is a user with the rights that a test gives him. No control plane is needed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from api import resources
from api.objects import Key, Raw, Resource
from app.access import Reviews
from app.page.questions import Comparer
from app.page.served import ServedPage, Shown, served_page
from app.server import Address, Farewell, Server
from app.visibility import FrontProxy
from controller.cache.caches import Caches
from controller.cache.lookup import cache_lookup
from controller.cache.owners import Owners
from controller.history.history import HistoryReader
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from controller.run.watched import rows
from core.forecast.edits import ObjectEdit, edited
from core.forecast.effects import effects
from core.forecast.run_times import RunTimes
from core.forecast.situation import Situation
from core.jobs.kinds.job import BATCH_JOB
from core.model.effects import Effects
from core.model.forecast import StartForecast
from core.model.policy import SchedulingPolicy, Strategy, TopologyPolicy
from core.scheduling.cycle import schedule
from core.state.lookup import Lookup
from core.state.state import State
from core.wire.timestamps import stamp

GROUP = "kueue.x-k8s.io"
NOW = 1_800_000_000.0

Right = tuple[str, str, str]
"""Verb, plural and namespace; '*' is any, '' is the whole cluster."""


class ReviewingApi(Client):
    """An API server that knows users by their tokens, and their rights; and lists events."""

    def __init__(
        self, users: Mapping[str, Iterable[Right]], groups: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.users = {name: tuple(rights) for name, rights in users.items()}
        self.groups = groups or {}
        self.reviews: list[Raw] = []
        self.events: list[Raw] = []

    async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        self.reviews.append(body)
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            name = spec["token"]
            user = {"username": name, "groups": list(self.groups.get(name, ()))}
            return {"status": {"authenticated": name in self.users, "user": user}}
        wanted = spec.get("resourceAttributes") or {}
        asked = (wanted.get("verb"), wanted.get("resource"), wanted.get("namespace", ""))
        allowed = any(_covers(right, asked) for right in self.users.get(spec["user"], ()))
        return {"status": {"allowed": allowed}}

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
    ) -> AsyncGenerator[Raw, None]:
        name = field_selector.partition("=")[2]
        yield {"items": [each for each in self.events if each["involvedObject"]["name"] == name]}


def _covers(right: Right, asked: tuple[Any, ...]) -> bool:
    """A right in the whole cluster covers every namespace."""
    verb, plural, namespace = right
    return verb in ("*", asked[0]) and plural in ("*", asked[1]) and namespace in ("", "*", asked[2])


EVERYTHING: tuple[Right, ...] = (("*", "*", ""),)


def reader(namespace: str, *plurals: str) -> tuple[Right, ...]:
    """The rights to get and list these kinds in a namespace."""
    return tuple((verb, plural, namespace) for verb in ("get", "list") for plural in plurals)


@dataclass
class PagedCluster:
    """The objects of a cluster, as the caches have them."""

    policy: SchedulingPolicy = field(
        default_factory=lambda: SchedulingPolicy(topology=TopologyPolicy(), fair_sharing=tuple(Strategy))
    )
    users: dict[str, tuple[Right, ...]] = field(default_factory=lambda: {"admin": EVERYTHING})
    now: float = NOW
    run_times: RunTimes | None = None
    forecast: Callable[[Key], StartForecast | None] = lambda key: None
    compare: Comparer = field(default_factory=lambda: _compared_here)

    def __post_init__(self) -> None:
        self.caches = Caches(State(self.policy), rows([BATCH_JOB]))
        self.api = ReviewingApi(self.users)
        self._versions = itertools.count(1)
        for store in self.caches.stores.values():
            store.synced = True

    def start(self) -> None:
        """Enters what there is into State; later changes follow."""
        self.caches.start()
        for node in self.caches.nodes:
            self.caches.state.set_node(node.name, node)

    def put(self, resource: Resource, raw: Raw) -> Raw:
        """Adds an object, or changes it."""
        metadata = {"uid": f"uid-{resource.plural}-{raw['metadata']['name']}", **raw["metadata"]}
        metadata["resourceVersion"] = str(next(self._versions))
        entered = {"apiVersion": resource.api_version, "kind": resource.kind, **raw, "metadata": metadata}
        self.caches.stores[resource].observe("MODIFIED", entered)
        return entered

    def delete(self, resource: Resource, raw: Raw) -> None:
        """Deletes an object."""
        self.caches.stores[resource].observe("DELETED", raw)

    def namespace(self, name: str) -> None:
        self.put(resources.NAMESPACES, {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}})

    def flavor(self, name: str, topology: str = "", **labels: str) -> None:
        spec: Raw = {"nodeLabels": {f"example.com/{key}": value for key, value in labels.items()}}
        if topology:
            spec["topologyName"] = topology
        self.put(resources.RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": spec})

    def cohort(self, name: str, parent: str = "") -> None:
        self.put(resources.COHORTS, {"metadata": {"name": name}, "spec": {"parentName": parent} if parent else {}})

    def queue(self, name: str, quotas: Mapping[str, Mapping[str, Any]], cohort: str = "", **spec: Any) -> None:
        """A ClusterQueue; ``quotas`` are by flavor and resource: a quantity, or a mapping with limits."""
        covered = list(next(iter(quotas.values())))
        flavors = [
            {
                "name": flavor,
                "resources": [
                    {"name": resource, **(given if isinstance(given, dict) else {"nominalQuota": given})}
                    for resource, given in amounts.items()
                ],
            }
            for flavor, amounts in quotas.items()
        ]
        body = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
            **({"cohortName": cohort} if cohort else {}),
            **spec,
        }
        self.put(resources.CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": body})

    def local_queue(self, namespace: str, name: str, cluster_queue: str) -> None:
        metadata = {"name": name, "namespace": namespace}
        self.put(resources.LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": cluster_queue}})

    def workload(
        self,
        namespace: str,
        name: str,
        queue: str,
        requests: Mapping[str, str],
        *,
        count: int = 1,
        priority: int = 0,
        age: float = 60.0,
        status: Raw | None = None,
        job: str = "",
        **spec: Any,
    ) -> Raw:
        """A Workload of a Job, which waits unless its status says more."""
        container = {"name": "main", "image": "example.com/train:1", "resources": {"requests": dict(requests)}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        uid = f"uid-of-{job or name}"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job or name, "uid": uid, "controller": True}
        metadata: Raw = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": stamp(self.now - age),
            "ownerReferences": [owner],
            "labels": {"kueue.x-k8s.io/job-uid": uid},
        }
        body = {
            "active": True,
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": count, "template": template}],
            **spec,
        }
        return self.put(resources.WORKLOADS, {"metadata": metadata, "spec": body, "status": status or {}})

    def admitted(
        self,
        cluster_queue: str,
        flavor: str,
        usage: Mapping[str, str],
        *,
        count: int = 1,
        age: float = 30.0,
        ready: bool | None = True,
        more: Iterable[Raw] = (),
        placed: Raw | None = None,
    ) -> Raw:
        """The status of a Workload that holds quota; ``ready``: its pods are, None if it is not admitted yet."""
        at = stamp(self.now - age)
        kinds = ["QuotaReserved", *([] if ready is None else ["Admitted"])]
        conditions = [condition(kind, at, message=f"Quota reserved in ClusterQueue {cluster_queue}") for kind in kinds]
        if ready is not None:
            word = "Started" if ready else "WaitForStart"
            conditions.append(condition("PodsReady", at, status="True" if ready else "False", reason=word))
        assigned = {
            "name": "main",
            "count": count,
            "flavors": dict.fromkeys(usage, flavor),
            "resourceUsage": dict(usage),
            **({"topologyAssignment": placed} if placed else {}),
        }
        admission = {"clusterQueue": cluster_queue, "podSetAssignments": [assigned]}
        return {"admission": admission, "conditions": [*conditions, *more]}

    def node(self, name: str, labels: Mapping[str, str], **allocatable: str) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now - 3600)}]
        status = {"allocatable": {"pods": "110", **allocatable}, "conditions": ready}
        self.put(resources.NODES, {"metadata": metadata, "spec": {}, "status": status})

    def decide(self, cycles: int = 1) -> None:
        """Runs the cycle, so that what waits has a reason. Plans are applied, and not written."""
        state = self.caches.state
        for _ in range(cycles):
            heads = state.heads(self.now)
            if not heads:
                return
            snapshot = state.snapshot()
            plan = schedule(snapshot, heads, state.policy, self.now)
            state.release(snapshot)
            state.apply(plan)

    def lookup(self) -> Lookup:
        """The queries of admission about it."""
        found = cache_lookup(self.caches, Owners(self.caches, self.api, external=False), lambda check: {})
        return replace(found, forecast=self.forecast)

    def page(self, proxy: FrontProxy | None = None, port: int = 0, history: HistoryReader | None = None) -> ServedPage:
        """The page of this cluster."""
        lookup = self.lookup()
        reviews = Reviews(self.api, throttle=Throttle(0))
        address = Address("127.0.0.1", port)
        shown = Shown(self.caches, self.run_times, self.compare)
        return served_page(shown, lookup, self.api, reviews, address, None, proxy or FrontProxy(), history)

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[ServedPage]:
        """The page on a port, until the end."""
        page = self.page(port=port)
        server = Server([page.listener])
        await server.start()
        hub = asyncio.create_task(page.hub.run())
        try:
            yield page
        finally:
            page.hub.close()
            hub.cancel()
            await server.stop(Farewell(0.0, 1.0))


async def _compared_here(about: Situation, edit: ObjectEdit) -> tuple[Effects, bool]:
    """Without a process, and without starts."""
    return effects(about, edited(about, edit)), False


def condition(kind: str, at: str, *, status: str = "True", reason: str = "", message: str = "") -> Raw:
    """A condition of a status."""
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message or kind,
        "lastTransitionTime": at,
    }


def key(raw: Raw) -> Key:
    """The key of an object."""
    return Key(raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
