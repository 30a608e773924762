"""The effective requests of one pod of a pod set, which count for quota, and the rules that forbid the pod.

In this order, as in Kueue: overhead of the RuntimeClass, defaults of the namespace's LimitRanges, limits instead of
absent requests, Kubernetes' formula for containers, init containers and sidecars (KEP-753), pod-level resources
(KEP-2837), then the exclusions and transformations of the Configuration (KEP-2937). Sums are exact; only the result is
rounded, up. The pseudo-resource ``pods`` is not included: the ClusterQueue defines whether pods count.

Separate from decoding because the webhook needs the same for a Job's template before a Workload exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from api import quantity
from api.errors import FieldError, invalid
from core.devices.extended import ContainerRequests
from core.devices.inventory import Inventory, RefusedClaims
from core.model import Raw, Requests

Quantities = Mapping[str, Fraction]
"""Exact amount by resource name, in whole units (cpu too)."""

ABOVE_LIMITS = "requests must not exceed its limits"
ABOVE_MAX = "requests must not be above the limitRange max"
BELOW_MIN = "requests must not be below the limitRange min"
_POD_LEVEL = frozenset({"cpu", "memory"})
_COMPUTE = ("cpu", "memory")
"""Resources that determine the quality of service, and that a ResourceQuota may require of every container."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The LimitRanges of a namespace for one type (Container or Pod), combined."""

    max: Quantities = field(default_factory=dict)
    min: Quantities = field(default_factory=dict)
    default: Quantities = field(default_factory=dict)
    default_request: Quantities = field(default_factory=dict)
    set_by: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False)
    """The LimitRange by field (max, min, default) and resource."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The LimitRanges of a namespace; None where no LimitRange speaks of the type."""

    container: Bounds | None = None
    pod: Bounds | None = None


@dataclass(frozen=True, slots=True)
class ResourceTransformation:
    """``resources.transformations[]`` of the Configuration: an input resource turned into outputs by factors."""

    outputs: Quantities
    retain: bool = True
    multiply_by: str = ""


@dataclass(frozen=True, slots=True)
class RequestRules:
    """Everything that effective requests depend on in addition to the pod template; ``overheads`` by RuntimeClass
    name. ``devices`` is what claims are counted against (``core.wire.devices``), None if they do not count.
    """

    limits: RequestLimits = RequestLimits()
    overheads: Mapping[str, Quantities] = field(default_factory=dict)
    transformations: Mapping[str, ResourceTransformation] = field(default_factory=dict)
    excluded_prefixes: tuple[str, ...] = ()
    devices: Inventory | RefusedClaims | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Beyond:
    """Requests that are out of bounds at one place: by resource the request and the bound, in base units."""

    path: str
    detail: str
    amounts: tuple[tuple[str, int, int], ...]

    @property
    def error(self) -> FieldError:
        """As Kueue words it."""
        return invalid(self.path, [name for name, _, _ in self.amounts], self.detail)


@dataclass(frozen=True, slots=True)
class ChargedAmount:
    """What one pod counts for in the ResourceQuotas of its namespace, without exclusions and transformations.

    ``requests`` and ``limits`` are in base units. ``unset`` has the cpu and memory values that some container does not
    set, named as in ResourceQuotas (``limits.cpu``), with the path of the first such container.
    """

    requests: Requests = field(default_factory=dict)
    limits: Requests = field(default_factory=dict)
    unset: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False
    best_effort: bool = False
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Effective:
    """Requests of one pod, and the field errors that forbid it, with paths relative to the pod spec.

    ``above_limits`` are those Kubernetes itself makes (and malformed quantities), ``outside_range`` those of
    LimitRanges; ``beyond`` has the figures to both. ``own`` are the requests without exclusions and transformations.
    """

    requests: Requests
    above_limits: tuple[FieldError, ...] = ()
    outside_range: tuple[FieldError, ...] = ()
    beyond: tuple[Beyond, ...] = ()
    own: Requests = field(default_factory=dict)


