"""The condition Active of an object that a controller keeps, and how AdmissionChecks, their controllers, parameters and
ClusterQueues refer to each other.

Separate because every controller of AdmissionChecks reads and writes them, in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from api import names
from api.validate.common import is_true
from core.model import Raw
from core.wire.guard import guarded
from core.wire.timestamps import stamp


class Active(NamedTuple):
    """The condition: status, reason and message."""

    status: bool
    reason: str
    message: str


class Cause(NamedTuple):
    """Why an AdmissionCheck is inactive: the MultiKueueCluster that the message is about ('' for none), and the message
    ('' if nobody has judged the check).
    """

    cluster: str = ""
    message: str = ""


CHECK = Active(True, "Active", "The admission check is active")


def condition_of(raw: Raw | None, kind: str) -> Mapping[str, str] | None:
    """The condition of that type of an object; None if there is none."""
    conditions: Sequence[Mapping[str, str]] = ((raw or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), None)


def is_active(raw: Raw) -> bool:
    """Whether the condition Active of an object is True."""
    return is_true(raw, names.Condition.ACTIVE)


def patch(raw: Raw, wanted: Active | None, now: float, *, kind: str = names.Condition.ACTIVE) -> Raw | None:
    """Returns the patch of an object's status with the condition, or without it if none is wanted; None if it is so."""
    old = condition_of(raw, kind)
    others = [each for each in (raw.get("status") or {}).get("conditions") or () if each["type"] != kind]
    if wanted is None:
        return guarded({"status": {"conditions": others}}, raw) if old is not None else None
    status = "True" if wanted.status else "False"
    if old is not None and (old["status"], old["reason"], old.get("message")) == (status, *wanted[1:]):
        return None
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else stamp(now)
    new = {
        "type": kind,
        "status": status,
        "reason": wanted.reason,
        "message": wanted.message[: names.CONDITION_MESSAGE_LIMIT],
        "lastTransitionTime": since,
        "observedGeneration": raw["metadata"].get("generation", 0),
    }
    return guarded({"status": {"conditions": [*others, new]}}, raw)


def check_names(queue: Raw) -> tuple[str, ...]:
    """The AdmissionChecks that a ClusterQueue refers to."""
    checks = ((queue.get("spec") or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return tuple(str(check["name"]) for check in checks)


def decided_by(check: Raw, controller: str) -> bool:
    """Whether this controller decides the states of an AdmissionCheck."""
    return bool((check.get("spec") or {}).get("controllerName") == controller)


def parameters_name(check: Raw, kind: str) -> tuple[str, str]:
    """Returns the name of the object of this kind that an AdmissionCheck refers to, or '' and what is wrong."""
    reference = (check.get("spec") or {}).get("parameters")
    if not reference:
        return "", "missing parameters reference"
    for field, found, wanted in (
        ("group", reference.get("apiGroup"), names.GROUP),
        ("kind", reference.get("kind"), kind),
    ):
        if found != wanted:
            return "", f'wrong {field} "{found or ""}", expecting "{wanted}": bad parameters reference'
    return str(reference.get("name") or ""), "" if reference.get("name") else "empty name: bad parameters reference"


def not_found(kind: str, name: str) -> str:
    """What the API server answers for an object of Kueue's group that does not exist."""
    return f'{kind}.{names.GROUP} "{name}" not found'
