"""The pods that a request asks for: which pod sets need nodes, which of them share a PodTemplate, and that template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from api import quantity
from core.jobs.template import inject, of_flavors, same
from core.model import PodSetAssignment, Raw, Workload
from core.provisioning.config import Config

IDENTICAL_TEMPLATES = "IdenticalPodTemplates"

_CONTAINERS = ("containers", "initContainers")
_PLACEMENT = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")
"""The parts of a pod that decide, beside the requests of its containers, on which nodes it can run."""


@dataclass(frozen=True, slots=True)
class Pods:
    """``count`` pods with the template of ``pod_set``; ``names`` are the pod sets that share it, its own first."""

    names: tuple[str, ...]
    count: int
    pod_set: Raw
    assignment: PodSetAssignment

    @property
    def name(self) -> str:
        """The name of the pod set whose template is used."""
        return self.names[0]


def asked(workload: Workload, raw: Raw, config: Config) -> tuple[Pods, ...]:
    """Returns the pods that need nodes, in the order of the pod sets; nothing if no pod set does.

    A pod set needs none if it has no pods, or asks for no resource that the autoscaler manages.
    """
    given = {each.name: each for each in workload.admission.pod_sets} if workload.admission is not None else {}
    found: list[Pods] = []
    for pod_set in (raw.get("spec") or {}).get("podSets") or ():
        assignment = given.get(pod_set["name"])
        if assignment is None or assignment.count <= 0 or not _managed(pod_set, config.managed):
            continue
        place = next((i for i, each in enumerate(found) if _alike(each.pod_set, pod_set, config.merge_policy)), None)
        if place is None:
            found.append(Pods((assignment.name,), assignment.count, pod_set, assignment))
        else:
            first = found[place]
            names = (*first.names, assignment.name)
            found[place] = replace(first, names=names, count=first.count + assignment.count)
    return tuple(found)


def template(pods: Pods, flavors: Mapping[str, Raw]) -> Raw:
    """Returns the pod template with which nodes are asked for: where its flavors put the pods, and requests that are
    given only as limits. Raises ConflictError or FlavorMissingError, as when the job starts.
    """
    made = inject(pods.pod_set.get("template") or {}, of_flavors(pods.assignment, flavors))
    spec = _with_requests(made["spec"])
    for part in _CONTAINERS:
        if spec.get(part):
            spec = {**spec, part: [_with_requests(each) for each in spec[part]]}
    return {**made, "spec": spec}


def _with_requests(container: Raw) -> Raw:
    """The container, or the pod, with requests for what it only limits."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}} if requests else container


def _managed(pod_set: Raw, managed: frozenset[str]) -> bool:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    return not managed or any(
        name in managed
        for part in _CONTAINERS
        for container in spec.get(part) or ()
        for amounts in ("requests", "limits")
        for name in (container.get("resources") or {}).get(amounts) or ()
    )


def _alike(these: Raw, those: Raw, policy: str) -> bool:
    """Whether two pod sets share one template."""
    if not policy:
        return False
    one, other = _exact(these.get("template") or {}), _exact(those.get("template") or {})
    return same(one, other) if policy == IDENTICAL_TEMPLATES else same(_requirements(one), _requirements(other))


def _requirements(template: Raw) -> Raw:
    spec = template.get("spec") or {}
    requests = {part: [*map(_requests, spec.get(part) or ())] for part in _CONTAINERS}
    return {**requests, **{part: spec.get(part) for part in _PLACEMENT}}


def _requests(container: Raw) -> Any:
    return (container.get("resources") or {}).get("requests")


def _exact(template: Raw) -> Raw:
    """The template with amounts as numbers: ``1`` and ``1000m`` are the same."""
    spec = template.get("spec") or {}
    parts = {part: [_with_numbers(each) for each in spec[part]] for part in _CONTAINERS if spec.get(part)}
    whole = {"resources": _numbers(spec["resources"])} if spec.get("resources") else {}
    return {**template, "spec": {**spec, **parts, **whole}}


def _with_numbers(container: Raw) -> Raw:
    resources = container.get("resources")
    return {**container, "resources": _numbers(resources)} if resources else container


def _numbers(resources: Raw) -> Raw:
    found = {kind: _amounts(resources[kind].items()) for kind in ("requests", "limits") if resources.get(kind)}
    return {**resources, **found}


def _amounts(amounts: Iterable[tuple[str, object]]) -> Raw:
    return {name: quantity.exact(value) for name, value in amounts}
