"""Extended resources that a DeviceClass stands for: the one in its ``spec.extendedResourceName``, and one that has its
own name. kube-scheduler makes claims for them, and they count like claims of that class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Final, NamedTuple

from api import quantity
from api.errors import FieldError, invalid
from core.devices.claims import MOST
from core.devices.mapping import DeviceRules
from core.devices.model import DeviceClass


class ContainerRequests(NamedTuple):
    """What a container requests: its path in the pod spec, the exact amounts, and the texts that a user wrote."""

    path: str
    amounts: Mapping[str, Fraction]
    texts: Mapping[str, object]


class Extended(NamedTuple):
    """What the extended resources of a pod count for, which of them are no longer counted themselves, and errors."""

    amounts: Mapping[str, int] = {}
    replaced: frozenset[str] = frozenset()
    errors: tuple[FieldError, ...] = ()


IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of each class: the resource under which Kubernetes offers it, whatever the class says."""


def resources_of(each: DeviceClass) -> tuple[str, ...]:
    """The resources that a class stands for."""
    own = IMPLICIT + each.name
    return (own, each.extended_resource) if is_extended(each.extended_resource) else (own,)


def is_extended(resource: str) -> bool:
    """Whether a resource is no native one of Kubernetes."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def selected(classes: Iterable[DeviceClass]) -> DeviceClass | None:
    """Returns the class that Kubernetes takes of several for one resource: the newest, of these the first by name."""
    found: DeviceClass | None = None
    for each in sorted(classes, key=lambda each: each.name):
        if found is None or each.created > found.created:
            found = each
    return found


def extended(
    init: Sequence[ContainerRequests],
    main: Sequence[ContainerRequests],
    backing: Mapping[str, DeviceClass],
    rules: DeviceRules,
) -> Extended:
    """Returns what a pod's requests of the resources in ``backing`` count for. Containers run together, init containers
    one after the other.
    """
    amounts: dict[str, int] = {}
    replaced: list[str] = []
    errors: list[FieldError] = []
    for resource in sorted({name for each in (*init, *main) for name in each.amounts if name in backing}):
        asking = [each for each in (*init, *main) if each.amounts.get(resource, 0) > 0]
        if not asking:
            continue
        problems = _problems(resource, asking, backing[resource], rules)
        if problems:
            errors += problems
            continue
        before, together = ([each.amounts.get(resource, Fraction(0)) for each in group] for group in (init, main))
        total = max(sum((amount for amount in together if amount > 0), Fraction(0)), *before, Fraction(0))
        if total > MOST:
            where = f"{asking[0].path}.resources.requests.{resource}"
            texts = [each.texts.get(resource, 0) for each in main if each.amounts.get(resource, 0) > 0]
            errors.append(invalid(where, str(reduce(quantity.total, texts)), _TOO_MUCH))
            continue
        counted = rules.resources.get(backing[resource].name, resource)
        replaced.append(resource)
        amounts[counted] = min(amounts.get(counted, 0) + int(total), MOST)
    if errors:
        return Extended(errors=tuple(errors))
    return Extended(amounts, frozenset(replaced))


_TOO_MUCH = "total extended resource quantity overflows int64"


def _problems(
    resource: str, asking: Sequence[ContainerRequests], backing: DeviceClass, rules: DeviceRules
) -> list[FieldError]:
    where = f"extended resource {resource} resolves to DeviceClass {backing.name} with"
    if rules.by_counter(backing.name):
        how = "use ResourceClaimTemplates with CEL selectors for counter-based quota"
        return [invalid(asking[0].path, resource, f"{where} counters configured; {how}")]
    if rules.by_capacity(backing.name):
        how = "use ResourceClaimTemplates with capacity.requests for capacity-based quota"
        return [invalid(asking[0].path, resource, f"{where} capacity sources configured; {how}")]
    return [
        invalid(
            f"{each.path}.resources.requests.{resource}",
            quantity.canonical(each.texts.get(resource, 0)),
            "extended resource quantity must be an integer",
        )
        for each in asking
        if each.amounts[resource].denominator != 1 or each.amounts[resource] > MOST
    ]
