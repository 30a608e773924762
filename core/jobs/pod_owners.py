"""Kinds whose pods are queued instead of them: what admission changes in them and checks.

Their pods are plain pods or groups of pods (``core.jobs.kinds.pod``), which these kinds enable: a pod with the
annotation ``pod-suspending-parent`` is gated, whoever creates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api import names
from api.builtin import INTEGER, METADATA, POD_TEMPLATE, fields
from api.errors import FieldError, forbidden, invalid
from api.feature_gates import Enabled
from api.names import Annotation, Condition, Label
from api.objects import Resource
from api.structural import Form
from core.jobs import meta
from core.jobs.admission import metadata
from core.jobs.fields import Path, Setting, at, dotted
from core.jobs.job_reader import Slot
from core.jobs.topology_request import NOT_INDEXED, PodIndex, topology_request
from core.model import Raw, Workload

FORM: Final = Form(
    fields(
        metadata=METADATA,
        spec=fields(
            replicas=INTEGER,
            template=POD_TEMPLATE,
            leaderWorkerTemplate=fields(size=INTEGER, leaderTemplate=POD_TEMPLATE, workerTemplate=POD_TEMPLATE),
        ),
    )
)
MOST_GROUPS: Final = 1_000_000
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
"""The label by which a pod belongs to a LeaderWorkerSet."""
LEADER, WORKER = "leader", "worker"
"""The pod sets of a group of a LeaderWorkerSet."""
ORDINAL: Final = PodIndex("apps.kubernetes.io/pod-index")
WORKER_INDEX: Final = PodIndex("leaderworkerset.sigs.k8s.io/worker-index")


@dataclass(frozen=True, slots=True)
class PodOwner:
    """A kind whose pods are queued. ``templates`` are the paths of its pod templates.

    ``labels_pods``: its template gets the queue and the classes; otherwise the controller sets them on each pod.
    ``optional``: its definition may be missing, as that of a CRD. ``makes``: as of a ``JobKind``.
    """

    framework: str
    resource: Resource
    templates: tuple[Path, ...] = (("spec", "template"),)
    labels_pods: bool = True
    optional: bool = False
    makes: tuple[str, ...] = ()

    def slots(self, owner: Raw) -> list[Slot]:
        """The pod sets of one Workload of the object: one pod."""
        return [Slot(names.DEFAULT_POD_SET, 1, self.templates[0])]

    def workloads(self, owner: Raw) -> int:
        """How many Workloads the object has."""
        return replicas(owner)

    unit = "pod"
    """What has a Workload by itself."""

    def marks(self, owner: Raw) -> list[Setting]:
        """The fields of the pod templates of a queued object, by which its pods are gated and queued."""
        found = []
        for path in self.templates:
            if at(owner, path) is None:
                continue
            found.append(Setting((*path, "metadata", "annotations", Annotation.POD_SUSPENDING_PARENT), self.framework))
            labels = self._labels(owner) if self.labels_pods else {}
            found += [Setting((*path, "metadata", "labels", key), value) for key, value in labels.items()]
        return found

    def errors(self, owner: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a new or changed object."""
        errors = metadata.on_create(owner, enabled)
        if meta.elastic(owner):
            detail = f'elastic job is not supported for "{self.resource.api_version}, Kind={self.resource.kind}"'
            errors.append(forbidden(metadata.ELASTIC, detail))
        return errors

    def change_errors(self, old: Raw, new: Raw, enabled: Enabled, workload: Workload | None = None) -> list[FieldError]:
        """Returns the errors of a change: a queue stays while a pod is ready, and is not removed."""
        suspended = not (old.get("status") or {}).get("readyReplicas")
        errors = metadata.on_update(
            old, new, enabled, was_suspended=suspended, suspended=suspended, default_queue=False
        )
        if suspended and meta.queue_name(old) and not meta.queue_name(new):
            errors.append(invalid(metadata.QUEUE_NAME, "", metadata.IMMUTABLE))
        return errors

    def of_another(self, owner: Raw) -> bool:
        """Whether the pods are queued because of another object, which created this one."""
        return False

    def _parents(self, owner: Raw) -> list[str]:
        """The values by which the templates are marked: the frameworks that queue the pods."""
        found = (meta.annotations(at(owner, path) or {}) for path in self.templates)
        return [each[Annotation.POD_SUSPENDING_PARENT] for each in found if Annotation.POD_SUSPENDING_PARENT in each]

    def _labels(self, owner: Raw) -> dict[str, str]:
        labels = {
            Label.MANAGED: "true",
            Label.QUEUE_NAME: meta.queue_name(owner),
            Label.PRIORITY_CLASS: meta.priority_class(owner),
        }
        return {key: value for key, value in labels.items() if value}