def effective(spec: Raw, rules: RequestRules) -> Effective:
    """Returns the effective requests of a pod spec, in base units (milli for cpu), and their errors."""
    try:
        return _effective(spec, rules)
    except _MalformedError as malformed:
        return Effective({}, above_limits=(malformed.error,))


def containers(spec: Raw, rules: RequestRules) -> tuple[list[ContainerRequests], list[ContainerRequests]]:
    """Returns what each init container and each container requests, with its defaults; nothing if a quantity is
    malformed.
    """
    try:
        init, main = ([*_asking(spec, kind, rules)] for kind in ("initContainers", "containers"))
    except _MalformedError:
        return [], []
    return init, main


def _asking(spec: Raw, kind: str, rules: RequestRules) -> Iterable[ContainerRequests]:
    made = _containers(spec, kind, rules.limits.container)
    for raw, each in zip(spec.get(kind) or (), made, strict=True):
        resources = raw.get("resources") or {}
        texts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        yield ContainerRequests(each.path, each.requests, texts)


def charge(spec: Raw, rules: RequestRules) -> ChargedAmount | None:
    """Returns what a pod counts for in ResourceQuotas; None if a quantity is malformed. Separate from ``effective``,
    which is called for every Workload.
    """
    try:
        return _charge(spec, rules)
    except _MalformedError:
        return None


def limits(limit_ranges: Iterable[Raw]) -> RequestLimits:
    """Several LimitRange objects as one: the lowest max, the highest min, and by name the first default."""
    found: dict[str, Bounds] = {}
    for limit_range in sorted(limit_ranges, key=lambda raw: str(raw["metadata"].get("name"))):
        for item in (limit_range.get("spec") or {}).get("limits") or []:
            bounds = found.get(item["type"], Bounds())
            made = Bounds(
                max=_merged(bounds.max, _amounts(item.get("max"), "max"), min),
                min=_merged(bounds.min, _amounts(item.get("min"), "min"), max),
                default={**_amounts(item.get("default"), "default"), **bounds.default},
                default_request={**_amounts(item.get("defaultRequest"), "defaultRequest"), **bounds.default_request},
            )
            name = str(limit_range["metadata"].get("name") or "")
            found[item["type"]] = replace(made, set_by={**bounds.set_by, **_changed(bounds, made, name)})
    return RequestLimits(found.get("Container"), found.get("Pod"))


def _changed(before: Bounds, after: Bounds, name: str) -> dict[tuple[str, str], str]:
    """The fields and resources of which a LimitRange of this name sets the bound."""
    found = {"max": (before.max, after.max), "min": (before.min, after.min), "default": (before.default, after.default)}
    return {
        (what, resource): name
        for what, (old, new) in found.items()
        for resource, amount in new.items()
        if old.get(resource) != amount
    }


def overheads(runtime_classes: Iterable[Raw]) -> dict[str, Quantities]:
    """Overhead by name of RuntimeClass, for those that have one."""
    return {
        raw["metadata"]["name"]: _amounts(fixed, "overhead.podFixed")
        for raw in runtime_classes
        if (fixed := (raw.get("overhead") or {}).get("podFixed"))
    }


def transformations(configured: Iterable[Raw]) -> dict[str, ResourceTransformation]:
    """``resources.transformations`` of a Configuration by input resource."""
    return {
        raw["input"]: ResourceTransformation(
            outputs=_amounts(raw.get("outputs"), "outputs"),
            retain=raw.get("strategy", "Retain") == "Retain",
            multiply_by=raw.get("multiplyBy") or "",
        )
        for raw in configured
    }


class _MalformedError(ValueError):
    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class _Container:
    path: str
    requests: Quantities
    limits: Quantities
    sidecar: bool


