"""v1alpha1 to the stored version and back: v0.1's ClusterQueue and ResourceFlavor, Cohort and Topology as of 0.9."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from api.convert.kept import MALFORMED, at, renamed, without
from api.names import Kind
from api.objects import Raw
from api.quantity import difference, total

Conversion = Callable[[Raw], Raw]


def _flavor_up(obj: Raw) -> Raw:
    spec: Raw = {}
    if "labels" in obj:
        spec["nodeLabels"] = obj["labels"]
    if "taints" in obj:
        spec["nodeTaints"] = obj["taints"]
    return {**without(obj, "labels", "taints"), "spec": spec}


def _flavor_down(obj: Raw) -> Raw:
    spec = obj.get("spec") or {}
    older = {}
    if "nodeLabels" in spec:
        older["labels"] = spec["nodeLabels"]
    if "nodeTaints" in spec:
        older["taints"] = spec["nodeTaints"]
    return {**without(obj, "spec"), **older}


def _cohort_up(obj: Raw) -> Raw:
    return at(obj, "spec", lambda spec: renamed(spec, "parent", "parentName"))


def _cohort_down(obj: Raw) -> Raw:
    return at(
        without(obj, "status"), "spec", lambda spec: renamed(without(spec, "fairSharing"), "parentName", "parent")
    )


def _queue_up(obj: Raw) -> Raw:
    return at(at(obj, "spec", _queue_spec_up), "status", _queue_status_up)


def _queue_down(obj: Raw) -> Raw:
    return at(at(obj, "spec", _queue_spec_down), "status", _queue_status_down)


def _queue_spec_up(spec: Raw) -> Raw:
    stored = renamed(without(spec, "resources"), "cohort", "cohortName")
    if "resources" not in spec:
        return stored
    return _unless_malformed(
        lambda: {**stored, "resourceGroups": _resource_groups(spec["resources"] or (), bool(spec.get("cohort")))},
        stored,
    )


def _unless_malformed(change: Callable[[], Raw], otherwise: Raw) -> Raw:
    """Fields of the wrong form are left out, and kept unchanged in the annotation.

    The API server converts an object before it checks its form; it then refuses it with the field's path. If the
    conversion failed instead, the client would get an internal error.
    """
    try:
        return change()
    except MALFORMED:
        return otherwise


def _resource_groups(found: Iterable[Raw], in_cohort: bool) -> list[Raw]:
    """Resources that have the same flavors in the same order become one group."""
    groups: dict[tuple[str, ...], list[Raw]] = {}
    for resource in found:
        flavors = tuple(flavor.get("name", "default") for flavor in resource.get("flavors") or ())
        groups.setdefault(flavors, []).append(resource)
    return [
        {
            "coveredResources": [resource["name"] for resource in resources],
            "flavors": [
                {
                    "name": name,
                    "resources": [
                        _quota_up(resource["name"], resource["flavors"][place].get("quota") or {}, in_cohort)
                        for resource in resources
                    ],
                }
                for place, name in enumerate(flavors)
            ],
        }
        for flavors, resources in groups.items()
    ]


def _quota_up(name: str, quota: Raw, in_cohort: bool) -> Raw:
    """`max` limits usage, including borrowed quota; without a cohort there is nothing to borrow and it has no
    effect.
    """
    least, most = quota.get("min", "0"), quota.get("max")
    limit = {"borrowingLimit": _exact(difference, most, least)} if most is not None and in_cohort else {}
    return {"name": name, "nominalQuota": least, **limit}


def _exact(combine: Callable[[Any, Any], int | str], first: Any, second: Any) -> Any:
    """A sum or difference; the first where a quantity is beyond reason: one such object must not break a list."""
    try:
        return combine(first, second)
    except ValueError:
        return first


def _queue_spec_down(spec: Raw) -> Raw:
    older = {
        key: spec[stored]
        for key, stored in (
            ("cohort", "cohortName"),
            ("namespaceSelector", "namespaceSelector"),
            ("queueingStrategy", "queueingStrategy"),
        )
        if stored in spec
    }
    if "resourceGroups" not in spec:
        return older
    resources = []
    for group in spec["resourceGroups"]:
        for place, name in enumerate(group["coveredResources"]):
            flavors = [
                {"name": flavor["name"], "quota": _quota_down(flavor["resources"][place])}
                for flavor in group["flavors"]
                if place < len(flavor["resources"])
            ]
            resources.append({"name": name, "flavors": flavors})
    return {**older, "resources": resources}


def _quota_down(quota: Raw) -> Raw:
    limit = quota.get("borrowingLimit")
    most = {} if limit is None else {"max": _exact(total, quota["nominalQuota"], limit)}
    return {"min": quota["nominalQuota"], **most}


def _queue_status_up(status: Raw) -> Raw:
    stored = without(status, "usedResources")
    if "usedResources" not in status:
        return stored
    return _unless_malformed(lambda: {**stored, "flavorsUsage": _flavors_usage(status["usedResources"] or {})}, stored)


def _flavors_usage(used_resources: Raw) -> list[Raw]:
    usage: dict[str, list[Raw]] = {}
    for resource, flavors in used_resources.items():
        for flavor, used in flavors.items():
            usage.setdefault(flavor, []).append({"name": resource, **renamed(used, "borrowing", "borrowed")})
    return [{"name": flavor, "resources": resources} for flavor, resources in usage.items()]


def _queue_status_down(status: Raw) -> Raw:
    older: Raw = {key: status[key] for key in ("admittedWorkloads", "pendingWorkloads") if key in status}
    if "flavorsUsage" not in status:
        return older
    used: dict[str, Raw] = {}
    for flavor in status["flavorsUsage"]:
        for resource in flavor.get("resources") or ():
            amounts = renamed(without(resource, "name"), "borrowed", "borrowing")
            used.setdefault(resource["name"], {})[flavor["name"]] = amounts
    return {**older, "usedResources": used}


CONVERSIONS: Final[Mapping[str, tuple[Conversion, Conversion]]] = {
    Kind.CLUSTER_QUEUE: (_queue_up, _queue_down),
    Kind.COHORT: (_cohort_up, _cohort_down),
    Kind.RESOURCE_FLAVOR: (_flavor_up, _flavor_down),
}
KINDS: Final = (*CONVERSIONS, Kind.TOPOLOGY)
"""The kinds of this version; those without a conversion are spelled the same."""
