"""A job of any kind as input of feedback: its queue, its priority, and the requests of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from api import quantity
from api.errors import shown
from api.names import DEFAULT_POD_SET, GROUP, Label
from core.devices.inventory import Inventory
from core.feedback.budget import MOST_FIELDS, larger
from core.feedback.rules import shortened
from core.model import Key, PodSet, Raw
from core.wire import decode, devices
from core.wire.pod_requests import (
    ABOVE_LIMITS,
    ABOVE_MAX,
    BELOW_MIN,
    Beyond,
    Bounds,
    ChargedAmount,
    Effective,
    RequestLimits,
    RequestRules,
    charge,
    effective,
)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """Pods of one shape, as the job's manifest has them."""

    name: str
    count: int
    spec: Raw
    min_count: int | None = None
    topology: Raw | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """The names of the fields that a finding recommends to change, and of the parts of a job.

    ``called`` and ``fields`` are by the name of a pod set: what its kind calls it (``{}`` is the name), and the field
    of its number of pods. ``job`` is what the object is called, and ``unit`` what of it is queued by itself, if it is
    not queued as a whole.
    """

    queue: str
    pods: str
    least: str
    called: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    job: str = "job"
    unit: str = "pod"

    def call(self, pod_set: str) -> str:
        """What messages call a pod set."""
        return self.called.get(pod_set, "pod set {}").format(shortened(pod_set))

    def field_of(self, pod_set: str) -> str:
        """The field in which the number of pods of a pod set is changed."""
        return self.fields.get(pod_set) or self.pods


OF_JOB: Final = Words(f"label {Label.QUEUE_NAME}", "parallelism", "job-min-parallelism")
_OF_WORKLOAD: Final = Words("spec.queueName", "count", "minCount")


