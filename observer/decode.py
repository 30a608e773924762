"""Makes values of what the API server stores in etcd: JSON for custom resources, Protocol Buffers for Jobs and pods.

Only the fields that a rule reads are decoded. The numbers of the fields are those of ``generated.proto`` of
Kubernetes' API (``k8s.io/api/batch/v1``, ``k8s.io/api/core/v1``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

FIRST_KEY, LAST_KEY = b"/registry/jobs/", b"/registry/pods0"
"""One range of keys has Jobs, pods and all kinds of the group: one watch sees their changes in the order of storing."""

PREFIXES = {
    "/registry/jobs/": "Job",
    "/registry/pods/": "Pod",
    "/registry/kueue.x-k8s.io/workloads/": "Workload",
    "/registry/kueue.x-k8s.io/clusterqueues/": "ClusterQueue",
    "/registry/kueue.x-k8s.io/cohorts/": "Cohort",
    "/registry/minions/": "Node",
}
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
JOB_UID = "kueue.x-k8s.io/job-uid"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
MANAGED = "kueue.x-k8s.io/managed"
WORKLOAD = "kueue.x-k8s.io/workload"
SLICES = "kueue.x-k8s.io/workload-slice-name"
GROUP = "kueue.x-k8s.io/pod-group-name"
GROUPS = {"kueue.x-k8s.io/is-group-workload", "kueue.x-k8s.io/job-owner-name"}
"""The annotations of Workloads whose pods are a group."""
MAGIC = b"k8s\0"
SUFFIXES = {
    **{"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}

Amounts = Mapping[tuple[str, str], Fraction]
"""Amounts by flavor and resource."""


class Domain(NamedTuple):
    """A domain of a topology: the values of these node labels."""

    levels: tuple[str, ...]
    values: tuple[str, ...]


class Node(NamedTuple):
    """A node, with what pods can use of it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, Fraction]


class Job(NamedTuple):
    """A Job. ``queued``: whether it has a queue; ``runs``: neither suspended nor ended nor being deleted; ``pods``: how
    many must succeed; ``owner``: the uid of its controller.
    """

    name: str
    uid: str
    queued: bool
    runs: bool
    ended: bool
    pods: int = 1
    owner: str = ""


class Pod(NamedTuple):
    """A pod. ``job`` is the uid of its Job by its label, ``owner`` that of its controller; ``requests`` are empty when
    it has ended or is being deleted. ``runs``: it is on a node, has not ended and is not being deleted. ``managed``: it
    is to be queued itself, ``group`` is the name of the Workload of its group. ``workload`` is the one that it is
    placed with, by its annotations: of an elastic job the name that its slices share.
    """

    name: str
    uid: str
    job: str
    requests: Mapping[str, Fraction]
    owner: str = ""
    runs: bool = False
    managed: bool = False
    group: str = ""
    node: str = ""
    workload: str = ""


class Workload(NamedTuple):
    """A Workload. ``job`` is the uid of its job, ``owner`` its name; ``usage`` is what it holds of ``queue``, for
    so many ``pods``; those of a ``group`` have no job in common. ``domains`` are those that it was given, with the
    number of pods, and ``on`` what these use there; so many pods may run ``anywhere``, because their pod sets were
    given no domain. ``slices`` is the name that the slices of an elastic job share.
    """

    name: str
    uid: str
    job: str
    owner: str
    queue: str
    usage: Amounts
    reserved: bool
    admitted: bool
    evicted: bool
    finished: bool
    pods: int = 0
    group: bool = False
    domains: Mapping[Domain, int] = {}
    on: Mapping[Domain, Mapping[str, Fraction]] = {}
    anywhere: int = 0
    slices: str = ""

    @property
    def shared(self) -> str:
        """The name that it has in common with the other slices of its job."""
        return self.slices or self.name

    @property
    def holds(self) -> bool:
        """Whether it uses quota."""
        return self.reserved and not self.finished

    @property
    def runs(self) -> bool:
        """Whether it is admitted and has not finished."""
        return self.holds and self.admitted


class Quota(NamedTuple):
    """The quota of one resource of one flavor; None is no limit."""

    nominal: Fraction
    borrowing: Fraction | None
    lending: Fraction | None


class Queue(NamedTuple):
    """A ClusterQueue or a Cohort. ``status`` is that of a ClusterQueue, as it is stored."""

    name: str
    parent: str
    quotas: Mapping[tuple[str, str], Quota]
    status: Mapping[str, Any]


Decoded = Job | Pod | Workload | Queue | Node


def kind_of(key: str) -> str:
    """Returns the kind of object that is stored under a key; empty for one that no rule reads."""
    return next((kind for prefix, kind in PREFIXES.items() if key.startswith(prefix)), "")