def _effective(spec: Raw, rules: RequestRules) -> Effective:
    init = _containers(spec, "initContainers", rules.limits.container)
    main = _containers(spec, "containers", rules.limits.container)
    whole = _pod_level(spec, rules.limits.pod)
    total = _pod_requests(init, main, whole, _overhead(spec, rules))
    checked = [*init, *main, *([whole] if whole else [])]
    above = [
        found
        for container in checked
        for found in _beyond(container.path, ABOVE_LIMITS, container.requests, container.limits)
    ]
    outside = [
        *_container_errors([*init, *main], rules.limits.container),
        *_pod_errors(total, rules.limits.pod),
    ]
    own = _rounded(total)
    changed = rules.excluded_prefixes or rules.transformations
    return Effective(
        requests=_rounded(_transformed(_kept(total, rules.excluded_prefixes), rules.transformations))
        if changed
        else own,
        above_limits=tuple(found.error for found in above),
        outside_range=tuple(found.error for found in outside),
        beyond=(*above, *outside),
        own=own,
    )


def _charge(spec: Raw, rules: RequestRules) -> ChargedAmount:
    init = _containers(spec, "initContainers", rules.limits.container)
    main = _containers(spec, "containers", rules.limits.container)
    whole = _pod_level(spec, rules.limits.pod)
    overhead = _overhead(spec, rules)
    limited = _pod_requests(
        [replace(each, requests=each.limits) for each in init],
        [replace(each, requests=each.limits) for each in main],
        replace(whole, requests=whole.limits) if whole is not None else None,
        {},
    )
    # Kubernetes adds the overhead only to limits that are there.
    _add(limited, {name: value for name, value in overhead.items() if limited.get(name)})
    every = [*init, *main, *([whole] if whole is not None else [])]
    counted = (amounts.get(name) for each in every for amounts in (each.requests, each.limits) for name in _COMPUTE)
    return ChargedAmount(
        _rounded(_pod_requests(init, main, whole, overhead)),
        _rounded(limited),
        _unset([*main, *init], whole),
        terminating=spec.get("activeDeadlineSeconds") is not None,
        best_effort=not any(counted),
        priority_class=str(spec.get("priorityClassName") or ""),
    )


