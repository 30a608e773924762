"""Rules of a Workload beyond its schema: what it asks for, and that what it was given stays as it was given."""

from api.errors import FieldError, broken_rule, forbidden, invalid, required
from api.feature_gates import Gates, enabled
from api.names import Annotation, Condition
from api.objects import Raw
from api.quantity import exact
from api.syntax import labels
from api.topology_spreading import errors as spreading_errors
from api.topology_spreading import group_errors
from api.validate import admission_gates, pod_template
from api.validate.common import annotations, has_reservation, immutable, is_true, not_negative, spec_of
from api.validate.workload_status import is_elastic, status_create, status_update

_BOOST = Annotation.PRIORITY_BOOST
_SPREADING = Annotation.TOPOLOGY_SPREADING


def validate_create(obj: Raw, gates: Gates) -> list[FieldError]:
    """Errors of a new Workload."""
    gated = admission_gates.form(obj) if enabled("AdmissionGatedBy", gates) else []
    return [*_forms(obj), *_workload(obj, gates), *_spreading(obj, None, gates), *gated, *status_create(obj, None)]


def validate_update(old: Raw, new: Raw, gates: Gates) -> list[FieldError]:
    """Errors of a changed Workload, spec and status alike."""
    errors = [*_workload(new, gates), *_spreading(new, old, gates), *status_create(new, old)]
    if spec_of(old).get("podSets") != spec_of(new).get("podSets"):
        errors += _forms(new)
    if has_reservation(old):
        errors += _same_pod_sets(spec_of(old).get("podSets") or [], spec_of(new).get("podSets") or [])
        errors += _same_class(spec_of(old).get("priorityClassRef"), spec_of(new).get("priorityClassRef"))
        errors += _same_queue(old, new)
    errors += _same_execution_time(old, new)
    if new.get("spec") is None and (has_reservation(old) or is_true(old, Condition.ADMITTED)):
        errors.append(required("spec", "what holds quota keeps saying what for"))
    errors += status_update(old, new)
    if enabled("AdmissionGatedBy", gates):
        errors += admission_gates.change(old, new) + admission_gates.form(new)
    return errors


def _forms(obj: Raw) -> list[FieldError]:
    """What of the pod templates is not as the CRD of Kueue has it."""
    return [
        error
        for index, pod_set in enumerate(spec_of(obj).get("podSets") or ())
        for error in pod_template.form(f"spec.podSets[{index}].template", pod_set.get("template"))
    ]


def _workload(obj: Raw, gates: Gates) -> list[FieldError]:
    spec = spec_of(obj)
    pod_sets: list[Raw] = spec.get("podSets") or []
    errors = []
    for index, pod_set in enumerate(pod_sets):
        errors += _pod_set(f"spec.podSets[{index}]", pod_set, gates)
    variable = sum(pod_set.get("minCount") is not None for pod_set in pod_sets)
    if variable > 1:
        errors.append(invalid("spec.podSets", variable, "at most one podSet can use minCount"))
    if variable and is_elastic(obj):
        text = "partial admission and elastic job cannot be used together"
        errors.append(invalid("spec.podSets", variable, text))
    errors += _priority_class(spec)
    return errors + _boost(obj) if enabled("PriorityBoost", gates) else errors


def _spreading(new: Raw, old: Raw | None, gates: Gates) -> list[FieldError]:
    """Errors of how pod sets are spread over a topology, of those alone that have changed."""
    if not enabled("TASTopologySpreading", gates):
        return []
    pod_sets: list[Raw] = spec_of(new).get("podSets") or []
    before = {each.get("name"): each for each in (spec_of(old).get("podSets") or () if old is not None else ())}
    errors: list[FieldError] = []
    groups: dict[str, list[tuple[str, Raw]]] = {}
    for index, pod_set in enumerate(pod_sets):
        path = f"spec.podSets[{index}]"
        at = f"{path}.template.metadata.annotations[{_SPREADING}]"
        group = _topology(pod_set).get("podSetGroupName")
        if group is not None:
            groups.setdefault(group, []).append((at, pod_set))
        same = pod_set.get("name") in before and _spread(before[pod_set.get("name")]) == _spread(pod_set)
        text = _spread(pod_set)[0]
        if same or text is None:
            continue
        if _topology(pod_set).get("required") is None:
            errors.append(forbidden(at, f"may only be set together with {path}.topologyRequest.required"))
        else:
            errors += spreading_errors(at, text)
    for name, members in groups.items():
        if any(_spread(before.get(each.get("name"), {})) != _spread(each) for _, each in members):
            errors += group_errors(name, [(at, _spread(each)[0]) for at, each in members])
    return errors


def _spread(pod_set: Raw) -> tuple[str | None, object, object]:
    """All of a pod set that the rules of spreading read."""
    found = ((pod_set.get("template") or {}).get("metadata") or {}).get("annotations") or {}
    text = found.get(_SPREADING) if isinstance(found, dict) else None
    topology = _topology(pod_set)
    return text if isinstance(text, str) else None, topology.get("required"), topology.get("podSetGroupName")


def _topology(pod_set: Raw) -> Raw:
    return pod_set.get("topologyRequest") or {}


def _priority_class(spec: Raw) -> list[FieldError]:
    reference = spec.get("priorityClassRef")
    if reference is None:
        return []
    errors = []
    if spec.get("priority") is None:
        errors.append(broken_rule("spec", "priority should not be nil when priorityClassRef is set"))
    kinds = {"kueue.x-k8s.io": "WorkloadPriorityClass", "scheduling.k8s.io": "PriorityClass"}
    if reference["kind"] != (kind := kinds.get(reference["group"])):
        text = f"only the {kind} kind is allowed for the {reference['group']} group"
        errors.append(broken_rule("spec.priorityClassRef", text))
    return errors