class MissingClass(NamedTuple):
    """A DeviceClass that a ResourceClaimTemplate names and that does not exist, and those that do."""

    name: str
    template: str
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, or a Workload without a job. ``requests`` in ``pod_sets`` are effective and for one pod.

    ``units``: it is one of so many equal parts of an object that are queued one by one, such as pods of a Deployment.
    ``silent`` names containers that have neither requests nor limits and get none from a LimitRange; ``by_limit`` lists
    the limits of the others that count as requests (container, resource, amount as written). ``complaints`` are
    sentences about pods that Kubernetes itself, or else a LimitRange, forbids, with paths below the pod spec.
    ``pod_priority_class`` is the PriorityClass that the pods name. ``priority`` is that of a Workload, None if its
    classes define it. ``runs_with`` is the number of pods of a running job that is changed, None for one that waits.
    ``elastic``: it is resized while it runs. ``causes`` has by pod set and resource the reason if the request is larger
    than that of the containers: a LimitRange or an init container. ``tiny`` names amounts of memory with a missing or
    wrong unit (container, resource, amount as written). ``charges`` has by pod set what one pod counts for in
    ResourceQuotas, or None if that cannot be read. ``claims`` names the ResourceClaims of the pods, ``uncounted`` is
    why their devices cannot be counted, ``missing_classes`` has DeviceClasses of their templates that do not exist;
    with ``free_devices`` claims do not count. ``managed_by`` is
    the field in which the job names another controller than its kind's, and that name. ``grace_seconds`` is the
    longest time that a pod has to terminate. ``dry_run``: it is only asked what would happen. ``too_large``: nothing
    else was read of the pods (`core.feedback.budget`).
    """

    namespace: str
    queue: str
    priority_class: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    silent: tuple[str, ...] = ()
    by_limit: tuple[tuple[str, str, str], ...] = ()
    complaints: tuple[str, ...] = ()
    pod_priority_class: str = ""
    priority: int | None = None
    words: Words = OF_JOB
    runs_with: int | None = None
    elastic: bool = False
    too_large: bool = False
    causes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    tiny: tuple[tuple[str, str, str], ...] = ()
    charges: tuple[ChargedAmount | None, ...] = ()
    units: int = 1
    claims: tuple[str, ...] = ()
    uncounted: str = ""
    missing_classes: tuple[MissingClass, ...] = ()
    free_devices: bool = False
    managed_by: tuple[str, str] | None = None
    grace_seconds: int = 0
    dry_run: bool = False

    @property
    def pods(self) -> int:
        """How many pods it asks for."""
        return sum(pod_set.count for pod_set in self.pod_sets)


def submission(
    namespace: str,
    queue: str,
    priority_class: str,
    pods: Iterable[PodSpec],
    rules: RequestRules,
    words: Words = OF_JOB,
    *,
    units: int = 1,
) -> Submission:
    """A job of these pods; of pods with more than ``MOST_FIELDS`` fields nothing is read."""
    pods = tuple(pods)
    if larger(MOST_FIELDS, *(pod.spec for pod in pods)):
        return Submission(namespace, queue, priority_class, too_large=True)
    asked = [effective(pod.spec, rules) for pod in pods]
    pod_sets = tuple(
        PodSet(
            pod.name,
            pod.count,
            each.requests,
            pod.min_count,
            decode.placement(pod.spec),
            decode.topology_request(pod.topology or {}),
            None if each.own == each.requests else each.own,
        )
        for pod, each in zip(pods, asked, strict=True)
    )
    templates = [devices.PodTemplate(pod.name, pod.spec) for pod in pods]
    charged = devices.charge(namespace, templates, pod_sets, rules)
    return Submission(
        namespace,
        queue,
        priority_class,
        pod_sets if charged is None or charged.problem else devices.counted(pod_sets, charged),
        tuple(name for pod in pods for name in _silent(pod.spec, rules)),
        tuple(limit for pod in pods for limit in _standing_in(pod.spec, rules)),
        next(
            (found for pod, each in zip(pods, asked, strict=True) if (found := _complaints(pod.spec, each, rules))), ()
        ),
        next((str(name) for pod in pods if (name := pod.spec.get("priorityClassName"))), ""),
        charges=tuple(charge(pod.spec, rules) for pod in pods),
        words=words,
        units=units,
        grace_seconds=max((_grace_seconds(pod.spec) for pod in pods), default=0),
        claims=tuple(dict.fromkeys(name for pod in pods for name in _claims(pod.spec))),
        uncounted=charged.problem if charged is not None else "",
        free_devices=rules.devices is None,
        missing_classes=_missing_classes(namespace, templates, rules) if charged is not None else (),
        tiny=tuple(dict.fromkeys(each for pod in pods for each in _tiny(pod.spec))),
        causes={
            (pod.name, resource): cause
            for pod, each in zip(pods, asked, strict=True)
            for resource, cause in _causes(pod.spec, each, rules).items()
        },
    )


_LEAST: Final = 1 << 20
"""The minimum of bytes of memory, or of storage, that a container plausibly requests."""


def _tiny(spec: Raw) -> Iterable[tuple[str, str, str]]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        for amounts in (resources.get("requests") or {}, resources.get("limits") or {}):
            for name in ("memory", "ephemeral-storage"):
                if name in amounts and 0 < _bytes(amounts[name]) < _LEAST:
                    yield str(container.get("name") or "?"), name, str(amounts[name])


def _claims(spec: Raw) -> Iterable[str]:
    """The ResourceClaims of a pod, by the names that it gives them."""
    return (str(claim.get("name") or "?") for claim in spec.get("resourceClaims") or ())


def _missing_classes(
    namespace: str, pods: Iterable[devices.PodTemplate], rules: RequestRules
) -> tuple[MissingClass, ...]:
    inventory = rules.devices
    if not isinstance(inventory, Inventory):
        return ()
    names = (claim for pod in devices.pod_claims(pods, rules) for claim, _ in pod.claims if claim)
    asked = ((name, inventory.classes_of(Key(namespace, name))) for name in dict.fromkeys(names))
    known = tuple(inventory.classes)
    return tuple(MissingClass(each, name, known) for name, classes in asked for each in classes if each not in known)


def _grace_seconds(spec: Raw) -> int:
    found = spec.get("terminationGracePeriodSeconds")
    return found if isinstance(found, int) else 0


def _bytes(amount: object) -> int:
    try:
        return quantity.amount("memory", amount)
    except ValueError:
        return 0  # reported by `complaints`


def _causes(spec: Raw, found: Effective, rules: RequestRules) -> dict[str, str]:
    """Returns by resource the reason why the request is larger than that of the containers."""
    causes: dict[str, str] = {}
    bounds = rules.limits.container
    if bounds is not None and (bounds.default or bounds.default_request):
        plain = effective(spec, replace(rules, limits=RequestLimits()))
        causes |= dict.fromkeys(_more(found, plain), "default of a LimitRange")
    before = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") != "Always"]
    if before:
        sidecars = [each for each in spec["initContainers"] if each.get("restartPolicy") == "Always"]
        alone = effective({**spec, "initContainers": sidecars}, rules)
        for resource in _more(found, alone):
            asked = {str(each.get("name") or "?"): effective({"containers": [each]}, rules).requests for each in before}
            causes[resource] = f"init container {max(asked, key=lambda name: asked[name].get(resource, 0))}"
    return causes


def _more(found: Effective, other: Effective) -> list[str]:
    return [name for name, amount in found.requests.items() if amount > other.requests.get(name, 0)]


def of_workload(workload: Raw, rules: RequestRules) -> Submission:
    """A Workload as its manifest has it, in the stored version."""
    spec = workload.get("spec") or {}
    pods = [
        PodSpec(
            each.get("name") or DEFAULT_POD_SET,
            1 if each.get("count") is None else each["count"],
            (each.get("template") or {}).get("spec") or {},
            each.get("minCount"),
            each.get("topologyRequest"),
        )
        for each in spec.get("podSets") or ()
    ]
    reference = spec.get("priorityClassRef") or {}
    name = str(reference.get("name") or "")
    ours = reference.get("group") == GROUP
    namespace = (workload.get("metadata") or {}).get("namespace") or ""
    found = submission(namespace, spec.get("queueName") or "", name if ours else "", pods, rules)
    pod_class = found.pod_priority_class if ours or not name else name
    return replace(found, pod_priority_class=pod_class, priority=spec.get("priority"), words=_OF_WORKLOAD)


def _complaints(spec: Raw, found: Effective, rules: RequestRules) -> tuple[str, ...]:
    figures = [each for each in found.beyond if each.detail == ABOVE_LIMITS] or found.beyond
    if figures:
        return tuple(_complaint(spec, each, rules) for each in figures)
    return tuple(f"{error.field}: {shown(error.value)}: {error.detail}" for error in found.above_limits)


def _complaint(spec: Raw, found: Beyond, rules: RequestRules) -> str:
    resource, asked, bound = found.amounts[0]
    amounts = [quantity.text(resource, amount) for amount in (asked, bound)]
    who, container = _at(spec, found.path)
    bounds = (rules.limits.container if container is not None else rules.limits.pod) or Bounds()

    def limit_range(what: str) -> str:
        name = bounds.set_by.get((what, resource))
        return f'LimitRange "{shortened(name)}"' if name else "a LimitRange"

    why = {
        ABOVE_LIMITS: f"its limit is {amounts[1]}; ask for {amounts[1]} or raise the limit",
        ABOVE_MAX: f"{limit_range('max')} allows {amounts[1]} at most; ask for {amounts[1]} or less",
        BELOW_MIN: f"{limit_range('min')} wants {amounts[1]} at least; ask for {amounts[1]} or more",
    }[found.detail]
    if found.detail == ABOVE_LIMITS and container is not None and resource not in _limits(container):
        most = bounds.max.get(resource)
        if most is not None and bounds.default[resource] * asked > most * bound:  # a higher limit is forbidden, too
            text = quantity.text(resource, int(most * bound / bounds.default[resource]))
            return f"{who} asks for {amounts[0]} {shortened(resource)}, {limit_range('max')} allows {text} at most"
        why = f"{limit_range('default')} limits it to {amounts[1]} by default; set a limit of {amounts[0]} or more"
    return f"{who} asks for {amounts[0]} {shortened(resource)}, {why}"


def _limits(container: Raw) -> Raw:
    return (container.get("resources") or {}).get("limits") or {}


def _at(spec: Raw, path: str) -> tuple[str, Raw | None]:
    """What a message calls the container at a path of a pod spec, and the container; None for the pod itself."""
    kind, bracket, rest = path.partition("[")
    if not bracket:
        return "the pod", None
    container: Raw = spec[kind][int(rest.partition("]")[0])]
    name = f"container {shortened(str(container.get('name') or '?'))}"
    return (f"init {name}" if kind == "initContainers" else name), container


def _silent(spec: Raw, rules: RequestRules) -> Iterable[str]:
    bounds = rules.limits.container
    if spec.get("resources") or (bounds and (bounds.default or bounds.default_request)):
        return
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        if not (resources.get("requests") or resources.get("limits")):
            yield str(container.get("name") or "?")


def _standing_in(spec: Raw, rules: RequestRules) -> Iterable[tuple[str, str, str]]:
    bounds = rules.limits.container
    given = {*((spec.get("resources") or {}).get("requests") or ()), *(bounds.default_request if bounds else ())}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        requests = resources.get("requests") or {}
        for name, amount in sorted((resources.get("limits") or {}).items()):
            counts = name not in given and not name.startswith(rules.excluded_prefixes)
            if counts and name not in requests and not _extended(name):
                yield str(container.get("name") or "?"), name, str(amount)


def _extended(resource: str) -> bool:
    """Whether Kubernetes itself wants the request of this resource to equal its limit, so that one is enough."""
    return "/" in resource or resource.startswith("hugepages-")
