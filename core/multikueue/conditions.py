"""The condition Active of a MultiKueueCluster and of an AdmissionCheck that uses MultiKueue, in Kueue's words."""

from __future__ import annotations

from collections.abc import Mapping

from api.names import MULTIKUEUE_CONTROLLER, Kind
from core.model import Raw
from core.wire.active import CHECK, Active, decided_by, is_active, not_found, parameters_name

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


def _listed(missing: list[str], inactive: list[str]) -> tuple[tuple[str, list[str]], ...]:
    return ("Missing", missing), ("Inactive", inactive)