def _boost(obj: Raw) -> list[FieldError]:
    value: str | None = (obj["metadata"].get("annotations") or {}).get(_BOOST)
    path = f"metadata.annotations[{_BOOST}]"
    if value is None:
        return []
    if value == "":
        text = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
        return [invalid(path, value, text)]
    digits = value[1:] if value[0] in "+-" else value
    if digits.isascii() and digits.isdigit() and len(digits) < 20 and -(1 << 31) <= int(value) < 1 << 31:
        return []
    return [invalid(path, value, "must be a valid signed integer")]


def _pod_set(path: str, pod_set: Raw, gates: Gates) -> list[FieldError]:
    template = pod_set.get("template") or {}
    metadata = template.get("metadata") or {}
    at = f"{path}.template.metadata"
    errors: list[FieldError] = []
    if enabled("WorkloadValidationForPodSetMetadata", gates):
        errors += labels(f"{at}.labels", metadata.get("labels") or {})
        errors += annotations(f"{at}.annotations", metadata.get("annotations"))
    least, count = pod_set.get("minCount"), pod_set.get("count", 1)
    if least is not None and least > count:
        errors.append(broken_rule(path, "minCount should be positive and less or equal to count"))
    pod = template.get("spec") or {}
    for containers in ("initContainers", "containers"):
        for index, container in enumerate(_objects(pod.get(containers))):
            at = f"{path}.template.spec.{containers}[{index}].resources"
            errors += _resources(at, container.get("resources"), gates)
    errors += _resources(f"{path}.template.spec.resources", pod.get("resources"), gates)
    if enabled("TASValidateWorkloadSliceSize", gates):
        errors += _slices(f"{path}.topologyRequest", pod_set.get("topologyRequest") or {})
    return errors


def _objects(found: object) -> list[Raw]:
    """The objects of a list the schema leaves open."""
    return [element if isinstance(element, dict) else {} for element in found] if isinstance(found, list) else []


def _resources(path: str, resources: object, gates: Gates) -> list[FieldError]:
    """Requests and limits: quantities that are not negative, and none for what Kueue counts itself."""
    errors = []
    for field in ("requests", "limits"):
        found = resources.get(field) if isinstance(resources, dict) else None
        for name, value in sorted(found.items()) if isinstance(found, dict) else ():
            if name == "pods":
                errors.append(invalid(f"{path}.{field}[pods]", "pods", "the key is reserved for internal kueue use"))
            if enabled("WorkloadValidateResourcesAreNonNegative", gates) and _is_quantity(value):
                errors += not_negative(f"{path}.{field}[{name}]", value)
    return errors


def _is_quantity(value: object) -> bool:
    """Whether it has the right form; other values are reported by the form of the template."""
    try:
        exact(value)
    except ValueError:
        return False
    return True


def _slices(path: str, request: Raw) -> list[FieldError]:
    level, size = request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize")
    at = f"{path}.podSetSliceSize"
    if level is not None and size is None:
        return [required(at, "must be set when podSetSliceRequiredTopology is specified")]
    if level is None and size is not None:
        return [forbidden(at, "may not be set when podSetSliceRequiredTopology is not specified")]
    return []


def _same_pod_sets(old: list[Raw], new: list[Raw]) -> list[FieldError]:
    """Pod sets stay as they are while they hold quota; only a count may shrink (elastic jobs)."""
    if len(old) != len(new):
        return immutable("spec.podSets", old, new)
    errors = []
    for index, (before, after) in enumerate(zip(old, new, strict=True)):
        shrunk = after.get("count", 1) < before.get("count", 1)
        same = {**after, "count": before.get("count", 1)} if shrunk else after
        errors += immutable(f"spec.podSets.{index}", before, same)  # Kueue's path: a dot where others have brackets
    return errors


def _same_class(before: Raw | None, after: Raw | None) -> list[FieldError]:
    if (before is None) != (after is None):
        return [_frozen("priorityClassRef is immutable while workload quota reserved")]
    if before is None or after is None:
        return []
    errors = [
        _frozen(f"priorityClassRef.{field} is immutable while workload quota reserved")
        for field in ("group", "kind")
        if before[field] != after[field]
    ]
    pod_class = after["group"] == "scheduling.k8s.io" and after["kind"] == "PriorityClass"
    if pod_class and before["name"] != after["name"]:
        errors.append(
            _frozen(
                "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
            )
        )
    return errors


def _same_queue(old: Raw, new: Raw) -> list[FieldError]:
    if not has_reservation(new) or spec_of(old).get("queueName") == spec_of(new).get("queueName"):
        return []
    return [_frozen("queueName is immutable while workload quota reserved")]


def _same_execution_time(old: Raw, new: Raw) -> list[FieldError]:
    if not (is_true(old, Condition.ADMITTED) and is_true(new, Condition.ADMITTED)):
        return []
    field = "maximumExecutionTimeSeconds"
    if spec_of(old).get(field, 0) == spec_of(new).get(field, 0):
        return []
    return [_frozen(f"{field} is immutable while workload quota reserved")]


def _frozen(text: str) -> FieldError:
    """An error of a rule on the whole object: it has no path."""
    return broken_rule("", text)
