"""Keeps ``core.state.state.State`` equal to the objects of the API server.

Every change in a store goes to State first, which parks, queues and wakes workloads, and then to the listeners
(reconcilers, the scheduler). Nothing goes to State before every kind was listed once, because a workload that is read
before its LimitRange or its queue would be decided with incomplete data.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any
from weakref import WeakValueDictionary

import orjson

from api import names, resources
from api.objects import Raw, Resource, key_of
from controller.cache.indexes import claim_templates
from controller.cache.sweeps import Begin
from controller.kube.log import get_logger
from controller.kube.store import NOTIFIED_AT_ONCE, Store, in_steps, verbatim
from controller.settings import Reading
from core.devices.inventory import NOT_COUNTED_YET, Inventory
from core.jobs.kind import JobKind
from core.model import Key, Node, Workload
from core.model.owner import Owner, owner
from core.quota.active import ActiveCondition
from core.state.state import State
from core.wire import decode, pod_requests
from core.wire.active import parameters_name
from core.wire.decode import WorkloadContext
from core.wire.resource_quotas import NamespaceQuota
from core.workload.priority import PriorityClasses, value_of

SEEN_AT_ONCE = 500
"""So many Workloads are looked at, without reading them, before other tasks may run."""

Observer = Callable[[Workload | None, Workload | None], None]

log = get_logger(__name__)


def _digest(raw: Raw) -> bytes:
    """Returns a hash of the JSON: orjson returns bytes in a buffer of 4 KiB, which would be kept with each."""
    return blake2b(orjson.dumps(raw), digest_size=16).digest()


class _Spec(dict[str, Any]):
    """An object that can be referred to weakly; ``memo`` is what ``core.jobs.pod_shape`` has computed from it."""

    __slots__ = ("__weakref__", "memo")


class _Extended(dict[str, Any]):
    """The fields of a shared object and others; ``of`` keeps the shared one known."""

    __slots__ = ("of",)

    of: _Spec


class Shared:
    """Returns one object for equal ones, which is known only as long as somebody has it: else each pod would leave its
    spec behind.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, _Spec] = WeakValueDictionary()

    def __call__(self, raw: Raw, /, **own: Any) -> Raw:
        """The first object that was equal to this one; with fields of its own a new one with the same values."""
        shared = self._known.setdefault(_digest(raw), _Spec(raw))
        if not own:
            return shared
        extended = _Extended(shared, **own)
        extended.of = shared
        return extended


class Interned:
    """Shares equal specs of pod templates between Workloads: they are most of the size, and most of them are equal.
    Templates are not: those of Jobs have the name of the Job in a label.
    """

    def __init__(self) -> None:
        self._share = Shared()

    def __call__(self, raw: Raw) -> Raw:
        """The Workload as it is to be kept."""
        for pod_set in (raw.get("spec") or {}).get("podSets") or ():
            template = pod_set.get("template")
            if template and template.get("spec"):
                template["spec"] = self._share(template["spec"])
        return verbatim(raw)


def lean(kind: JobKind) -> Callable[[], Callable[[Raw], Raw]]:
    """Returns the ``keep`` of a row for jobs of a kind: what the kind reads of them."""

    def keep() -> Callable[[Raw], Raw]:
        shared = Shared()
        return lambda raw: kind.lean(verbatim(raw), shared)

    return keep


@dataclass(frozen=True, kw_only=True, slots=True)
class Cached:
    """What the caches know of a resource: the part of a row of ``controller.run.watched`` that they need.

    ``keep`` returns the function that converts an object into what its store keeps. ``enters`` is called with each
    change, including the first list: it updates State or other derived data. If it decodes only later, ``check`` raises
    for an object that cannot be decoded. Nothing waits for the first list of a resource that is not ``awaited``.
    ``optional``: the API server need not serve it, or may serve it later. ``selector`` selects the watched objects by
    label.

    ``job_kind`` is set if the resource is a kind of job. ``status`` returns the new status of an object, from State,
    its old status and the time; ``active`` the condition Active in it; ``in_use`` whether its finalizer must stay;
    ``gets_finalizer`` whether the controller adds the finalizer (for other kinds the webhook does).
    """

    resource: Resource
    keep: Callable[[], Callable[[Raw], Any]] = lambda: verbatim
    indexes: Mapping[str, Callable[[Any], Iterable[Hashable]]] = field(default_factory=dict)
    enters: Callable[[Caches, Raw | None, Raw | None], None] | None = None
    check: Callable[[Raw], object] | None = None
    optional: bool = False
    awaited: bool = True
    selector: str = ""
    job_kind: JobKind | None = None
    status: Callable[[State, Key, Raw, float], Raw | None] | None = None
    active: Callable[[State, Key], ActiveCondition | None] | None = None
    in_use: Callable[[Caches, Key], bool] | None = None
    gets_finalizer: bool = False


