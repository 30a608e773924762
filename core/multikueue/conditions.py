"""The condition Active of a MultiKueueCluster and of an AdmissionCheck that uses MultiKueue, in Kueue's words."""

from __future__ import annotations

from collections.abc import Mapping

from api.names import MULTIKUEUE_CONTROLLER, Condition, Kind
from core.model import Raw
from core.wire.active import CHECK, Active, Cause, condition_of, decided_by, is_active, not_found, parameters_name

CONNECTED = Active(True, "Active", "Connected")


def is_ours(check: Raw) -> bool:
    """Whether an AdmissionCheck is one of MultiKueue."""
    return decided_by(check, MULTIKUEUE_CONTROLLER)


def clusters_of(config: Raw | None) -> tuple[str, ...]:
    """The worker clusters of a MultiKueueConfig, in its order."""
    return tuple(((config or {}).get("spec") or {}).get("clusters") or ())


def of_check(check: Raw, config: Raw | None, clusters: Mapping[str, Raw]) -> Active:
    """Whether the AdmissionCheck can be used: at least one of its clusters is active. ``clusters`` are the
    MultiKueueClusters by name.
    """
    name, wrong = parameters_name(check, Kind.MULTIKUEUE_CONFIG)
    if not wrong and config is None:
        wrong = not_found(Kind.MULTIKUEUE_CONFIG, name)
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


def cause(check: Raw, config: Raw | None, clusters: Mapping[str, Raw]) -> Cause:
    """Why an AdmissionCheck is inactive, as deep as it is known: the first of its clusters that cannot be used, else
    the message of its own condition.
    """
    for name in clusters_of(config) if is_ours(check) else ():
        if name not in clusters:
            return Cause(name, "it does not exist")
        if not is_active(clusters[name]):
            condition = condition_of(clusters[name], Condition.ACTIVE)
            return Cause(name, str((condition or {}).get("message") or "it is not connected yet"))
    condition = condition_of(check, Condition.ACTIVE)
    return Cause("", str((condition or {}).get("message") or ""))


def _listed(missing: list[str], inactive: list[str]) -> tuple[tuple[str, list[str]], ...]:
    return ("Missing", missing), ("Inactive", inactive)
