"""Changes of a Job's pods that Kubernetes refuses ("field is immutable"): what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.feedback.change import Change
from core.feedback.rules import Finding, Rule, findings
from core.model import Raw
from core.state.lookup import Lookup

PodSpecs = tuple[Raw, ...]

_PLACEMENT: Final = frozenset({"nodeSelector", "tolerations", "affinity", "schedulingGates"})
"""What may be changed in the pods of a Job that waits, beside labels, annotations and resources."""


def fixed(specs: Iterable[Raw], *, waits: bool) -> PodSpecs:
    """The part of pod specs that Kubernetes does not let change; all of it unless the Job ``waits``."""
    return tuple(_without_placement(spec) if waits else spec for spec in specs)


def of_pods(change: Change[PodSpecs], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of the fixed part of pod specs."""
    return findings(FIXED_RULES, change, lookup)


def _without_placement(spec: Raw) -> Raw:
    kept = {name: value for name, value in spec.items() if name not in _PLACEMENT}
    for holder in ("containers", "initContainers"):
        kept[holder] = [{k: v for k, v in each.items() if k != "resources"} for each in spec.get(holder) or ()]
    return kept


_TEXT: Final = (
    "a Job's pod template cannot change: delete the Job and create it again (kubectl replace --force -f FILE)"
)


def _immutable(change: Change[PodSpecs], lookup: Lookup) -> Iterable[str]:
    if change.old is not None and change.new is not None and change.old != change.new:
        yield _TEXT


FIXED_RULES: Final[tuple[Rule[Change[PodSpecs]], ...]] = (
    Rule(
        "pods-immutable",
        "The pod template of a queued Job is changed, which Kubernetes refuses.",
        _immutable,
        example=_TEXT,
    ),
)
