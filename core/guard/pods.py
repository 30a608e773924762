"""What is kept of a pod that runs: a few hundred bytes, because a cluster has tens of thousands.

Pods of one job have the same owner, the same labels that count and the same requests: these are shared. What remains
for each pod are its uid, its name and its version.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict
from weakref import WeakValueDictionary

from msgspec import Struct

from api.names import Annotation, Finalizer, JobControllerLabel, Label
from core.model import Key, Raw, Requests
from core.model.owner import Reference, reference
from core.wire.pod_requests import RequestRules, effective
from core.wire.timestamps import epoch

LABELS: Final = (
    Label.QUEUE_NAME,
    Label.MANAGED,
    Label.JOB_UID,
    Label.POD_GROUP_NAME,
    Label.PREBUILT_WORKLOAD,
    JobControllerLabel.CONTROLLER_UID,
)
RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that are on a node and have not ended."""
ANNOTATIONS: Final = (
    Annotation.QUEUE_NAME,
    Annotation.POD_GROUP_NAME,
    Annotation.POD_SUSPENDING_PARENT,
    Annotation.PREBUILT_WORKLOAD,
    Annotation.WORKLOAD,
    Annotation.WORKLOAD_SLICE_NAME,
)
PLACED: Final = (
    Annotation.REQUIRED_TOPOLOGY,
    Annotation.PREFERRED_TOPOLOGY,
    Annotation.UNCONSTRAINED_TOPOLOGY,
    Annotation.SLICE_REQUIRED_TOPOLOGY,
    Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
)
"""The annotations of pods whose Workload is counted in the topology of its nodes, and not the pods themselves."""
_OF_CONTAINERS: Final = ("containers", "initContainers")


class _Resources(TypedDict, total=False):
    requests: dict[str, str | int | float]
    limits: dict[str, str | int | float]


class _PodContainer(TypedDict, total=False):
    name: str
    restartPolicy: str
    resources: _Resources


class _PodSpec(TypedDict, total=False):
    nodeName: str
    containers: list[_PodContainer]
    initContainers: list[_PodContainer]
    overhead: dict[str, str | int | float]
    resources: _Resources


