"""Whether pods can run on the nodes of a flavor: label selectors, node selector and affinity, taints and tolerations.

Separate from the search for flavors because it knows no quota: it depends on a pod set and a flavor alone, so its
answers may be kept for as long as both stay the same. The rules are Kubernetes' own, restricted as Kueue restricts
them: a flavor is judged by the label keys that it defines, what pods say about other keys is left to kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.model import Labels, Placement, Requirement, ResourceFlavor, Selector, Taint, Toleration

_REPELLING = frozenset({"NoSchedule", "NoExecute"})


def matches(selector: Selector, labels: Labels) -> bool:
    """Whether a label selector selects these labels; a selector without requirements selects everything."""
    return all(holds(requirement, labels) for requirement in selector.requirements)


def holds(requirement: Requirement, labels: Labels) -> bool:
    """Whether one term holds for these labels; Gt and Lt compare integers, and are false for anything else."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and len(requirement.values) == 1 and _beyond(requirement, value)
        case _:
            return False


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration lets pods onto nodes with the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt" as operator:
            return _beyond(Requirement(taint.key, operator, (toleration.value,)), taint.value)
        case _:
            return False


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps the pods away; PreferNoSchedule keeps nobody away."""
    for taint in taints:
        if taint.effect in _REPELLING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def selects(placement: Placement, labels: Labels) -> bool:
    """Whether node selector and required affinity allow nodes with these labels, seen by the keys of the labels alone.

    An affinity term that says nothing about these keys allows every node, and as terms are alternatives, so does the
    whole affinity then.
    """
    for key, value in placement.node_selector.items():
        if key in labels and labels[key] != value:
            return False
    terms = [[r for r in term if r.key in labels] for term in placement.affinity or ()]
    if not all(terms):
        return True
    return not terms or any(all(holds(requirement, labels) for requirement in term) for term in terms)


def mismatch(placement: Placement, flavor: ResourceFlavor) -> str | None:
    """Why pods placed so cannot run on the flavor's nodes, in Kueue's words; None when they can."""
    taint = untolerated(flavor.node_taints, placement.tolerations + flavor.tolerations)
    if taint is not None:
        # Kueue prints the taint as Go prints the struct; the last field is the time it was added.
        return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {flavor.name}"
    if not selects(placement, flavor.node_labels):
        return f"flavor {flavor.name} doesn't match node affinity"
    return None


def _beyond(requirement: Requirement, value: str) -> bool:
    """Whether the integer ``value`` is greater (Gt) or less (Lt) than that of the requirement."""
    found, bound = _integer(value), _integer(requirement.values[0])
    if found is None or bound is None:
        return False
    return found > bound if requirement.operator == "Gt" else found < bound


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() else None
