"""The objects of a cluster, in State, as the controller would have them.

Separate from ``cli.world``, which adds admission and manifests of files: ``explain`` needs this alone, and starts in a
third of the time.
"""

from __future__ import annotations

from dataclasses import replace

from api import names
from api.names import Condition, RequeuedReason
from api.objects import Raw, key_of
from api.resources import NAMESPACES, NODES, PODS
from controller.cache.caches import Caches
from controller.run.watched import WATCHED
from controller.scheduling.usage import consumed_of
from controller.settings import ControllerSettings
from core.devices.inventory import EVERY_NODE, Inventory
from core.guard.pods import asks_for_topology, used_of_node
from core.jobs import meta
from core.model import Key, Requests, Workload
from core.model.workload import replace as replace_fields
from core.state.state import State
from core.steps import completed
from core.topology.others import OtherPods
from core.wire import decode
from core.workload.ungating import is_placed, named, of_pods

_PLAYED = {row.resource.kind: row.resource for row in WATCHED if row.played}


class ClusterState:
    """State with objects of an API server; kinds that no decision depends on are passed over."""

    def __init__(self, settings: ControllerSettings | None = None) -> None:
        self.settings = settings or ControllerSettings()
        self.caches = Caches(State(self.settings.policy), WATCHED, self.settings.reading)
        self.caches.started = True
        self.caches.reequip = self._equip
        self.state = self.caches.state
        self._others = OtherPods()
        self._pods: set[str] = set()
        self._accounts: set[Key] = set()
        """The Workloads that are placed, as their pods name them."""
        self._by_account: dict[Key, list[tuple[str, Requests]]] = {}
        """What the pods that name another Workload use of their nodes."""
        self.workloads: list[Workload] = []
        self.raws: dict[Key, Raw] = {}
        """The objects of the workloads."""

    def enter_workloads(self) -> None:
        """Enters the workloads that have not finished into State, when all other objects are in it."""
        for workload in self.workloads:
            if not workload.holds(names.Condition.FINISHED):
                self.state.set_workload(workload.key, workload)

    def add(self, raw: Raw) -> None:
        """Enters one object; Workloads after all others, because they are read by LimitRanges and the like. A namespace
        that is not among the objects exists all the same.
        """
        kind, metadata = raw["kind"], raw["metadata"]
        resource = _PLAYED.get(kind)
        if kind == names.Kind.WORKLOAD:
            self.workloads.append(self.read(raw))
            self.raws[self.workloads[-1].key] = raw
            self._account(self.workloads[-1])
        elif kind == NAMESPACES.kind:
            self.namespace(metadata["name"], metadata.get("labels") or {})
        elif kind == NODES.kind:
            self.caches.enter(raw, NODES)
            self._equip((metadata["name"],))
        elif kind == PODS.kind:
            self._pod(raw)
        elif resource is not None:
            self.caches.enter(raw, resource)
        if kind == names.Kind.LOCAL_QUEUE:
            consumed = consumed_of(raw)
            if consumed is not None:
                self.state.local_queue_usage.set_consumed(key_of(raw), consumed)
        if metadata.get("namespace") and metadata["namespace"] not in self.state.namespaces:
            self.namespace(metadata["namespace"])

    def _equip(self, names: tuple[str, ...]) -> None:
        """Enters nodes with their devices."""
        devices = self.caches.devices
        nodes = self.caches.nodes
        found = tuple(nodes) if EVERY_NODE in names else [nodes.get(Key("", name)) for name in names]
        for node in found:
            if node is not None:
                equipped = completed(devices.equipped(node)) if isinstance(devices, Inventory) else node
                self.state.set_node(node.name, equipped)

    def _pod(self, raw: Raw) -> None:
        """A pod on a node: if no Workload accounts for it there, it takes room from those that are placed."""
        found, uid = used_of_node(raw), raw["metadata"]["uid"]
        if found is None or uid in self._pods:
            return
        self._pods.add(uid)
        marks = meta.annotations(raw)
        account = Key(raw["metadata"].get("namespace", ""), named(marks)) if asks_for_topology(marks) else None
        if account in self._accounts:
            return
        if account is not None:
            self._by_account.setdefault(account, []).append(found)
        self._others.add(*found)
        self._count()

    def _account(self, workload: Workload) -> None:
        """A Workload that is placed accounts for the pods that name it."""
        if not is_placed(workload):
            return
        account = of_pods(workload)
        self._accounts.add(account)
        for found in self._by_account.pop(account, ()):
            self._others.remove(*found)
        self._count()

    def _count(self) -> None:
        for name in self._others.take_changed():
            self.state.set_other_pods(name, self._others.used(name))

    def namespace(self, name: str, labels: Raw | None = None) -> None:
        """A namespace; it bears the label that every one has."""
        known = {names.NAMESPACE_NAME_LABEL: name, **(labels or {})}
        self.caches.enter({"metadata": {"name": name, "labels": known}}, NAMESPACES)

    def read(self, raw: Raw) -> Workload:
        """A Workload object; where devices are not counted here, its status says whether the controller could."""
        found = decode.workload(raw, self.caches.context(raw["metadata"]["namespace"]))
        requeued, reserved = found.condition(Condition.REQUEUED), found.condition(Condition.QUOTA_RESERVED)
        if self.caches.devices is not None or requeued is None or reserved is None:
            return found
        inadmissible = not requeued.status and requeued.reason == RequeuedReason.INADMISSIBLE
        return replace_fields(found, uncounted=reserved.message) if inadmissible else found


def without_mapping(settings: ControllerSettings) -> ControllerSettings:
    """Returns settings that count no devices: without the Configuration of the controller it is not known as what they
    count.
    """
    return replace(settings, reading=replace(settings.reading, devices=None, refuses_claims=False))