class Caches:
    """One store for each row, and State, which is empty until ``start`` is called, when all stores are synced.

    The rows are in the order in which State gets the listed objects: referenced objects come first.
    """

    def __init__(self, state: State, rows: Iterable[Cached], reading: Reading | None = None) -> None:
        self.state = state
        self.rows = {row.resource: row for row in rows}
        self.kinds = tuple(row.job_kind for row in self.rows.values() if row.job_kind is not None)
        self.started = False
        self.flavors: dict[str, Raw] = {}
        self.observers: list[Observer] = []
        """Called with each change of a Workload, including the first list, after State."""
        self.in_steps: Callable[[Hashable, Begin], None] = _to_the_end
        """Does work that takes long, step by step, under a name (``controller.cache.sweeps``)."""
        self.later: Callable[[Callable[[], None]], object] = lambda _: None
        """Calls a function after a while."""
        self.read_again: Callable[[], None] = lambda: None
        """Called when Workloads were decoded again, because the rules of requests changed."""
        self.caught_up: Callable[[Key], None] = lambda key: None
        """Called with each Workload that entered State later than its listeners heard of it."""
        self.absent: set[Resource] = set()
        """The optional resources that the API server does not serve."""
        self._reading = reading or Reading()
        self.decoded: dict[Key, Workload] = {}
        """Each Workload at its newest version."""
        self._failed: dict[tuple[Resource, Key], None] = {}
        """Objects that could not be entered into State. While there are any, one call of ``later`` is open, or a sweep
        for them waits.
        """
        self._contexts: dict[str, WorkloadContext] = {}
        self.devices = self._reading.device_counts()
        """What the claims of pods are counted against."""
        self.reequip: Callable[[tuple[str, ...]], None] = lambda nodes: None
        """Called with the names of nodes whose devices have changed; ``EVERY_NODE`` are all."""
        self._to_count: dict[str, dict[Key, None]] = {}
        """ResourceClaimTemplates by namespace whose Workloads are to be read again."""
        self._overheads: Mapping[str, pod_requests.Quantities] | None = None
        self._classes: PriorityClasses | None = None
        self._versions = itertools.count(1)
        self.stores: dict[Resource, Store[Any]] = {
            resource: Store(resource.plural, row.keep(), row.indexes, selects=selected(row.selector))
            for resource, row in self.rows.items()
        }
        self.workloads: Store[Raw] = self.stores[resources.WORKLOADS]
        self.local_queues: Store[Raw] = self.stores[resources.LOCAL_QUEUES]
        self.cluster_queues: Store[Raw] = self.stores[resources.CLUSTER_QUEUES]
        self.cohorts: Store[Raw] = self.stores[resources.COHORTS]
        self.namespaces: Store[Raw] = self.stores[resources.NAMESPACES]
        self.limit_ranges: Store[Raw] = self.stores[resources.LIMIT_RANGES]
        self.runtime_classes: Store[Raw] = self.stores[resources.RUNTIME_CLASSES]
        self.priority_classes: Store[Raw] = self.stores[resources.PRIORITY_CLASSES]
        self.workload_priority_classes: Store[Raw] = self.stores[resources.WORKLOAD_PRIORITY_CLASSES]
        self.nodes: Store[Node] = self.stores[resources.NODES]
        self.resource_quotas: Store[NamespaceQuota] = self.stores[resources.RESOURCE_QUOTAS]

    @property
    def synced(self) -> bool:
        """Whether every awaited resource was listed once."""
        return all(self.stores[resource].synced for resource, row in self.rows.items() if row.awaited)

    def start(self) -> None:
        """Read all there is into State, and from now on every change."""
        for _ in self.starting():
            pass

    def starting(self) -> Iterator[None]:
        """``start`` in slices of half a millisecond, so that other tasks can run; ``started`` is set at its end."""
        for resource, row in self.rows.items():
            if row.enters is not None:
                yield from self.stores[resource].catch_up(partial(self._heard, row))
        self.started = True

    def enter(self, raw: Raw, resource: Resource) -> None:
        """Enter an object that no API server holds, instead of ``start``; raises for one that cannot be decoded."""
        row = self.rows[resource]
        if row.check is not None:
            row.check(raw)
        entered = {**raw, "metadata": {"uid": "", **raw["metadata"], "resourceVersion": str(next(self._versions))}}
        kept = self.stores[resource].put_from_write(entered)
        if row.enters is not None:
            row.enters(self, None, kept)

    def observe(self, observer: Observer) -> Iterator[None]:
        """Calls an observer with each Workload that there is, in steps, and from now on with each change."""
        self.observers.append(observer)
        yield from in_steps(tuple(self.decoded), lambda key: observer(None, self.get(key)))

    def leave(self, observer: Observer) -> None:
        """Calls an observer no more."""
        self.observers[:] = [each for each in self.observers if each != observer]

    def get(self, key: Key) -> Workload | None:
        """The workload at its newest version; None where it is gone."""
        return self.decoded.get(key)

    def workloads_of(self, owner: Owner) -> tuple[Raw, ...]:
        """The Workloads that this object controls, or one before it of the same name, oldest first."""
        found = self.workloads.by_index("owner", owner)
        return tuple(
            sorted(found, key=lambda raw: (raw["metadata"].get("creationTimestamp", ""), raw["metadata"]["uid"]))
        )

    def variants_of(self, parent: Workload) -> list[Workload]:
        """The variants of a Workload that is admitted through variants."""
        found = self.workloads.by_index("owner", Owner(names.GROUP, names.Kind.WORKLOAD, *parent.key))
        return [
            value for raw in found if (value := self.get(key_of(raw))) is not None and value.variant_of == parent.uid
        ]

    def job_objects(self, kind: JobKind, key: Key) -> tuple[Raw, ...]:
        """The objects of which the job with this key consists."""
        store = self.stores[kind.resource]
        if kind.grouped:
            return store.by_index("job", key)
        found = store.get(key)
        return () if found is None else (found,)

    def related(self, kind: JobKind, job: Key) -> tuple[Raw, ...]:
        """The objects of other kinds that belong to a job of this kind, by name, and those to which it refers."""
        found = [raw for served in kind.related for raw in self.stores[served].by_index(kind.framework, job)]
        for raw in self.job_objects(kind, job) if kind.refers else ():
            named = (self.stores[served].get(key) for served, key in kind.references(raw))
            found += [each for each in named if each is not None]
        return tuple(sorted(found, key=lambda raw: str(raw["metadata"]["name"])))

    def parameters(self, check: Raw, resource: Resource) -> Raw | None:
        """The object of this resource that an AdmissionCheck refers to; None if there is none."""
        name, wrong = parameters_name(check, resource.kind)
        found: Raw | None = None if wrong else self.stores[resource].get(("", name))
        return found

    def controlled(self, workload: Raw) -> bool:
        """Whether an existing job of a supported kind controls the Workload."""
        by = owner(workload)
        if by is None:
            return False
        kinds = (kind for kind in self.kinds if (kind.group, kind.kind) == (by.group, by.kind))
        return any(self.job_objects(kind, Key(by.namespace, by.name)) for kind in kinds)

    def workload_of(self, uid: str) -> Workload | None:
        """Returns the Workload of the object with that uid; of several an unfinished one, and of these an admitted
        one.
        """
        found = (self.get(key_of(raw)) for raw in self.workloads.by_index("job-uid", uid))
        known = [each for each in found if each is not None]
        finished, admitted = names.Condition.FINISHED, names.Condition.ADMITTED
        return max(known, key=lambda each: (not each.holds(finished), each.holds(admitted)), default=None)

    @property
    def classes(self) -> PriorityClasses:
        """The values of all priority classes."""
        if self._classes is None:
            pod = {raw["metadata"]["name"]: raw for raw in self.priority_classes}
            self._classes = PriorityClasses(
                workload={raw["metadata"]["name"]: value_of(raw) for raw in self.workload_priority_classes},
                pod={name: value_of(raw) for name, raw in pod.items()},
                default=next((name for name, raw in sorted(pod.items()) if raw.get("globalDefault")), None),
                system_namespaces=self._reading.system_priority_namespaces,
            )
        return self._classes

    def classes_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A priority class changed: the values are read again when they are asked for."""
        self._classes = None

    def flavor_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A ResourceFlavor changed: updates State, and keeps the object for jobs that start."""
        name = either(old, new)["metadata"]["name"]
        if new is None:
            self.flavors.pop(name, None)
        else:
            self.flavors[name] = new
        self.state.set_flavor(name, decode.resource_flavor(new) if new else None)

    def workload_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A Workload changed: decodes it, updates State, then calls the observers."""
        key = key_of(either(old, new))
        if new is None:
            gone = self.decoded.pop(key, None)
            self.state.set_workload(key, None)
            self._observed(gone, None)
            return
        before = self.decoded.get(key)
        read = decode.workload(new, self.context(key.namespace), before)
        self.decoded[read.key] = read
        self.state.set_workload(read.key, read)
        self._observed(before, read)
        if read.uncounted == NOT_COUNTED_YET:
            self._count_again(claim_templates(new))

    def _observed(self, old: Workload | None, new: Workload | None) -> None:
        for observer in self.observers:
            observer(old, new)

    def context(self, namespace: str) -> WorkloadContext:
        """Returns the context in which Workloads of a namespace are decoded; one for all namespaces without
        LimitRanges.
        """
        ranges = self.limit_ranges.by_index("namespace", namespace)
        shared = namespace if ranges else ""
        known = self._contexts.get(shared)
        if known is None:
            if self._overheads is None:
                self._overheads = pod_requests.overheads(self.runtime_classes)
            rules = pod_requests.RequestRules(
                limits=pod_requests.limits(ranges),
                overheads=self._overheads,
                transformations=self._reading.transformations,
                excluded_prefixes=self._reading.excluded_prefixes,
                devices=self.devices,
            )
            known = self._contexts[shared] = self._reading.context(rules)
        return known

    def limits_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A LimitRange changed: the Workloads of its namespace are read again."""
        namespace = key_of(either(old, new)).namespace
        self._contexts.pop(namespace, None)
        self._read_again(("limits", namespace), lambda: self.workloads.keys_by_index("namespace", namespace))

    def overheads_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A RuntimeClass changed: where its overhead did, every Workload is read again."""
        if old and new and old.get("overhead") == new.get("overhead"):
            return
        self._overheads = None
        self._contexts.clear()
        self._read_again("overheads", self.workloads.keys)

    def device_class_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A DeviceClass changed: Workloads are counted again that depend on it."""
        if isinstance(self.devices, Inventory):
            name = either(old, new)["metadata"]["name"]
            affected = self.devices.set_class(name, new["value"] if new else None)
            self._count_again(affected.templates)
            self.reequip(affected.nodes)
            if affected.resources and self.decoded:
                self.in_steps(("devices", affected.resources), partial(self._requesting, affected.resources))

    def resource_slice_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A ResourceSlice changed: Workloads with selectors of devices are counted again."""
        if isinstance(self.devices, Inventory):
            name = either(old, new)["metadata"]["name"]
            affected = self.devices.set_slice(name, new["value"] if new else None)
            self._count_again(affected.templates)
            self.reequip(affected.nodes)

    def claim_template_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A ResourceClaimTemplate changed: Workloads with pods that refer to it are counted again."""
        if isinstance(self.devices, Inventory):
            key = key_of(either(old, new))
            self._count_again(self.devices.set_template(key, new["value"] if new else None).templates)

    def _count_again(self, templates: Iterable[Key]) -> None:
        """Counts the claims of these templates again, and reads the Workloads that refer to them."""
        for key in templates:
            if self.workloads.count("claim-template", key):
                self._to_count.setdefault(key.namespace, {})[key] = None
                self.in_steps(("claims", key.namespace), partial(self._counting, key.namespace))

    def _counting(self, namespace: str) -> Iterator[None]:
        assert isinstance(self.devices, Inventory)
        for key in self._to_count.pop(namespace, {}):
            current = yield from self.devices.counting(key)
            yield from in_steps(self.workloads.keys_by_index("claim-template", key), self._read_one_again)
            if not current:
                self.devices.recount(key)
                self._count_again((key,))
        self.read_again()

    def _requesting(self, names: frozenset[str]) -> Iterator[None]:
        """Reads the Workloads again whose pods request one of these extended resources."""
        found = []
        for place, key in enumerate(self.workloads.keys(), start=1):
            workload = self.decoded.get(key)
            if workload is not None and not all(names.isdisjoint(each.per_pod) for each in workload.pod_sets):
                found.append(key)
            if not place % SEEN_AT_ONCE:
                yield
        yield from self._reading_again(found)

    def _read_again(self, name: Hashable, keys: Callable[[], Iterable[Key]]) -> None:
        """The rules of requests changed: decodes Workloads again; those that are not read yet are read by ``start``."""
        if self.decoded:
            self.in_steps(name, lambda: self._reading_again(keys()))

    def _reading_again(self, keys: Iterable[Key]) -> Iterator[None]:
        """Decodes the Workloads with these keys; those for which that fails are decoded again after a while."""
        yield from in_steps(keys, self._read_one_again)
        self.read_again()

    def _read_one_again(self, key: Key) -> None:
        """Decodes a Workload; whether its claims can be counted now decides whether it may start."""
        raw, before = self.workloads.get(key), self.decoded.get(key)
        entered = raw is not None and before is not None and self._entered(self.rows[resources.WORKLOADS], raw, raw)
        if before is not None and entered and self.decoded[before.key].uncounted != before.uncounted:
            self.caught_up(key)

    def _entered(self, row: Cached, old: Raw | None, new: Raw | None) -> bool:
        """Enters a change into State. If that fails, State is behind the store: it is tried again after a while.
        Returns whether State has the change.
        """
        assert row.enters is not None
        failed = row.resource, key_of(either(old, new))
        try:
            row.enters(self, old, new)
        except Exception as error:  # the others are still to be entered
            what = {"resource": row.resource.plural, "object": str(failed[1]), "error": repr(error)}
            if not self._failed:  # one stack trace and one timer for all of them
                log.exception("an object cannot be read; it is read again after a while", **what)
                self.later(self._retry)
            elif failed not in self._failed:
                log.warning("an object cannot be read; it is read again after a while", **what)
            self._failed[failed] = None
            return False
        if self._failed:
            self._failed.pop(failed, None)
        return True

    def _heard(self, row: Cached, old: Raw | None, new: Raw | None) -> None:
        self._entered(row, old, new)

    def _retry(self) -> None:
        """Enters the objects again for which that failed."""
        self.in_steps("failed", self._entering_again)

    def _entering_again(self) -> Iterator[None]:
        failed, self._failed = self._failed, {}
        if failed:
            log.warning("objects are read again", count=len(failed))
        for place, (resource, key) in enumerate(failed, start=1):
            raw: Raw | None = self.stores[resource].get(key)
            gone: Raw = {"metadata": {"namespace": key.namespace, "name": key.name}}
            entered = self._entered(self.rows[resource], raw or gone, raw)
            if entered and resource == resources.WORKLOADS:
                self.caught_up(key)
            if not place % NOTIFIED_AT_ONCE:
                yield
        self.read_again()


def _to_the_end(name: Hashable, begin: Begin) -> None:
    for _ in begin():
        pass


def selected(selector: str) -> Callable[[Raw], bool]:
    """Returns whether an object has the label of a selector ``key=value``; every object if there is none."""
    key, _, value = selector.partition("=")
    return lambda raw: not key or (raw["metadata"].get("labels") or {}).get(key) == value


def either(old: Raw | None, new: Raw | None) -> Raw:
    """The object that changed, as it is or, where it was deleted, as it was."""
    raw = new or old
    assert raw is not None, "a store notified of a change between nothing and nothing"
    return raw
