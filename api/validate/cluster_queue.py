"""Rules of a ClusterQueue beyond its schema."""

import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from api.errors import FieldError, forbidden, invalid, not_supported
from api.feature_gates import Gates, enabled
from api.names import Fungibility, PreemptionPolicy, QueueingStrategy
from api.objects import Raw
from api.syntax import label_selector
from api.validate.common import fair_sharing, immutable, spec_of
from api.validate.quotas import resource_groups, totals

_MOST_CONCURRENT_FLAVORS: Final = 16
_SELECTOR_FIELDS: Final = ("matchLabels", "matchExpressions")


def validate_create(obj: Raw, gates: Gates) -> list[FieldError]:
    """Errors of a new ClusterQueue."""
    return [*_spec(spec_of(obj), gates), *_on_flavors(spec_of(obj), None)]


def validate_update(old: Raw, new: Raw, gates: Gates) -> list[FieldError]:
    """Errors of a changed ClusterQueue."""
    before, after = spec_of(old), spec_of(new)
    policy = "concurrentAdmissionPolicy"
    strict = enabled("RejectUpdatesToCQWithInvalidOnFlavors", gates)
    return [
        *_spec(after, gates),
        *_on_flavors(after, None if strict else before),
        *immutable(f"spec.{policy}", before.get(policy), after.get(policy)),
    ]


def _spec(spec: Raw, gates: Gates) -> Iterator[FieldError]:
    groups = spec.get("resourceGroups") or []
    yield from resource_groups(
        "spec.resourceGroups",
        groups,
        parent="cohort",
        has_parent=bool(spec.get("cohortName")),
        lending_within_nominal=True,
    )
    yield from _namespaces(spec.get("namespaceSelector"))
    yield from _preemption(spec.get("preemption") or {})
    yield from _fungibility(spec.get("flavorFungibility") or {})
    yield from fair_sharing("spec.fairSharing", spec.get("fairSharing"))
    yield from totals("spec.resourceGroups", groups)
    if spec.get("concurrentAdmissionPolicy") is not None and enabled("ConcurrentAdmission", gates):
        yield from _concurrent_admission(spec)


def _namespaces(selector: Raw | None) -> list[FieldError]:
    """A label selector: keys other than its fields would be lost, and {} selects all."""
    unknown = sorted(set(selector or ()) - set(_SELECTOR_FIELDS))
    errors = [
        forbidden(
            f"spec.namespaceSelector.{key}",
            "unknown field; it would be dropped and leave a selector that matches more namespaces than meant"
            f" (write {_meant(key)})",
        )
        for key in unknown
    ]
    return errors + label_selector("spec.namespaceSelector", selector)


def _meant(key: str) -> str:
    """Returns what the author of this key probably meant: a label, or a misspelt field."""
    fields = {field.lower(): field for field in _SELECTOR_FIELDS}
    close = difflib.get_close_matches(key.lower(), fields, n=1, cutoff=0.8)
    return f"{fields[close[0]]}: ..." if close else f"matchLabels: {{{key}: ...}}"


def _preemption(preemption: Raw) -> list[FieldError]:
    reclaim = preemption.get("reclaimWithinCohort", PreemptionPolicy.NEVER)
    borrow = (preemption.get("borrowWithinCohort") or {}).get("policy", PreemptionPolicy.NEVER)
    if reclaim != PreemptionPolicy.NEVER or borrow == PreemptionPolicy.NEVER:
        return []
    return [invalid("spec.preemption", preemption, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")]


def _fungibility(fungibility: Raw) -> list[FieldError]:
    preference = fungibility.get("preference")
    both = {
        fungibility.get("whenCanBorrow", Fungibility.MAY_STOP_SEARCH),
        fungibility.get("whenCanPreempt", Fungibility.TRY_NEXT_FLAVOR),
    }
    if preference is None or both == {Fungibility.TRY_NEXT_FLAVOR}:
        return []
    text = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
    return [invalid("spec.flavorFungibility.preference", preference, text)]


def _flavors(spec: Raw) -> list[str]:
    groups = spec.get("resourceGroups") or ()
    return sorted({flavor["name"] for group in groups for flavor in group.get("flavors") or ()})


def _checks(spec: Raw) -> list[Raw]:
    return (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []


def _on_flavors(spec: Raw, old: Raw | None) -> list[FieldError]:
    """Flavors of admission checks that the queue does not have.

    A mistake stored in ``old``, before this rule existed, is accepted as long as neither it nor the flavors change.
    """
    flavors = _flavors(spec)
    tolerated = {}
    if old is not None and _flavors(old) == flavors:
        tolerated = {check["name"]: set(check.get("onFlavors") or ()) for check in _checks(old)}
    errors = []
    for index, check in enumerate(_checks(spec)):
        chosen = check.get("onFlavors") or []
        if tolerated.get(check["name"]) == set(chosen):
            continue
        path = f"spec.admissionChecksStrategy.admissionChecks[{index}].onFlavors"
        for place, flavor in enumerate(chosen):
            if flavor not in flavors:
                wrong = not_supported(f"{path}[{place}]", flavor, flavors)
                errors.append(wrong if flavors else replace(wrong, detail="spec.resourceGroups has no flavors"))
    return errors


def _concurrent_admission(spec: Raw) -> Iterator[FieldError]:
    groups = spec.get("resourceGroups") or []
    if len(groups) != 1:
        text = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
        yield invalid("spec.resourceGroups", len(groups), text)
    elif (count := len(groups[0].get("flavors") or ())) > _MOST_CONCURRENT_FLAVORS:
        text = (
            f"cannot have more than {_MOST_CONCURRENT_FLAVORS} resource flavors in the ResourceGroup"
            " when ConcurrentAdmissionPolicy is defined"
        )
        yield invalid("spec.resourceGroups[0].flavors", count, text)
    migration = spec["concurrentAdmissionPolicy"].get("migration") or {}
    path = "spec.concurrentAdmissionPolicy.migration.constraints"
    constraints, mode = migration.get("constraints"), migration.get("mode", "")
    if constraints is not None and mode not in ("", "TryPreferredFlavors"):
        yield forbidden(path, f'may only be set when migration.mode is "TryPreferredFlavors" (got "{mode}")')
    elif constraints and (last := constraints.get("lastAcceptableFlavorName")) is not None:
        flavors = _flavors(spec)
        if last not in flavors:
            text = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(flavors)}]"
            yield invalid(f"{path}.lastAcceptableFlavorName", last, text)
    if spec.get("queueingStrategy") == QueueingStrategy.STRICT_FIFO:
        text = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
        yield invalid("spec.queueingStrategy", QueueingStrategy.STRICT_FIFO, text)
