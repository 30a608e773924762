"""The objects of a worker cluster: copies of the Workload and of its job, with the label of their origin."""

from __future__ import annotations

from api.names import Annotation, Label, PreemptionGate
from core.jobs import meta
from core.jobs.mirrored import Mirrored
from core.model import Raw
from core.multikueue.group import Policy


def workload(raw: Raw, policy: Policy) -> Raw:
    """Returns the Workload to create in a worker: the same spec, and no owner, because its job is created later. Its
    preemption gates are its own. An annotation has the uid of the Workload here.
    """
    labels = {key: value for key, value in meta.labels(raw).items() if key != Label.JOB_UID}
    spec = {key: value for key, value in raw["spec"].items() if key != "preemptionGates"}
    if policy.orchestrated:
        spec["preemptionGates"] = [{"name": PreemptionGate.MULTIKUEUE}]
    marks = {
        "labels": labels | {Label.MULTIKUEUE_ORIGIN: policy.origin},
        "annotations": meta.annotations(raw) | {Annotation.MULTIKUEUE_ORIGIN_UID: meta.uid(raw)},
    }
    copied = {**raw, "metadata": {**raw["metadata"], **marks}}
    return {**_copy(copied), "spec": spec}


def differing(wanted: Raw, found: Raw) -> set[str]:
    """The fields in which the spec of a copy differs from the spec that it was created with."""
    return {key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)} - {"preemptionGates"}


def jobs(kind: Mirrored, job: Raw, of: Raw, origin: str) -> list[Raw]:
    """Returns the objects to create in a worker for a job and its Workload: they name that Workload."""
    name = of["metadata"]["name"]
    found = []
    for part in kind.parts(kind.for_worker(job, of["spec"]["podSets"])):
        marks, notes = kind.naming(part, name)
        labels = {**meta.labels(part), **marks, Label.MULTIKUEUE_ORIGIN: origin}
        annotations = {**meta.annotations(part), **notes}
        metadata = {**part["metadata"], "labels": labels, "annotations": annotations}
        typed = {"apiVersion": kind.api_version, "kind": kind.kind}
        found.append({**_copy({**typed, "metadata": metadata}), "spec": part["spec"]})
    return found


def _copy(raw: Raw) -> Raw:
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: raw["metadata"][key] for key in kept if raw["metadata"].get(key)}
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": metadata}
