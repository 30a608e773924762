"""The templates, classes and devices of a cluster as they change, and what the pods of a workload count for by them.

An answer for a template is computed once, in steps where devices are looked at, and kept until something changes on
which it depends. Cost of a workload: a look-up for each of its claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from api.errors import FieldError, aggregate, internal, not_found
from api.objects import Key
from core.devices.claims import MOST, ClaimCount, CountedClaims, DeviceCluster, claim_count
from core.devices.extended import ContainerRequests, Extended, extended, resources_of, selected
from core.devices.mapping import DeviceRules
from core.devices.matching import Matching
from core.devices.model import ClaimTemplate, DeviceClass, DeviceRequest, Slice
from core.devices.nodes import CountableClasses, countable, devices_of, with_devices
from core.model import Node
from core.steps import Steps

CLAIMS_NOT_SUPPORTED: Final = "KueueDRAIntegration feature does not support use of resource claims"
DISABLED: Final = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
NOT_COUNTED_YET: Final = "The devices of the workload are being counted"
"""Why a workload is in no queue for a moment: its selectors are being evaluated. It is in no status."""


MOST_AT_ONCE: Final = 1
"""Steps in which an answer is computed while a workload is read."""
MOST_PROBLEMS: Final = 1000
_DONE: Final = object()


@dataclass(frozen=True, slots=True)
class PodClaims:
    """What matters of a pod set: the names of the templates and claims that its pods refer to (one of the two, in
    order), and what its containers request.
    """

    name: str
    claims: tuple[tuple[str, str], ...] = ()
    init: Sequence[ContainerRequests] = ()
    main: Sequence[ContainerRequests] = ()


@dataclass(frozen=True, slots=True)
class DeviceCharge:
    """What a pod of each pod set counts for in addition, and which of its requests do not count themselves; or why that
    is not known: ``errors``, and the text.
    """

    amounts: tuple[Mapping[str, int], ...] = ()
    replaced: tuple[frozenset[str], ...] = ()
    errors: tuple[FieldError, ...] = ()
    problem: str = ""
    whole: tuple[Mapping[str, int] | None, ...] = ()
    """Of the amounts, those that are numbers of devices: nodes have so many of them. None if that is not looked at."""


EVERY_NODE: Final = ""


class Affected(NamedTuple):
    """What a change concerns: the claims of templates, the workloads that request extended resources, and the nodes
    that have other devices than before (``EVERY_NODE`` are all).
    """

    templates: tuple[Key, ...] = ()
    resources: frozenset[str] = frozenset()
    nodes: tuple[str, ...] = ()


class SharedDevices(NamedTuple):
    """Devices that are of no single node, by resource, and the drivers and names of their pools."""

    pools: frozenset[tuple[str, str]] = frozenset()
    amounts: Mapping[str, int] = {}


NO_DEVICES: Final = SharedDevices()


@dataclass(frozen=True, slots=True)
class RefusedClaims:
    """Instead of an inventory while KueueDRAIntegration is off, and KueueDRARejectWorkloadsWhenDRADisabled is on."""

    extended: Mapping[str, DeviceClass] = field(default_factory=dict)

    def charge(self, namespace: str, pods: Sequence[PodClaims]) -> DeviceCharge:
        """Refuses all claims."""
        named = any(any(claim) for pod in pods for claim in pod.claims)
        return DeviceCharge(problem=DISABLED) if named else DeviceCharge()


class Inventory:
    """What claims are counted against. Each ``set_...`` returns what a change concerns."""

    def __init__(self, rules: DeviceRules) -> None:
        self.rules = rules
        self.templates: dict[Key, ClaimTemplate] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.slices: dict[str, Slice] = {}
        self.extended: dict[str, DeviceClass] = {}
        """The class that stands for an extended resource, by resource."""
        self._answers: dict[Key, ClaimCount] = {}
        """Of templates that some workload has asked for."""
        self._matching = Matching()
        self._by_node: dict[str, dict[str, None]] = {}
        """The names of slices by their node, in no order; those that are of no single node by ``EVERY_NODE``."""
        self._problems: dict[str, str] = {}
        """One copy of each text: all workloads with the same mistake have it."""
        self._cluster: DeviceCluster | None = None
        self._countable: Mapping[str, CountableClasses] | None = None
        self._everywhere: SharedDevices | None = None
        """The devices that are of no single node; None if they are to be counted."""

    def set_template(self, key: Key, template: ClaimTemplate | None) -> Affected:
        """A template was created, replaced, or (None) deleted."""
        if template is None:
            self.templates.pop(key, None)
        else:
            self.templates[key] = template
        self._answers.pop(key, None)
        return Affected((key,))

    def set_class(self, name: str, device_class: DeviceClass | None) -> Affected:
        """A class was created, changed, or (None) deleted."""
        old = self.classes.pop(name, None)
        if device_class is not None:
            self.classes[name] = device_class
        if old == device_class:
            return Affected()
        self._cluster = self._countable = self._everywhere = None
        changed = (each for each in (old, device_class) if each is not None and self.rules.extended)
        named = {resource for each in changed for resource in resources_of(each)}
        for resource in named:
            found = selected(each for each in self.classes.values() if resource in resources_of(each))
            if found is None:
                self.extended.pop(resource, None)
            else:
                self.extended[resource] = found
        dropped = [key for key, answer in self._answers.items() if name in answer.classes]
        return Affected(self._dropped(dropped), frozenset(named), (EVERY_NODE,))

    def set_slice(self, name: str, device_slice: Slice | None) -> Affected:
        """A slice was created, changed, or (None) deleted."""
        old = self.slices.pop(name, None)
        if device_slice is not None:
            self.slices[name] = device_slice
        if old == device_slice:
            return Affected()
        for each in (old, device_slice):
            if each is not None:
                names = self._by_node.setdefault(each.node, {})
                names.pop(name, None)
                if each is device_slice:
                    names[name] = None
                if not names:
                    del self._by_node[each.node]
        self._cluster = None
        if EVERY_NODE in (each.node for each in (old, device_slice) if each is not None):
            self._everywhere = None
        self._matching.forget(name)
        dropped = self._dropped([key for key, answer in self._answers.items() if answer.on_devices])
        return Affected(dropped, nodes=tuple(sorted({each.node for each in (old, device_slice) if each is not None})))

    def whole(self) -> frozenset[str]:
        """Returns the resources that are numbers of devices, which nodes have."""
        return frozenset(self._counted()) if self.rules.on_nodes else frozenset()

    def equipped(self, node: Node) -> Steps[Node]:
        """Returns a node with its devices among what pods can use of it, by resource, and with those that are of no
        single node: any may get them, and they are counted once for all nodes. Only resources that count by device.
        """
        if not self.rules.on_nodes:
            return node
        counted = self._counted()
        own = self._of(node.name)
        shared = self._everywhere if EVERY_NODE in self._by_node else NO_DEVICES
        if shared is None:
            every = self._of(EVERY_NODE)
            pools = frozenset((each.driver, each.pool) for each in every)
            shared = SharedDevices(pools, (yield from devices_of(every, counted, self._matching)))
            if self._counted() is counted and self._of(EVERY_NODE) == every:
                self._everywhere = shared
        if any((each.driver, each.pool) in shared.pools for each in own):  # it has slices of one pool with all nodes
            own, shared = sorted((*own, *self._of(EVERY_NODE)), key=lambda each: each.name), NO_DEVICES
        found = dict((yield from devices_of(own, counted, self._matching)))
        for resource, amount in shared.amounts.items():
            found[resource] = found.get(resource, 0) + amount
        return with_devices(node, found, counted)

    def _of(self, node: str) -> list[Slice]:
        return [self.slices[name] for name in sorted(self._by_node.get(node, ()))]

    def _dropped(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        keys = tuple(keys)
        for key in keys:
            del self._answers[key]
        return keys

    def unanswered(self, namespace: str, pods: Iterable[PodClaims]) -> tuple[Key, ...]:
        """Returns the templates for which ``counting`` is needed before ``charge`` knows the answer."""
        keys = (Key(namespace, template) for pod in pods for template, _ in pod.claims if template)
        return tuple(key for key in dict.fromkeys(keys) if key in self.templates and key not in self._answers)

    def classes_of(self, template: Key) -> tuple[str, ...]:
        """Returns the device classes that a template names."""
        found = self.templates.get(template)
        requests = found.requests if found is not None else ()
        return tuple(dict.fromkeys(each.device_class for each in requests if isinstance(each, DeviceRequest)))

    def counting(self, key: Key) -> Steps[bool]:
        """Computes the answer for a template, if it exists. Returns whether it is still right at the end: devices may
        have changed meanwhile.
        """
        template, view = self.templates.get(key), self._view()
        if template is None or key in self._answers:
            return True
        answer = yield from claim_count(template, view)
        if self.templates.get(key) is not template:
            return False
        if self._view() is view:
            self._answers[key] = answer
            return True
        # The devices changed: an answer that is late is better than none while they change all the time.
        self._answers.setdefault(key, answer)
        return False

    def recount(self, key: Key) -> None:
        """Drops the answer for a template."""
        self._answers.pop(key, None)

    def _at_once(self, key: Key) -> ClaimCount | None:
        """The answer, if it takes no time: that is so without selectors, and with few devices."""
        steps = self.counting(key)
        for _ in range(MOST_AT_ONCE):
            if next(steps, _DONE) is _DONE:
                return self._answers.get(key)
        return None

    def _counted(self) -> Mapping[str, CountableClasses]:
        """What counts by device, which slices do not change: it is asked for with every node."""
        if self._countable is None:
            self._countable = countable(self.classes, self.extended, self.rules)
        return self._countable

    def _view(self) -> DeviceCluster:
        if self._cluster is None:
            slices = tuple(self.slices[name] for name in sorted(self.slices))
            self._cluster = DeviceCluster(self.rules, dict(self.classes), slices, self._matching)
        return self._cluster

    def charge(self, namespace: str, pods: Sequence[PodClaims]) -> DeviceCharge:
        """Returns what the pods of a workload count for: claims of templates by device, extended resources, counters,
        capacities. The first of these with an error decides.
        """
        if any(claim for pod in pods for _, claim in pod.claims):
            return DeviceCharge(problem=CLAIMS_NOT_SUPPORTED)
        amounts: list[dict[str, int]] = [{} for _ in pods]
        found, errors = self._claims(namespace, pods)
        if errors:
            return self._failed(errors)
        if found is None:
            return DeviceCharge(problem=NOT_COUNTED_YET)
        _add(amounts, [[each.devices.amounts for each in claims] for claims in found])
        standing = [extended(pod.init, pod.main, self.extended, self.rules) for pod in pods]
        if errors := _located_in_pods(standing):
            return self._failed(errors)
        _add(amounts, [[each.amounts] for each in standing])
        whole = tuple(dict(each) if self.rules.on_nodes else None for each in amounts)
        for kind in ("counters", "capacities"):
            counted = [[getattr(each, kind) for each in claims] for claims in found]
            if errors := _first_errors(pods, counted):
                return self._failed(errors)
            _add(amounts, [[each.amounts for each in claims] for claims in counted])
        return DeviceCharge(tuple(amounts), tuple(each.replaced for each in standing), whole=whole)

    def _failed(self, errors: Sequence[FieldError]) -> DeviceCharge:
        if len(self._problems) >= MOST_PROBLEMS:
            self._problems.clear()
        text = aggregate(errors)
        return DeviceCharge(errors=tuple(errors), problem=self._problems.setdefault(text, text))

    def _claims(
        self, namespace: str, pods: Sequence[PodClaims]
    ) -> tuple[list[list[ClaimCount]] | None, list[FieldError]]:
        """Returns the answers for all claims in order; or the errors of the first claim that has any; or neither, where
        an answer is not computed yet.
        """
        found: list[list[ClaimCount]] = []
        for index, pod in enumerate(pods):
            answers = []
            for place, (name, _) in enumerate(pod.claims):
                if not name:
                    answers.append(ClaimCount())
                    continue
                path, key = _path(index, place), Key(namespace, name)
                if key not in self.templates:
                    missing = f'resourceclaimtemplates.resource.k8s.io "{name}" not found'
                    text = f"failed to get claim spec for ResourceClaimTemplate {name} in podset {pod.name}: {missing}"
                    return None, [internal(path, text)]
                answer = self._answers.get(key) or self._at_once(key)
                if answer is None:
                    return None, []
                if answer.devices.errors:
                    return None, _located(path, answer.devices.errors)
                if answer.devices.unmapped:
                    unmapped = f"DeviceClass {answer.devices.unmapped} is not mapped in DRA configuration"
                    where = f"{path}.resourceClaimTemplateName"
                    return None, [not_found(where, f"{unmapped} for podset {pod.name}")]
                answers.append(answer)
            found.append(answers)
        return found, []


def _path(pod_set: int, claim: int) -> str:
    return f"spec.podSets[{pod_set}].template.spec.resourceClaims[{claim}]"


def _located(path: str, errors: Iterable[FieldError]) -> list[FieldError]:
    return [replace(each, field=f"{path}.{each.field}") for each in errors]


def _located_in_pods(found: Sequence[Extended]) -> list[FieldError]:
    return [
        replace(error, field=f"spec.podSets[{index}].template.spec.{error.field}")
        for index, each in enumerate(found)
        for error in each.errors
    ]


def _first_errors(pods: Sequence[PodClaims], counted: Sequence[Sequence[CountedClaims]]) -> list[FieldError]:
    for index, claims in enumerate(counted):
        for place, each in enumerate(claims):
            if each.errors:
                return _located(_path(index, place), each.errors)
    return []


def _add(amounts: list[dict[str, int]], more: Sequence[Sequence[Mapping[str, int]]]) -> None:
    for total, found in zip(amounts, more, strict=True):
        for each in found:
            for resource, amount in each.items():
                total[resource] = min(total.get(resource, 0) + amount, MOST)
