"""Whether pods can run on the nodes of a flavor: label selectors, node selector and affinity, taints and tolerations.

Separate from the search for flavors because it does not know quota: the result depends on a pod set and a flavor only,
so it may be cached while both stay the same. The rules are Kubernetes' own, restricted as in Kueue: a flavor is
compared by the label keys that it defines; requirements for other keys are left to kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from api import syntax
from api.errors import FieldError, invalid, not_supported
from core.model import NODE_NAME, Labels, Placement, Requirement, ResourceFlavor, Selector, Taint, Toleration

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REPELLING = frozenset({"NoSchedule", "NoExecute"})


def matches(selector: Selector, labels: Labels) -> bool:
    """Whether a label selector selects these labels; a selector without requirements selects everything."""
    return not selector.requirements or all(holds(requirement, labels) for requirement in selector.requirements)


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
    """Returns the first taint that the pods do not tolerate; PreferNoSchedule is ignored."""
    for taint in taints:
        if taint.effect in _REPELLING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def selects(placement: Placement, labels: Labels) -> bool:
    """Whether node selector and required affinity allow nodes with these labels, considering only the keys of the
    labels.

    An affinity term without these keys allows every node, and because terms are alternatives, so does the whole
    affinity.
    """
    for key, value in placement.node_selector.items():
        if key in labels and labels[key] != value:
            return False
    terms = _terms(placement, labels)
    return not terms or any(
        all(holds(requirement, labels) for requirement in term) and not _mistakes(index, term)
        for index, term in enumerate(terms)
    )


def allows(placement: Placement, labels: Labels) -> bool:
    """Whether node selector and required affinity allow a node with exactly these labels, as kube-scheduler decides. A
    requirement for the name of the node counts as fulfilled.
    """
    if not placement.node_selector.items() <= labels.items():
        return False
    terms = placement.affinity
    return not terms or any(all(r.key == NODE_NAME or holds(r, labels) for r in term) for term in terms)


class Mismatch(NamedTuple):
    """Returns why pods cannot run on the nodes of a flavor, with Kueue's text; ``malformed`` if it is a mistake of the
    pods, so that no other flavor is tried.
    """

    text: str
    malformed: bool = False


def mismatch(placement: Placement, flavor: ResourceFlavor) -> Mismatch | None:
    """Why pods placed so cannot run on the flavor's nodes; None when they can."""
    taint = untolerated(flavor.node_taints, placement.tolerations + flavor.tolerations)
    if taint is not None:
        # Kueue prints the taint as Go prints the struct; the last field is the time it was added.
        return Mismatch(f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {flavor.name}")
    if selects(placement, flavor.node_labels):
        return None
    mistake = unreadable(placement, flavor.node_labels)
    return Mismatch(mistake or f"flavor {flavor.name} doesn't match node affinity", malformed=bool(mistake))


def unreadable(placement: Placement, labels: Labels) -> str:
    """Returns the mistake in the affinity terms with these labels, of which none matches.

    The API server accepts no such pod, but pod templates inside other CRDs can contain anything; kube-scheduler would
    place none of these pods.
    """
    if any(labels.get(key, value) != value for key, value in placement.node_selector.items()):
        return ""
    terms = _terms(placement, labels)
    found = dict.fromkeys(str(error) for index, term in enumerate(terms) for error in _mistakes(index, term))
    return ", ".join(found) if len(found) < 2 else f"[{', '.join(found)}]"


def _terms(placement: Placement, labels: Labels) -> list[list[Requirement]]:
    """Returns the affinity terms with their requirements for these labels; none if a term has no such requirement."""
    terms = [[r for r in term if r.key in labels] for term in placement.affinity or ()]
    return terms if all(terms) else []


def _mistakes(index: int, term: list[Requirement]) -> list[FieldError]:
    found = []
    for place, requirement in enumerate(term):
        found += _malformed(f"nodeSelectorTerms[{index}].matchExpressions[{place}]", requirement)
    return found


def _malformed(path: str, requirement: Requirement) -> list[FieldError]:
    """Returns the errors that apimachinery's ``labels.NewRequirement`` would return."""
    operator, values, where = requirement.operator, requirement.values, f"{path}.values"
    found: list[FieldError] = []
    match operator:
        case "In" | "NotIn":
            if not values:
                found.append(invalid(where, None, "for 'in', 'notin' operators, values set can't be empty"))
        case "Exists" | "DoesNotExist":
            if values:
                text = "values set must be empty for exists and does not exist"
                found.append(invalid(where, list(values), text))
        case "Gt" | "Lt":
            if len(values) != 1:
                text = "for 'Gt', 'Lt' operators, exactly one value is required"
                found.append(invalid(where, list(values) or None, text))
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            wrong = [index for index, value in enumerate(values) if _integer(value) is None]
            found += [invalid(f"{where}[{index}]", values[index], text) for index in wrong]
        case _:
            return [not_supported(f"{path}.operator", operator, _OPERATORS)]
    for index, value in enumerate(values):
        texts = "; ".join(syntax.label_value(value))
        if texts:
            found.append(invalid(f"{where}[{index}][{requirement.key}]", value, texts))
    return found


def _beyond(requirement: Requirement, value: str) -> bool:
    """Whether the integer ``value`` is greater (Gt) or less (Lt) than that of the requirement."""
    found, bound = _integer(value), _integer(requirement.values[0])
    if found is None or bound is None:
        return False
    return found > bound if requirement.operator == "Gt" else found < bound


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:  # int() refuses thousands of them
        return None
    return value if -(2**63) <= (value := int(text)) < 2**63 else None
