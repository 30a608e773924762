"""The pods of an admitted Workload with a topology: which of them get their domain now, and the patch that gives it.

What is kept of a pod is small, because a cluster has tens of thousands. Which pod gets which domain is decided in
``core.topology.ungate``. Labels and annotations of Kueue, so either program continues what the other one began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from api import names
from core.model import Key, Raw, Workload
from core.topology.ungate import AssignedPod, GroupMember, PodNumbering, first_numbers, is_number, node_selectors
from core.wire.guard import guarded

GATE: Final = names.SchedulingGate.TOPOLOGY
FENCE: Final = "seiretsu.dev/placement-fence"
"""The annotation with the version of a pod on which a process that led before may have decided."""
_FROM_ZERO: Final = frozenset({names.JobControllerLabel.COMPLETION_INDEX, names.TrainingOperatorLabel.REPLICA_INDEX})
"""Labels whose numbers begin with 0 in each pod set, also in those of a group. Kueue takes the number of the leader off
them, finds a pod without rank and gives domains in any order.
"""
_OTHERS: Final = frozenset({names.SchedulingGate.ADMISSION, names.SchedulingGate.ELASTIC_JOB})
"""Gates of pods that are not admitted: they get no domain before these are removed."""


class PodOfWorkload(Struct, frozen=True, gc=False):
    """A pod that has not ended: the Workload whose domains it may have (of an elastic job the name that its slices
    share), '' for none, and its pod set there. ``gates`` are the names of its scheduling gates, ``version`` is its
    resource version, ``of_group`` is whether it is in a group of pods.
    """

    namespace: str
    workload: str
    pod_set: str
    version: str
    gates: tuple[str, ...]
    pod: AssignedPod
    of_group: bool = False

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return Key(self.namespace, self.pod.name)


class Given(NamedTuple):
    """A pod that gets its domain by this patch."""

    pod: PodOfWorkload
    body: Raw


def read(raw: Raw) -> PodOfWorkload:
    """Returns what is kept of a pod. One that waits for its admission is a pod of no Workload."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    gates = tuple(str(each.get("name")) for each in spec.get("schedulingGates") or ())
    offset = annotations.get(names.Annotation.POD_INDEX_OFFSET, "")
    return PodOfWorkload(
        namespace=metadata["namespace"],
        workload=named(annotations) if _OTHERS.isdisjoint(gates) else "",
        pod_set=labels.get(names.Label.POD_SET) or "",
        version=metadata["resourceVersion"],
        gates=gates,
        pod=AssignedPod(
            uid=metadata["uid"],
            name=metadata["name"],
            waits=GATE in gates,
            terminates=bool(metadata.get("deletionTimestamp")),
            numbers={key: value for key, value in labels.items() if is_number(value)},
            offset=int(offset) if is_number(offset) else 0,
            node_selector=spec.get("nodeSelector") or {},
        ),
        of_group=names.Label.POD_GROUP_NAME in labels,
    )


def of_pods(workload: Workload) -> Key:
    """The key of a Workload as its pods name it (``named``): all slices of an elastic job have one."""
    return Key(workload.key.namespace, workload.slice_name or workload.key.name)


def is_placed(workload: Workload) -> bool:
    """Whether a Workload asks for a topology, or is placed in one: then it counts on its nodes, and not its pods."""
    if any(each.topology is not None for each in workload.pod_sets):
        return True
    return has_domains(workload)


def has_domains(workload: Workload) -> bool:
    """Whether any pod set of a Workload was given domains."""
    return workload.admission is not None and any(each.topology is not None for each in workload.admission.pod_sets)


def named(annotations: Mapping[str, str]) -> str:
    """The name of the Workload of a pod, as the pod's annotations have it; '' for none."""
    mark = annotations.get(names.Annotation.WORKLOAD_SLICE_NAME) or annotations.get(names.Annotation.WORKLOAD)
    return str(mark or "")


def places(workload: Workload) -> bool:
    """Whether pods of a Workload get domains: it is admitted with any, and its pods may run. The pods of a variant are
    those of its parent.
    """
    stopped = (names.Condition.EVICTED, names.Condition.FINISHED)
    return (
        has_domains(workload)
        and workload.holds(names.Condition.ADMITTED)
        and not any(map(workload.holds, stopped))
        and not workload.deleting
        and not workload.variant_of
    )


def given(workload: Workload, spec: Raw, pods: Iterable[PodOfWorkload]) -> Iterator[Given]:
    """Yields the pods of an admitted Workload that get their domain now; ``spec`` is that of its object, which has the
    labels by which pods are numbered. A pod whose own node selector excludes its domain gets none: the API server
    refuses to change what a selector has already.
    """
    assert workload.admission is not None
    of: dict[str, dict[str, PodOfWorkload]] = {}
    for each in pods:
        of.setdefault(each.pod_set, {})[each.pod.uid] = each
    asked = {each["name"]: each.get("topologyRequest") or {} for each in spec.get("podSets") or ()}
    first = first_numbers(
        [
            GroupMember(each.name, asked.get(each.name, {}).get("podSetGroupName") or "", each.count)
            for each in workload.admission.pod_sets
        ]
    )
    for assigned in workload.admission.pod_sets:
        mine = of.get(assigned.name)
        if mine is None or assigned.topology is None:
            continue
        found = node_selectors(
            assigned.topology,
            (each.pod for each in mine.values()),
            _numbering(asked.get(assigned.name, {}), first[assigned.name]),
            count=assigned.count,
            avoided=workload.unhealthy_nodes,
        )
        for uid, selector in found.items():
            if any(mine[uid].pod.node_selector.get(level, value) != value for level, value in selector.items()):
                continue
            yield Given(mine[uid], _patch(mine[uid], selector))


def fence(pod: PodOfWorkload) -> Raw:
    """Returns the patch after which the API server refuses all patches that were made for the present version of a
    pod.
    """
    mark = {"annotations": {FENCE: pod.version}}
    return guarded({"metadata": mark}, {"metadata": {"uid": pod.pod.uid, "resourceVersion": pod.version}})


def _numbering(request: Raw, first: int) -> PodNumbering:
    """By which labels the pods of a pod set are numbered."""
    pod, replicas = request.get("podIndexLabel") or "", request.get("subGroupCount") or 0
    first = 0 if pod in _FROM_ZERO else first
    return PodNumbering(pod, request.get("subGroupIndexLabel") or "", replicas, first)


def _patch(pod: PodOfWorkload, selector: Mapping[str, str]) -> Raw:
    """The patch that gives a pod its nodes and removes the gate: in one write, so that it never has one of both."""
    left = [{"name": each} for each in pod.gates if each != GATE]
    spec = {"nodeSelector": dict(selector), "schedulingGates": left or None}
    return guarded({"spec": spec}, {"metadata": {"uid": pod.pod.uid, "resourceVersion": pod.version}})
