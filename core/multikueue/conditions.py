"""The condition Active of a MultiKueueCluster and of an AdmissionCheck that uses MultiKueue, in Kueue's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from api import names
from core.model import Raw
from core.multikueue.group import condition_of
from core.wire.guard import guarded
from core.wire.timestamps import stamp


class Active(NamedTuple):
    """The condition: status, reason and message."""

    status: bool
    reason: str
    message: str


CONNECTED = Active(True, "Active", "Connected")
CHECK = Active(True, "Active", "The admission check is active")


def is_ours(check: Raw) -> bool:
    """Whether an AdmissionCheck is one of MultiKueue."""
    return bool((check.get("spec") or {}).get("controllerName") == names.MULTIKUEUE_CONTROLLER)


def config_name(check: Raw) -> tuple[str, str]:
    """Returns the name of the MultiKueueConfig of an AdmissionCheck, or '' and what is wrong with its parameters."""
    reference = (check.get("spec") or {}).get("parameters")
    if not reference:
        return "", "missing parameters reference"
    for field, found, wanted in (
        ("group", reference.get("apiGroup"), names.GROUP),
        ("kind", reference.get("kind"), names.Kind.MULTIKUEUE_CONFIG),
    ):
        if found != wanted:
            return "", f'wrong {field} "{found or ""}", expecting "{wanted}": bad parameters reference'
    return str(reference.get("name") or ""), "" if reference.get("name") else "empty name: bad parameters reference"


def clusters_of(config: Raw | None) -> tuple[str, ...]:
    """The worker clusters of a MultiKueueConfig, in its order."""
    return tuple(((config or {}).get("spec") or {}).get("clusters") or ())


def of_check(check: Raw, config: Raw | None, clusters: Mapping[str, Raw]) -> Active:
    """Whether the AdmissionCheck can be used: at least one of its clusters is active. ``clusters`` are the
    MultiKueueClusters by name.
    """
    name, wrong = config_name(check)
    if not wrong and config is None:
        wrong = f'MultiKueueConfig.{names.GROUP} "{name}" not found'
    if wrong:
        return Active(False, "BadConfig", f"Cannot load the AdmissionChecks parameters: {wrong}")
    wanted = clusters_of(config)
    missing = [each for each in wanted if each not in clusters]
    inactive = [each for each in wanted if each in clusters and not is_active(clusters[each])]
    parts = [f"{what} clusters: [{' '.join(found)}]" for what, found in _listed(missing, inactive) if found]
    if not parts:
        return CHECK
    if len(missing) + len(inactive) < len(wanted):
        return Active(True, "SomeActiveClusters", ", ".join(parts))
    return Active(False, "NoUsableClusters", ", ".join(parts))


def is_active(raw: Raw) -> bool:
    """Whether the condition Active of an object is True."""
    found = condition_of(raw, names.Condition.ACTIVE)
    return found is not None and found["status"] == "True"


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


def _listed(missing: list[str], inactive: list[str]) -> tuple[tuple[str, list[str]], ...]:
    return ("Missing", missing), ("Inactive", inactive)