class _StatefulSets(PodOwner):
    """Their pods form a group: the number of replicas is fixed while they run, and so is what admission depends on."""

    __slots__ = ()

    def of_another(self, owner: Raw) -> bool:
        """Whether the pods are those of a LeaderWorkerSet, which creates StatefulSets."""
        return any(each != self.framework for each in self._parents(owner))

    def slots(self, owner: Raw) -> list[Slot]:
        """One pod set of all pods."""
        return [Slot(names.DEFAULT_POD_SET, replicas(owner), self.templates[0], field="replicas", index=ORDINAL)]

    def workloads(self, owner: Raw) -> int:
        """One, except without replicas."""
        return min(1, replicas(owner))

    def change_errors(self, old: Raw, new: Raw, enabled: Enabled, workload: Workload | None = None) -> list[FieldError]:
        """Returns the errors of a change: replicas only to zero and from zero."""
        errors = PodOwner.change_errors(self, old, new, enabled)
        if not (meta.queue_name(new) or self.framework in self._parents(new)):
            return errors
        before, after = replicas(old), replicas(new)
        if before and after and before != after:
            errors.append(invalid("spec.replicas", after, metadata.IMMUTABLE))
        if not before and after and (new.get("status") or {}).get("replicas"):
            errors.append(forbidden("spec.replicas", "scaling down is still in progress"))
        elif not before and after and workload is not None and _still_used(workload):
            errors.append(forbidden("spec.replicas", "workload from previous scale-down is still being deleted"))
        return errors + _shape_errors(self.templates[0], old, new)


def _still_used(workload: Workload) -> bool:
    """Whether the Workload of a StatefulSet without replicas still has the quota of the former ones."""
    reserved = workload.holds(Condition.QUOTA_RESERVED) and not workload.holds(Condition.FINISHED)
    return workload.deleting or reserved