class _Reference(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool


class _PodMetadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    deletionTimestamp: str
    deletionGracePeriodSeconds: int
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[_Reference]


class Fields(TypedDict, total=False):
    """The fields of a pod that are read; a decoder of this type drops all others while it reads them."""

    metadata: _PodMetadata
    spec: _PodSpec


class PodShape:
    """The effective requests of equal pods, as quota counts them, and the names of their containers. ``own`` are the
    requests as nodes count them: without transformations and exclusions.
    """

    __slots__ = ("__weakref__", "containers", "own", "requests")

    def __init__(self, requests: Requests, containers: frozenset[str], own: Requests | None = None) -> None:
        self.requests = requests
        self.containers = containers
        self.own = requests if own is None or own == requests else own


@dataclass(frozen=True, slots=True)
class Accounting:
    """What of the requests of pods is counted against their quota.

    Of a pod with containers that its template has not (``known`` are those that the templates have) as much as
    ``injected`` is left out: admission of others adds such containers. Of resources only those in ``limited`` are
    counted, which have quota anywhere; None: all.
    """

    injected: Requests | None = None
    known: frozenset[str] = frozenset()
    limited: frozenset[str] | None = None


ALL_REQUESTS: Final = Accounting()
"""Counts all requests."""


def totals(shapes: Mapping[PodShape, int], accounting: Accounting = ALL_REQUESTS) -> tuple[int, Counter[str]]:
    """Returns how many pods these are, by shape, and what they request together."""
    pods, requests = 0, Counter[str]()
    for shape, count in shapes.items():
        pods += count
        for name, amount in counted(shape, accounting):
            requests[name] += amount * count
    return pods, requests


def counted(shape: PodShape, accounting: Accounting = ALL_REQUESTS) -> Iterator[tuple[str, int]]:
    """Yields what is counted of the requests of one pod."""
    injected, known, limited = accounting.injected, accounting.known, accounting.limited
    more = injected if injected and known and not shape.containers <= known else None
    for name, amount in shape.requests.items():
        if limited is None or name in limited:
            yield name, max(0, amount - more.get(name, 0)) if more else amount


class Kin:
    """What the pods of one job have in common: ``raw`` has the metadata that counts, ``above`` is their controller.

    ``marked`` is whether Seiretsu has handled the pods: admission sets this finalizer and this label. ``placed`` is
    whether they ask for a topology.
    """

    __slots__ = ("__weakref__", "above", "marked", "namespace", "placed", "raw")

    def __init__(self, raw: Raw, *, placed: bool = False) -> None:
        self.placed = placed
        metadata = raw["metadata"]
        self.raw = raw
        self.namespace = str(metadata["namespace"])
        self.above: Reference | None = reference(raw)
        labelled = (metadata.get("labels") or {}).get(Label.MANAGED) == "true"
        self.marked = labelled or Finalizer.MANAGED in (metadata.get("finalizers") or ())


class RunningPod(Struct, gc=False):
    """A pod that is on a node and has not ended. ``deleted`` is when its deletion was requested, in seconds since the
    epoch, 0 if it was not, and ``ends`` when its grace period does. ``charge`` is what the controller counts it for,
    and the only field that it changes.
    """

    uid: str
    name: str
    version: int
    created: float
    deleted: float
    ends: float
    kin: Kin
    shape: PodShape
    node: str = ""
    charge: object = None

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return Key(self.kin.namespace, self.name)


def used_of_node(raw: Raw) -> tuple[str, Requests] | None:
    """The node of a pod that runs, and what it uses there without the pod itself; None for any other."""
    spec, phase = raw.get("spec") or {}, (raw.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return None
    return spec["nodeName"], effective(spec, RequestRules()).own


def asks_for_topology(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod has an annotation of a topology."""
    return any(each in (annotations or ()) for each in PLACED)


class Lean:
    """Makes a ``RunningPod`` of an object, with equal parts shared; requests are counted by these ``rules``."""

    def __init__(self, rules: RequestRules) -> None:
        self._rules = rules
        self._shapes: WeakValueDictionary[Hashable, PodShape] = WeakValueDictionary()
        self._kin: WeakValueDictionary[Hashable, Kin] = WeakValueDictionary()

    def __call__(self, raw: Raw) -> RunningPod:
        """The pod; raises ``KeyError`` for an object without uid or name."""
        metadata = raw["metadata"]
        ends = epoch(metadata["deletionTimestamp"]) if metadata.get("deletionTimestamp") else 0.0
        return RunningPod(
            uid=metadata["uid"],
            name=metadata["name"],
            version=int(metadata.get("resourceVersion") or 0),
            created=epoch(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else 0.0,
            deleted=ends and ends - float(metadata.get("deletionGracePeriodSeconds") or 0),
            ends=ends,
            kin=self._kin_of(metadata),
            shape=self._shape_of(raw.get("spec") or {}),
            node=sys.intern((raw.get("spec") or {}).get("nodeName") or ""),
        )

    def _kin_of(self, metadata: Raw) -> Kin:
        labels, annotations = _chosen(metadata.get("labels"), LABELS), _chosen(metadata.get("annotations"), ANNOTATIONS)
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        ours = Finalizer.MANAGED in (metadata.get("finalizers") or ())
        namespace = metadata.get("namespace", "")
        above = (owner.get("apiVersion"), owner.get("kind"), owner.get("name"), owner.get("uid")) if owner else None
        placed = asks_for_topology(metadata.get("annotations"))
        known = (namespace, above, tuple(labels.items()), tuple(annotations.items()), ours, placed)
        found = self._kin.get(known)
        if found is None:
            kept: Raw = {"namespace": namespace, "labels": labels, "annotations": annotations}
            if owner:
                kept["ownerReferences"] = [owner]
            if ours:
                kept["finalizers"] = [Finalizer.MANAGED]
            found = self._kin[known] = Kin({"metadata": kept}, placed=placed)
        return found

    def _shape_of(self, spec: Raw) -> PodShape:
        whole = (
            *(tuple(map(_container, spec.get(kind) or ())) for kind in _OF_CONTAINERS),
            _pairs(spec.get("overhead")),
            _amounts(spec.get("resources")),
        )
        found = self._shapes.get(whole)
        if found is None:
            named = frozenset(str(each.get("name")) for kind in _OF_CONTAINERS for each in spec.get(kind) or ())
            asked = effective(spec, self._rules)
            found = self._shapes[whole] = PodShape(asked.requests, named, asked.own)
        return found


def _chosen(given: Mapping[str, str] | None, keys: tuple[str, ...]) -> dict[str, str]:
    return {key: given[key] for key in keys if key in given} if given else {}


def _container(raw: Raw) -> Hashable:
    return raw.get("name"), raw.get("restartPolicy"), _amounts(raw.get("resources"))


def _amounts(resources: Raw | None) -> Hashable:
    return (_pairs(resources.get("requests")), _pairs(resources.get("limits"))) if resources else ((), ())


def _pairs(amounts: Mapping[str, object] | None) -> Hashable:
    return tuple(amounts.items()) if amounts else ()