def decoded(kind: str, value: bytes) -> Decoded:
    """Returns the object that is stored as these bytes."""
    match kind:
        case "Job":
            return _job(value)
        case "Pod":
            return _pod(value)
        case "Workload":
            return _workload(json.loads(value))
        case "Node":
            return _node(value)
        case _:
            return _queue(json.loads(value))


def amount(text: str | float) -> Fraction:
    """Returns the number that a Kubernetes quantity stands for."""
    written = str(text)
    number = written.rstrip("numkKMGTPEi")
    return Fraction(number) * SUFFIXES[written[len(number) :]]


def _workload(raw: Any) -> Workload:
    metadata, status = raw["metadata"], raw.get("status") or {}
    admission = status.get("admission") or {}
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    needless = {each["name"]: each["count"] for each in status.get("reclaimablePods") or ()}
    asked = {each["name"]: each.get("count", 1) for each in (raw.get("spec") or {}).get("podSets") or ()}
    usage: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for each in admission.get("podSetAssignments") or ():
        count = each.get("count") or 1
        wanted = min(count, asked.get(each["name"], count))  # an elastic job that shrinks changes its pod sets alone
        share = Fraction(max(0, wanted - needless.get(each["name"], 0)), count)
        for resource, used in (each.get("resourceUsage") or {}).items():
            usage[(each.get("flavors") or {}).get(resource, ""), resource] += amount(used) * share
    domains, on = _domains(raw)
    annotations = metadata.get("annotations") or {}
    return Workload(
        name=f"{metadata['namespace']}/{metadata['name']}",
        uid=metadata["uid"],
        job=(metadata.get("labels") or {}).get(JOB_UID, ""),
        owner=next((each["kind"] for each in metadata.get("ownerReferences") or () if each.get("controller")), ""),
        queue=admission.get("clusterQueue", ""),
        usage=usage,
        reserved="QuotaReserved" in true,
        admitted="Admitted" in true,
        evicted="Evicted" in true,
        finished="Finished" in true,
        pods=sum(
            max(0, (each.get("count") or 1) - needless.get(each["name"], 0))
            for each in admission.get("podSetAssignments") or ()
        ),
        group=not GROUPS.isdisjoint(annotations),
        domains=domains,
        on=on,
        anywhere=sum(
            int(each.get("count") or 0)
            for each in admission.get("podSetAssignments") or ()
            if not each.get("topologyAssignment")
        ),
        slices=f"{metadata['namespace']}/{annotations[SLICES]}" if SLICES in annotations else "",
    )


