"""Rules of a Workload's status: what was given fits what was asked for, and changes in allowed ways only."""

from collections.abc import Iterator, Sequence
from typing import Any

from api.errors import FieldError, broken_rule, invalid, not_found, not_supported, required
from api.names import Annotation
from api.objects import Raw
from api.quantity import amount, canonical
from api.syntax import checked, labels, qualified_name, tolerations
from api.validate import topology_assignment
from api.validate.alike import alike
from api.validate.common import IMMUTABLE, annotations, has_reservation, immutable, spec_of, status_of

_ADMISSION = "status.admission"
_RECLAIMABLE = "status.reclaimablePods"
NO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time."""


def is_elastic(obj: Raw) -> bool:
    """Whether the Workload belongs to an elastic job, which may grow and shrink while it runs."""
    found: str | None = (obj["metadata"].get("annotations") or {}).get(Annotation.ELASTIC_JOB)
    return found == "true"


def status_create(obj: Raw, old: Raw | None) -> list[FieldError]:
    """Errors of the status as it stands; `old` is what it was before, where there was one."""
    errors = _admission(obj, old) if has_reservation(obj) else []
    errors += _conditions(status_of(obj).get("conditions") or ())
    for path, assignment in _assignments(obj):
        if assignment.get("topologyAssignment") is not None:
            errors += topology_assignment.assignment(f"{path}.topologyAssignment", assignment["topologyAssignment"])
    return [*errors, *_reclaimable(obj, old), *_admission_checks(obj), *_clusters(status_of(obj))]


def status_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of the change of the status."""
    errors: list[FieldError] = []
    if has_reservation(old) and has_reservation(new):
        errors += _reclaimable_only_grows(old, new)
    return [*errors, *_same_admission(old, new), *_same_updates(old, new), *_cluster_name(old, new)]


def _pod_sets(obj: Raw) -> dict[str, int]:
    """Counts by pod set."""
    return {pod_set.get("name", "main"): pod_set.get("count", 1) for pod_set in spec_of(obj).get("podSets") or ()}


def _assignments(obj: Raw) -> list[tuple[str, Raw]]:
    """What each pod set was given, with its path."""
    found: Sequence[Raw] = (status_of(obj).get("admission") or {}).get("podSetAssignments") or ()
    return [(f"{_ADMISSION}.podSetAssignments[{index}]", assignment) for index, assignment in enumerate(found)]


def _admission(obj: Raw, old: Raw | None) -> list[FieldError]:
    admission = status_of(obj).get("admission")
    if admission is None:
        if old is not None and has_reservation(old) and status_of(old).get("admission") is None:
            return []  # unchanged: the transition may complete
        return [required(_ADMISSION, "must be set while the QuotaReserved condition is true")]
    known = _pod_sets(obj)
    assignments = _assignments(obj)
    errors = []
    for path, assignment in assignments:
        if assignment.get("name", "main") not in known:
            errors.append(not_found(f"{path}.name", assignment.get("name", "main")))
        count = assignment.get("count") or 0
        for resource, value in sorted((assignment.get("resourceUsage") or {}).items()):
            if count and _amount(resource, value) % count:
                errors.append(
                    invalid(f"{path}.resourceUsage[{resource}]", canonical(value), f"is not a multiple of {count}")
                )
    if len(assignments) != len(known):
        text = "podSetAssignments must have the same number of podSets as the spec"
        errors.append(broken_rule("", text))
    return errors


def _amount(resource: str, value: Any) -> int:
    try:
        return amount(resource, value)
    except ValueError:
        return 0  # the schema refuses the form


def _conditions(conditions: Sequence[Raw]) -> list[FieldError]:
    """What the schema leaves of metav1.ValidateConditions: how long the parts of a type are, and that a time is one."""
    errors = []
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        errors += checked(f"{path}.type", condition["type"], qualified_name)
        if condition["lastTransitionTime"] == NO_TIME:
            errors.append(required(f"{path}.lastTransitionTime", "must be set"))
    return errors