class _LeaderWorkerSets(PodOwner):
    """Each group of a leader and its workers has a Workload: the number of groups may change, their size may not."""

    __slots__ = ()
    unit = "group"

    def slots(self, owner: Raw) -> list[Slot]:
        """The leader and the workers of a group, or all its pods if they have one template."""
        size, (leader, workers) = group_size(owner), self.templates
        if at(owner, leader) is None:
            return [Slot(names.DEFAULT_POD_SET, size, workers, field="size", index=WORKER_INDEX)]
        return [
            Slot(LEADER, 1, leader, called="the leader"),
            Slot(WORKER, size - 1, workers, called="the workers", field="the number of workers", index=WORKER_INDEX),
        ]

    def marks(self, owner: Raw) -> list[Setting]:
        """As of other kinds; the pods serve, and the controller sets their group. Workers beside a leader are numbered
        from 1: the first of them has the first place in a topology, unless they are placed in a group with their
        leader.
        """
        found = [each for each in PodOwner.marks(self, owner) if each.path[-1] != Label.MANAGED]
        there = (path for path in self.templates if at(owner, path) is not None)
        serving = [Setting((*path, "metadata", "annotations", Annotation.POD_GROUP_SERVING), "true") for path in there]
        leader, workers = self.templates
        asked = meta.annotations(at(owner, workers) or {})
        grouped = Annotation.POD_SET_GROUP_NAME in asked
        if at(owner, leader) is None or grouped or topology_request(asked, NOT_INDEXED) is None:
            return found + serving
        return [*found, *serving, Setting((*workers, "metadata", "annotations", Annotation.POD_INDEX_OFFSET), "1")]

    def errors(self, owner: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a new or changed object: also too many groups."""
        errors = PodOwner.errors(self, owner, enabled)
        if replicas(owner) > MOST_GROUPS:
            errors.append(invalid("spec.replicas", replicas(owner), f"should be less or equal to {MOST_GROUPS}"))
        return errors

    def change_errors(self, old: Raw, new: Raw, enabled: Enabled, workload: Workload | None = None) -> list[FieldError]:
        """Returns the errors of a change: the size of a group and what admission depends on stay."""
        errors = PodOwner.change_errors(self, old, new, enabled)
        if not (meta.queue_name(new) or self.framework in self._parents(new)):
            return errors
        for path in self.templates:
            before, after = at(old, path), at(new, path)
            if (before is None) != (after is None):
                errors.append(invalid(dotted(path), after, metadata.IMMUTABLE))
            elif after is not None:
                errors += _shape_errors(path, old, new)
        if enabled("LWSImmutableGroupSize") and group_size(old) != group_size(new):
            errors.append(invalid("spec.leaderWorkerTemplate.size", group_size(new), metadata.IMMUTABLE))
        return errors


def _shape_errors(path: Path, old: Raw, new: Raw) -> list[FieldError]:
    """Returns the errors about fields of a pod template that admission depends on."""
    before, after = (shape(at(each, (*path, "spec")) or {}) for each in (old, new))
    changed = [field for field in sorted(before.keys() | after.keys()) if before.get(field) != after.get(field)]
    return [invalid(dotted((*path, "spec", field)), after.get(field), metadata.IMMUTABLE) for field in changed]


def group_size(owner: Raw) -> int:
    """The number of pods of a group of a LeaderWorkerSet."""
    found = at(owner, ("spec", "leaderWorkerTemplate", "size"))
    return 1 if found is None else int(found)


_HASHED: Final = (
    *("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority"),
    *("topologySpreadConstraints", "overhead", "resourceClaims"),
)


def replicas(owner: Raw) -> int:
    """The number of pods, 1 where the field is absent."""
    found = (owner.get("spec") or {}).get("replicas")
    return 1 if found is None else int(found)


def shape(spec: Raw) -> Raw:
    """Returns the fields of a pod's spec that admission depends on, as Kueue's role hash has them."""

    def containers(field: str) -> list[Raw] | None:
        return [
            {"ports": each.get("ports"), "resources": {"requests": (each.get("resources") or {}).get("requests")}}
            for each in spec.get(field) or ()
        ] or None

    found = {name: spec.get(name) for name in _HASHED}
    found |= {"containers": containers("containers"), "initContainers": containers("initContainers")}
    if spec.get("resources"):
        found["resources"] = spec["resources"].get("requests")
    return found


DEPLOYMENT: Final = PodOwner("deployment", Resource("apps", "v1", "deployments", "Deployment"), makes=("ReplicaSet",))
STATEFUL_SET: Final = _StatefulSets(
    "statefulset", Resource("apps", "v1", "statefulsets", "StatefulSet"), labels_pods=False
)
LEADER_WORKER_SET: Final = _LeaderWorkerSets(
    "leaderworkerset.x-k8s.io/leaderworkerset",
    Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    templates=(
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    optional=True,
    makes=("StatefulSet",),
)
POD_OWNERS: Final = (DEPLOYMENT, STATEFUL_SET, LEADER_WORKER_SET)
GROUP_OWNERS: Final = (STATEFUL_SET, LEADER_WORKER_SET)
"""Those whose pods form groups: their controller creates the Workloads."""


def pod_owner_of(raw: Raw) -> PodOwner | None:
    """The kind of an object whose pods are queued, by its ``apiVersion`` and ``kind``; None for any other object."""
    named = (raw.get("apiVersion"), raw.get("kind"))
    return next((each for each in POD_OWNERS if (each.resource.api_version, each.resource.kind) == named), None)