def _domains(raw: Any) -> tuple[Mapping[Domain, int], Mapping[Domain, Mapping[str, Fraction]]]:
    """The domains of all pod sets: how many pods each has, and what these use."""
    pods: defaultdict[Domain, int] = defaultdict(int)
    on: defaultdict[Domain, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    per_pod = {
        each["name"]: _requests(each["template"]["spec"]) for each in (raw.get("spec") or {}).get("podSets") or ()
    }
    admission = (raw.get("status") or {}).get("admission") or {}
    for each in admission.get("podSetAssignments") or ():
        for domain, count in _written_out(each.get("topologyAssignment") or {}):
            pods[domain] += count
            for resource, requested in per_pod.get(each["name"], {}).items():
                on[domain][resource] += requested * count
    return pods, on


def _requests(spec: Any) -> Mapping[str, Fraction]:
    found: defaultdict[str, Fraction] = defaultdict(Fraction, pods=Fraction(1))
    for container in spec.get("containers") or ():
        for resource, requested in ((container.get("resources") or {}).get("requests") or {}).items():
            found[resource] += amount(requested)
    return found


def _written_out(assignment: Any) -> Iterator[tuple[Domain, int]]:
    """The domains of an assignment, each with its number of pods, in the form of v1beta2."""
    levels = tuple(assignment.get("levels") or ())
    for part in assignment.get("slices") or ():
        counts = part["podCounts"]
        for place in range(part["domainCount"]):
            values = tuple(_value(each, place) for each in part["valuesPerLevel"])
            count = counts["individual"][place] if "individual" in counts else counts["universal"]
            yield Domain(levels, values), count


def _value(level: Any, place: int) -> str:
    if "universal" in level:
        return str(level["universal"])
    each = level["individual"]
    return f"{each.get('prefix', '')}{each['roots'][place]}{each.get('suffix', '')}"


def _queue(raw: Any) -> Queue:
    spec = raw.get("spec") or {}
    quotas = {
        (flavor["name"], each["name"]): Quota(
            amount(each["nominalQuota"]), _limit(each, "borrowingLimit"), _limit(each, "lendingLimit")
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for each in flavor["resources"]
    }
    parent = spec.get("cohortName") or spec.get("parentName") or ""
    return Queue(raw["metadata"]["name"], parent, quotas, raw.get("status") or {})


def _limit(quota: Any, name: str) -> Fraction | None:
    return amount(quota[name]) if quota.get(name) is not None else None


def _job(value: bytes) -> Job:
    job = _object(value)
    metadata = _metadata(job)
    spec, status = _fields(job.get(2, [b""])[0]), _fields(job.get(3, [b""])[0])
    conditions = [_fields(each) for each in status.get(1, ())]
    true = {_text(each, 1) for each in conditions if _text(each, 2) == "True"}
    ended = bool(true & {"Complete", "Failed"})
    return Job(
        name=metadata.name,
        uid=metadata.uid,
        queued=QUEUE_NAME in metadata.labels,
        runs=not spec.get(10, [0])[0] and not ended and not metadata.deleting,
        ended=ended,
        pods=spec.get(2, spec.get(1, [1]))[0],
        owner=metadata.owner,
    )


def _pod(value: bytes) -> Pod:
    pod = _object(value)
    metadata = _metadata(pod)
    phase = _text(_fields(pod.get(3, [b""])[0]), 1)
    requests: defaultdict[str, Fraction] = defaultdict(Fraction)
    if phase not in ("Succeeded", "Failed") and not metadata.deleting:
        for container in _fields(pod.get(2, [b""])[0]).get(2, ()):
            for resources in _fields(container).get(8, ()):
                for name, quantity in _map(_fields(resources).get(2, ())):
                    requests[name] += amount(_text(_fields(quantity), 1))
    spec, group = _fields(pod.get(2, [b""])[0]), metadata.annotations.get(GROUP) or metadata.labels.get(GROUP)
    placed = metadata.annotations.get(SLICES) or metadata.annotations.get(WORKLOAD)
    return Pod(
        metadata.name,
        metadata.uid,
        metadata.labels.get(CONTROLLER_UID, ""),
        requests,
        owner=metadata.owner,
        runs=bool(_text(spec, 10)) and phase not in ("Succeeded", "Failed") and not metadata.deleting,
        managed=metadata.labels.get(MANAGED) == "true",
        group=f"{metadata.name.partition('/')[0]}/{group}" if group else "",
        node=_text(spec, 10),
        workload=f"{metadata.name.partition('/')[0]}/{placed}" if placed else "",
    )


def _node(value: bytes) -> Node:
    node = _object(value)
    metadata = _metadata(node)
    allocatable = _map(_fields(node.get(3, [b""])[0]).get(2, ()))
    amounts = {name: amount(_text(_fields(quantity), 1)) for name, quantity in allocatable}
    return Node(metadata.name.removeprefix("/"), metadata.labels, amounts)


class _Metadata(NamedTuple):
    name: str
    uid: str
    labels: Mapping[str, str]
    deleting: bool
    annotations: Mapping[str, str]
    owner: str


def _metadata(found: Mapping[int, list[Any]]) -> _Metadata:
    fields = _fields(found[1][0])
    labels, annotations = ({name: text.decode() for name, text in _map(fields.get(each, ()))} for each in (11, 12))
    owners = (_fields(each) for each in fields.get(13, ()))
    owner = next((_text(each, 4) for each in owners if each.get(6, [0])[0]), "")
    name = f"{_text(fields, 3)}/{_text(fields, 1)}"
    return _Metadata(name, _text(fields, 5), labels, 9 in fields, annotations, owner)


def _object(value: bytes) -> dict[int, list[Any]]:
    """The fields of an object in its envelope, ``runtime.Unknown``."""
    if not value.startswith(MAGIC):
        raise ValueError("not stored as Protocol Buffers")
    return _fields(_fields(value[len(MAGIC) :])[2][0])


def _text(fields: Mapping[int, list[Any]], number: int) -> str:
    return str(fields[number][0].decode()) if number in fields else ""


def _map(entries: Any) -> Iterator[tuple[str, bytes]]:
    for entry in map(_fields, entries):
        yield _text(entry, 1), entry.get(2, [b""])[0]


def _fields(message: bytes) -> dict[int, list[Any]]:
    """The values of each field by its number: numbers, and bytes of texts and messages."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
                found.setdefault(tag >> 3, []).append(value)
            case 2:
                length, at = _varint(message, at)
                found.setdefault(tag >> 3, []).append(message[at : at + length])
                at += length
            case 1:
                at += 8
            case 5:
                at += 4
            case other:
                raise ValueError(f"wire type {other} is unknown")
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7
