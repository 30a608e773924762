"""What the kinds whose pods form groups have in common: the Workload of a group, and the marks of its pods."""

from __future__ import annotations

from collections.abc import Sequence

from api import names
from api.names import Annotation, Label
from core.actions import Patch, Write, Writes
from core.jobs import meta
from core.jobs.actions import CreateWorkload, Problem
from core.jobs.fields import at
from core.jobs.kinds.pod import target
from core.jobs.pod_owners import PodOwner
from core.jobs.topology_request import topology_request
from core.model import Raw
from core.wire.guard import guarded
from core.workload import priority
from core.workload.priority import Missing, PriorityClasses

GroupStep = Write | Writes | Problem


def created(
    kind: PodOwner, owner: Raw, name: str, pod_sets: Sequence[Raw], classes: PriorityClasses, **annotations: str
) -> CreateWorkload | Problem:
    """Returns the Workload of a group, which the object owns and does not control; ``annotations`` are others."""
    found = priority.of_job(meta.priority_class(owner), pod_sets, classes, namespace=owner["metadata"]["namespace"])
    if isinstance(found, Missing):
        by_class = found.kind == names.Kind.WORKLOAD_PRIORITY_CLASS
        event = names.Event.WORKLOAD_PRIORITY_CLASS_NOT_FOUND if by_class else names.Event.ERR_WORKLOAD_COMPOSE
        return Problem(event, str(found))
    metadata, mine = owner["metadata"], ownership(kind, owner)
    gates, queue = meta.annotations(owner).get(Annotation.ADMISSION_GATED_BY), meta.queue_name(owner)
    own = {
        Annotation.IS_GROUP_WORKLOAD: "true",
        **mine["annotations"],
        **found.get("metadata", {}).get("annotations", {}),
        **({Annotation.ADMISSION_GATED_BY: gates} if gates else {}),
        **annotations,
    }
    return CreateWorkload(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.Kind.WORKLOAD,
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                **mine,
                "annotations": own,
                "finalizers": [names.Finalizer.RESOURCE_IN_USE],
            },
            "spec": {**({"queueName": queue} if queue else {}), "podSets": list(pod_sets), **found["spec"]},
        }
    )


def taken(name: str) -> Problem:
    """Reports that another owner has the Workload with the name that the object's has; its pods wait."""
    text = f'Workload "{name}" is that of another owner: delete the pods whose group has that name, then the Workload'
    return Problem(names.Event.WORKLOAD_NAME_CONFLICT, text)


def of_another_cluster(owner: Raw) -> bool:
    """Whether the object runs here for another cluster, which makes its Workload."""
    return Label.MULTIKUEUE_ORIGIN in meta.labels(owner)


def naming_uid(owner: Raw) -> str:
    """The uid in the names of its Workloads: its own, or that of the object in the other cluster."""
    there = meta.annotations(owner).get(Annotation.MULTIKUEUE_ORIGIN_UID)
    return str(there) if there and of_another_cluster(owner) else meta.uid(owner)


def with_topology(kind: PodOwner, owner: Raw, pod_sets: Sequence[Raw]) -> list[Raw]:
    """Returns the pod sets with the topology requests that the annotations of the pod templates make."""
    asked = {
        slot.name: topology_request(meta.annotations(at(owner, slot.path) or {}), slot.index)
        for slot in kind.slots(owner)
    }
    return [{**each, "topologyRequest": found} if (found := asked.get(each["name"])) else each for each in pod_sets]


def ownership(kind: PodOwner, owner: Raw, others: Sequence[Raw] = ()) -> Raw:
    """Returns the metadata by which an object owns a Workload beside ``others``, and is found from it."""
    metadata, resource = owner["metadata"], kind.resource
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    own = {
        Annotation.JOB_OWNER_GVK: f"{resource.api_version}, Kind={resource.kind}",
        Annotation.JOB_OWNER_NAME: metadata["name"],
    }
    return {
        "labels": {Label.JOB_UID: metadata["uid"]},
        "annotations": own,
        "ownerReferences": [*others, reference],
    }


def adopted(kind: PodOwner, owner: Raw, raw: Raw) -> Raw:
    """Returns the change that makes the object an owner of a Workload; {} if it is one."""
    references = raw["metadata"].get("ownerReferences") or []
    if any(each["uid"] == meta.uid(owner) for each in references):
        return {}
    return {"metadata": ownership(kind, owner, references)}


def followed(owner: Raw, raw: Raw, classes: PriorityClasses) -> Raw:
    """Returns the change of a Workload whose owner has other gates or another priority class, in every state of it."""
    gates = meta.annotations(owner).get(Annotation.ADMISSION_GATED_BY) or None
    if gates != (meta.annotations(raw).get(Annotation.ADMISSION_GATED_BY) or None):
        return {"metadata": {"annotations": {Annotation.ADMISSION_GATED_BY: gates}}}
    patch = priority.followed(raw, meta.priority_class(owner), classes)
    return patch if patch and not isinstance(patch, Missing) else {}


def marked(owner: Raw, pod: Raw, group: str, *, total: int, role: str, **annotations: str) -> list[Patch]:
    """Makes the pod a member of the group; of a member only the queue and the number of pods change afterwards."""
    labels = {
        Label.MANAGED: "true",
        Label.QUEUE_NAME: meta.queue_name(owner),
        Label.PRIORITY_CLASS: meta.priority_class(owner),
    }
    own = {
        Annotation.POD_GROUP_NAME: group,
        Annotation.PREBUILT_WORKLOAD: group,
        Annotation.POD_GROUP_TOTAL_COUNT: str(total),
        Annotation.POD_GROUP_SERVING: "true",
        Annotation.ROLE_HASH: role,
        **annotations,
    }
    if meta.pod_group(pod) == group:
        labels, own = {Label.QUEUE_NAME: meta.queue_name(owner)}, {Annotation.POD_GROUP_TOTAL_COUNT: str(total)}
    missing = {key: value for key, value in labels.items() if value and meta.labels(pod).get(key) != value}
    other = {key: value for key, value in own.items() if meta.annotations(pod).get(key) != value}
    if not missing and not other:
        return []
    body = {"metadata": {"labels": missing, "annotations": other}}
    return [Patch(guarded(body, pod, version=False), target=target(pod))]
