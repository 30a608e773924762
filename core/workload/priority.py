"""The source of a Workload's priority, and when it follows its class (KEP-973).

The WorkloadPriorityClass of the job's label is used, else the PriorityClass of the pods, else the cluster's default,
else 0. A change of the class's value or of the label changes the Workload immediately. In Kueue this overwrites a value
that a person set on the Workload; here that value is kept: an annotation stores the last value of the class, and if
``spec.priority`` differs from it, a person has set it. To follow the class again, set the priority to the annotation's
value. A Workload without the annotation (created by Kueue) gets it if its priority is that of its class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from api import names
from core.model import Raw

KUBE_SYSTEM: Final = "kube-system"
EVERY_NAMESPACE: Final = "*"
OF_THE_SYSTEM: Final = "system-"
"""The prefix of Kubernetes' own PriorityClasses, the only ones above 1,000,000,000; every user can name them."""


@dataclass(frozen=True, slots=True)
class PriorityClasses:
    """Values by name of the WorkloadPriorityClasses and PriorityClasses there are; ``default`` names the global one.

    ``system_namespaces``: the namespaces in which Kubernetes' own classes (``system-``) order the queue; "*" for all.
    """

    workload: Mapping[str, int] = field(default_factory=dict)
    pod: Mapping[str, int] = field(default_factory=dict)
    default: str | None = None
    system_namespaces: frozenset[str] = frozenset({KUBE_SYSTEM})

    def counts(self, name: str, namespace: str) -> bool:
        """Whether a PriorityClass of pods in this namespace gives their Workload its priority."""
        return not name.startswith(OF_THE_SYSTEM) or not self.system_namespaces.isdisjoint({namespace, EVERY_NAMESPACE})


@dataclass(frozen=True, slots=True)
class Missing:
    """A class that is named and does not exist."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}" not found'


def value_of(raw: Raw) -> int:
    """The value of a WorkloadPriorityClass or a PriorityClass."""
    return int(raw["value"])


def of_job(
    class_name: str, pod_sets: Sequence[Raw], classes: PriorityClasses, *, namespace: str, of_pods: str = ""
) -> Raw | Missing:
    """Returns the parts of a new Workload with its priority (``spec`` fields, annotation), or the class that is
    missing.

    ``class_name`` is that of the job's label, '' for none, and ``of_pods`` the PriorityClass that the job names outside
    of its pod templates. A class of the system is ignored where it does not count.
    """
    if class_name:
        return _of_workload_class(class_name, classes)
    named = (of_pods, *map(_pod_class, pod_sets))
    name = next((found for found in named if found and classes.counts(found, namespace)), classes.default)
    if name is None:
        return {"spec": {"priority": names.DEFAULT_PRIORITY}}
    value = classes.pod.get(name)
    if value is None:
        return Missing("PriorityClass", name)
    ref = {"group": names.SCHEDULING_GROUP, "kind": "PriorityClass", "name": name}
    return {"spec": {"priority": value, "priorityClassRef": ref}}


def followed(workload: Raw, class_name: str, classes: PriorityClasses) -> Raw | Missing | None:
    """Returns the merge patch with which a Workload follows its class; None if no change is needed or it does not
    follow one.

    ``class_name`` is the present value of the job's label, '' to keep the class.
    """
    spec = workload.get("spec") or {}
    ref = spec.get("priorityClassRef")
    if ref is not None and ref.get("kind") != names.Kind.WORKLOAD_PRIORITY_CLASS:
        return None
    if ref is None and (not class_name or _reserved(workload)):
        return None  # the API refuses a class for a Workload that holds quota without one
    has = ref["name"] if ref else ""
    wanted = class_name or has
    changed = has != wanted
    value = classes.workload.get(wanted)
    if value is None:
        return Missing(names.Kind.WORKLOAD_PRIORITY_CLASS, wanted) if changed else None
    recorded = (workload["metadata"].get("annotations") or {}).get(names.Annotation.CLASS_PRIORITY)
    by_hand = bool(has) and _set_by_hand(spec.get("priority"), recorded, classes.workload.get(has))
    if not changed and (recorded == str(value) or by_hand):
        return None
    patch = _of_workload_class(wanted, classes)
    assert not isinstance(patch, Missing)
    if by_hand or spec.get("priority") == value:
        del patch["spec"]["priority"]
    if not changed:
        del patch["spec"]["priorityClassRef"]
    return {part: content for part, content in patch.items() if content}


def _of_workload_class(name: str, classes: PriorityClasses) -> Raw | Missing:
    value = classes.workload.get(name)
    if value is None:
        return Missing(names.Kind.WORKLOAD_PRIORITY_CLASS, name)
    ref = {"group": names.GROUP, "kind": names.Kind.WORKLOAD_PRIORITY_CLASS, "name": name}
    return {
        "metadata": {"annotations": {names.Annotation.CLASS_PRIORITY: str(value)}},
        "spec": {"priority": value, "priorityClassRef": ref},
    }


def _set_by_hand(priority: int | None, recorded: str | None, of_class: int | None) -> bool:
    if recorded is not None:
        return str(priority) != recorded
    return of_class is not None and priority != of_class


def _pod_class(pod_set: Raw) -> str:
    name: str = ((pod_set.get("template") or {}).get("spec") or {}).get("priorityClassName") or ""
    return name


def _reserved(workload: Raw) -> bool:
    return (workload.get("status") or {}).get("admission") is not None