def _unset(containers: list[_Container], whole: _Container | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _COMPUTE:
        if whole is None or name not in whole.requests:
            found |= _first(f"requests.{name}", (each.path for each in containers if name not in each.requests))
        if whole is None or name not in whole.limits:
            found |= _first(f"limits.{name}", (each.path for each in containers if name not in each.limits))
    return found


def _first(key: str, paths: Iterable[str]) -> dict[str, str]:
    path = next(iter(paths), None)
    return {key: path} if path is not None else {}


def _containers(spec: Raw, kind: str, bounds: Bounds | None) -> list[_Container]:
    return [
        _adjusted(raw.get("resources") or {}, f"{kind}[{index}]", bounds, sidecar=raw.get("restartPolicy") == "Always")
        for index, raw in enumerate(spec.get(kind) or [])
    ]


def _pod_level(spec: Raw, bounds: Bounds | None) -> _Container | None:
    resources = spec.get("resources")
    return None if resources is None else _adjusted(resources, "resources", bounds, sidecar=False)


def _adjusted(resources: Raw, path: str, bounds: Bounds | None, *, sidecar: bool) -> _Container:
    """A container with its defaults: LimitRange first, then limits for requests that are still missing."""
    prefix = path if path == "resources" else f"{path}.resources"
    limit = _amounts(resources.get("limits"), f"{prefix}.limits")
    request = _amounts(resources.get("requests"), f"{prefix}.requests")
    if bounds is not None:
        limit = {**bounds.default, **limit}
        request = {**bounds.default_request, **request}
    return _Container(path, {**limit, **request}, limit, sidecar)


def _overhead(spec: Raw, rules: RequestRules) -> Quantities:
    if own := spec.get("overhead"):
        return _amounts(own, "overhead")
    return rules.overheads.get(spec.get("runtimeClassName") or "", {})


def _pod_requests(
    init: list[_Container], main: list[_Container], whole: _Container | None, overhead: Quantities
) -> dict[str, Fraction]:
    """Kubernetes' formula: containers that run at the same time are summed; those that run before set a minimum."""
    total: dict[str, Fraction] = {}
    sidecars: dict[str, Fraction] = {}
    before: dict[str, Fraction] = {}
    for container in main:
        _add(total, container.requests)
    for container in init:
        if container.sidecar:
            _add(total, container.requests)
            _add(sidecars, container.requests)
            starting = dict(sidecars)
        else:
            starting = dict(sidecars)
            _add(starting, container.requests)
        before = _merged(before, starting, max)
    total = _merged(total, before, max)
    if whole is not None:
        total |= {name: value for name, value in whole.requests.items() if _pod_level_resource(name)}
    _add(total, overhead)
    return total


def _pod_level_resource(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith("hugepages-")


def _container_errors(containers: list[_Container], bounds: Bounds | None) -> Iterable[Beyond]:
    if bounds is None:
        return
    for container in containers:
        most, least = (_merged(container.requests, container.limits, choose) for choose in (max, min))
        yield from _beyond(container.path, ABOVE_MAX, most, bounds.max)
        yield from _beyond(container.path, BELOW_MIN, least, bounds.min)


def _pod_errors(total: Quantities, bounds: Bounds | None) -> Iterable[Beyond]:
    if bounds is not None:
        yield from _beyond("", ABOVE_MAX, total, bounds.max)
        yield from _beyond("", BELOW_MIN, total, bounds.min)


def _beyond(path: str, detail: str, asked: Quantities, bound: Quantities) -> Iterable[Beyond]:
    """Returns the resources in both of which too much, or too little, is requested, compared in the units of quota."""
    both = (
        (name, _whole(name, asked[name]), _whole(name, bound[name])) for name in sorted(asked.keys() & bound.keys())
    )
    below = detail == BELOW_MIN
    found = tuple(each for each in both if (each[1] < each[2] if below else each[1] > each[2]))
    if found:
        yield Beyond(path, detail, found)


def _kept(amounts: Quantities, excluded_prefixes: tuple[str, ...]) -> Quantities:
    if not excluded_prefixes:
        return amounts
    return {name: value for name, value in amounts.items() if not name.startswith(excluded_prefixes)}


def _transformed(amounts: Quantities, rules: Mapping[str, ResourceTransformation]) -> Quantities:
    """Outputs of several inputs are summed and may cancel each other (negative factors), but never reduce the original
    requests.
    """
    if not amounts.keys() & rules.keys():
        return amounts
    retained: dict[str, Fraction] = {}
    generated: dict[str, Fraction] = {}
    for name, value in amounts.items():
        rule = rules.get(name)
        if rule is None or rule.retain:
            retained[name] = value
        if rule is not None:
            base = value * amounts.get(rule.multiply_by, Fraction(1))
            _add(generated, {output: base * factor for output, factor in rule.outputs.items()})
    _add(retained, {name: max(value, Fraction(0)) for name, value in generated.items()})
    return retained


def _rounded(amounts: Quantities) -> dict[str, int]:
    return {name: max(_whole(name, amounts[name]), 0) for name in sorted(amounts)}


def _whole(name: str, value: Fraction) -> int:
    """In base units, rounded away from zero."""
    scaled = value * 1000 if name == quantity.CPU else value
    return math.ceil(scaled) if scaled >= 0 else math.floor(scaled)


def _amounts(raw: Mapping[str, object] | None, path: str) -> dict[str, Fraction]:
    found = {}
    for name, value in (raw or {}).items():
        try:
            found[name] = quantity.exact(value)
        except ValueError as problem:
            raise _MalformedError(invalid(f"{path}[{name}]", value, str(problem))) from problem
    return found


def _add(total: dict[str, Fraction], more: Quantities) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def _merged(
    these: Quantities, those: Quantities, choose: Callable[[Fraction, Fraction], Fraction]
) -> dict[str, Fraction]:
    """The union of both; where both name a resource, the chosen amount."""
    return {**those, **{name: choose(value, those.get(name, value)) for name, value in these.items()}}
