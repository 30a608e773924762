"""Rules of resource groups and their quotas: the same for ClusterQueues and Cohorts, except for what a limit
requires.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from api.errors import FieldError, broken_rule, duplicate, invalid
from api.objects import Raw
from api.quantity import canonical, exact
from api.validate.common import not_negative, resource_name

_MOST_FLAVORS: Final = 256
_MOST_RESOURCES: Final = 256
_MOST_PAIRS: Final = 512


def resource_groups(
    path: str, groups: Sequence[Raw], *, parent: str, has_parent: bool, lending_within_nominal: bool
) -> list[FieldError]:
    """Errors of all groups. `parent` is what limits need in the words of the message: cohort, or parent."""
    errors = []
    resources: set[str] = set()
    flavors: set[str] = set()
    for index, group in enumerate(groups):
        at = f"{path}[{index}]"
        covered: Sequence[str] = group.get("coveredResources") or ()
        for place, name in enumerate(covered):
            here = f"{at}.coveredResources[{place}]"
            errors += resource_name(here, name)
            errors += [duplicate(here, name)] if name in resources else []
            resources.add(name)
        if any(len(flavor.get("resources") or ()) != len(covered) for flavor in group.get("flavors") or ()):
            errors.append(broken_rule(at, "flavors must have the same number of resources as the coveredResources"))
        for place, flavor in enumerate(group.get("flavors") or ()):
            here = f"{at}.flavors[{place}]"
            for error in _quotas(here, flavor.get("resources") or (), covered, parent, has_parent):
                errors.append(error)
            if lending_within_nominal:
                errors += _lending(here, flavor.get("resources") or ())
            errors += [duplicate(f"{here}.name", flavor["name"])] if flavor["name"] in flavors else []
            flavors.add(flavor["name"])
    return errors


def _quotas(
    path: str, quotas: Sequence[Raw], covered: Sequence[str], parent: str, has_parent: bool
) -> Iterator[FieldError]:
    for index, (quota, name) in enumerate(zip_longest(quotas, covered)):
        if quota is None:
            return  # too few: reported once for the group
        at = f"{path}.resources[{index}]"
        if quota["name"] != name:
            yield invalid(f"{at}.name", quota["name"], "must match the name in coveredResources")
        yield from not_negative(f"{at}.nominalQuota", quota["nominalQuota"])
        for limit in ("borrowingLimit", "lendingLimit"):
            if quota.get(limit) is None:
                continue
            yield from not_negative(f"{at}.{limit}", quota[limit])
            if not has_parent:
                yield invalid(f"{at}.{limit}", _canonical(quota[limit]), f"must be nil when {parent} is empty")


def _lending(path: str, quotas: Sequence[Raw]) -> list[FieldError]:
    errors = []
    for index, quota in enumerate(quotas):
        lending = quota.get("lendingLimit")
        if lending is None:
            continue
        try:
            exceeds = exact(lending) > exact(quota["nominalQuota"])
        except ValueError:
            continue  # reported already, with the reason
        if exceeds:
            errors.append(
                invalid(
                    f"{path}.resources[{index}].lendingLimit",
                    canonical(lending),
                    "must be less than or equal to the nominalQuota",
                )
            )
    return errors


def _canonical(value: Any) -> Any:
    try:
        return canonical(value)
    except ValueError:
        return value


def totals(path: str, groups: Sequence[Raw]) -> list[FieldError]:
    """The most flavors, resources and pairs of both that a ClusterQueue may have."""
    errors = []
    flavors = sum(len(group.get("flavors") or ()) for group in groups)
    if flavors > _MOST_FLAVORS:
        text = f"total number of flavors across all resourceGroups must be ≤ {_MOST_FLAVORS}, got {flavors}"
        errors.append(invalid(path, flavors, text))
    resources = sum(len(group.get("coveredResources") or ()) for group in groups)
    if resources > _MOST_RESOURCES:
        text = (
            f"total number of covered resources across all resourceGroups must be ≤ {_MOST_RESOURCES}, got {resources}"
        )
        errors.append(invalid(path, resources, text))
    for index, group in enumerate(groups):
        pairs = sum(len(flavor.get("resources") or ()) for flavor in group.get("flavors") or ())
        if pairs > _MOST_PAIRS:
            text = f"number of flavor-resource combinations in a resourceGroup must be ≤ {_MOST_PAIRS}, got {pairs}"
            errors.append(invalid(f"{path}[{index}]", pairs, text))
    return errors