def _reclaimable(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    known = _pod_sets(obj)
    before = _counts(old) if old is not None and is_elastic(obj) else {}
    for entry in status_of(obj).get("reclaimablePods") or ():
        name, count = entry["name"], entry["count"]
        path = f"{_RECLAIMABLE}[{name}]"
        if name not in known:
            yield not_supported(f"{path}.name", name, list(known))
        elif count > known[name] and before.get(name) != count:
            yield invalid(f"{path}.count", count, f"should be less or equal to {known[name]}")


def _counts(obj: Raw) -> dict[str, int]:
    return {entry["name"]: entry["count"] for entry in status_of(obj).get("reclaimablePods") or ()}


def _reclaimable_only_grows(old: Raw, new: Raw) -> Iterator[FieldError]:
    before, after = _counts(old), _counts(new)
    shrunk = _scaled_down(new)
    for name, count in after.items():
        if count < before.get(name, 0) and name not in shrunk:
            yield invalid(f"{_RECLAIMABLE}[{name}].count", count, f"cannot be less than {before[name]}")
    for name in before:
        if name not in after and name not in shrunk:
            yield required(f"{_RECLAIMABLE}[{name}]", "cannot be removed")


def _scaled_down(obj: Raw) -> set[str]:
    """Pod sets of an elastic job that are smaller now than when they were admitted."""
    admission = status_of(obj).get("admission")
    if admission is None or not is_elastic(obj):
        return set()
    now = _pod_sets(obj)
    return {
        assignment.get("name", "main")
        for assignment in admission.get("podSetAssignments") or ()
        if (assignment.get("count") or 0) > now.get(assignment.get("name", "main"), 0)
    }


def _admission_checks(obj: Raw) -> list[FieldError]:
    known = sorted(_pod_sets(obj))
    errors = []
    for index, check in enumerate(status_of(obj).get("admissionChecks") or ()):
        for place, update in enumerate(check.get("podSetUpdates") or ()):
            path = f"status.admissionChecks[{index}].podSetUpdates[{place}]"
            if update["name"] not in known:
                errors.append(not_supported(f"{path}.name", update["name"], known))
            errors += tolerations(f"{path}.tolerations", update.get("tolerations") or [])
            errors += annotations(f"{path}.annotations", update.get("annotations"))
            errors += labels(f"{path}.nodeSelector", update.get("nodeSelector") or {})
            errors += labels(f"{path}.labels", update.get("labels") or {})
    return errors


def _clusters(status: Raw) -> list[FieldError]:
    if status.get("clusterName") is None or not status.get("nominatedClusterNames"):
        return []
    return [broken_rule("status", "clusterName and nominatedClusterNames are mutually exclusive")]


def _same_admission(old: Raw, new: Raw) -> list[FieldError]:
    """An admission is set or taken away as a whole; only the topology of its pod sets may be filled in."""
    before, after = status_of(old).get("admission"), status_of(new).get("admission")
    if before is None or after is None:
        return []
    same = alike(_without_topology(before), _without_topology(after))
    return [] if same else [invalid(_ADMISSION, after, IMMUTABLE)]


def _without_topology(admission: Raw) -> Raw:
    late = ("topologyAssignment", "delayedTopologyRequest")
    assignments = admission.get("podSetAssignments") or ()
    return {
        **admission,
        "podSetAssignments": [
            {name: value for name, value in assignment.items() if name not in late} for assignment in assignments
        ],
    }


def _same_updates(old: Raw, new: Raw) -> list[FieldError]:
    """What a check that is Ready adds to the pods stays."""
    after = {check["name"]: check for check in status_of(new).get("admissionChecks") or ()}
    errors = []
    for index, check in enumerate(status_of(old).get("admissionChecks") or ()):
        now = after.get(check["name"])
        if now is not None and check.get("state") == now.get("state") == "Ready":
            path = f"status.admissionChecks[{index}].podSetUpdates"
            errors += immutable(path, check.get("podSetUpdates") or [], now.get("podSetUpdates") or [])
    return errors


def _cluster_name(old: Raw, new: Raw) -> list[FieldError]:
    before, after = status_of(old), status_of(new)
    name = after.get("clusterName")
    if name is None:
        return []
    was = before.get("clusterName")
    if was is not None:
        return [] if was == name else [broken_rule("status", "clusterName is immutable once set")]
    replaces = Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR in (new["metadata"].get("annotations") or {})
    if replaces or name in (before.get("nominatedClusterNames") or ()):
        return []
    text = "when setting clusterName it must be one of the nominatedClusterNames"
    return [invalid("status.clusterName", name, text)]
