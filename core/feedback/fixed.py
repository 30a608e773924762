"""Changes of a job's pods that Kubernetes refuses ("field is immutable"), and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from core.feedback.change import Change
from core.feedback.rules import Finding, Rule, findings
from core.model import Raw
from core.state.lookup import Lookup


@dataclass(frozen=True, slots=True)
class FixedParts:
    """The part of each pod template that Kubernetes does not let change, and the kind of the job."""

    kind: str
    templates: tuple[Raw, ...]


_PLACEMENT: Final = frozenset({"nodeSelector", "tolerations", "affinity", "schedulingGates"})
"""Fields that may be changed in the pods of a waiting job, in addition to labels, annotations and resources."""


def fixed(kind: str, templates: Iterable[Raw], *, waits: bool) -> FixedParts:
    """The part of pod templates that Kubernetes does not let change; labels, annotations and all of the spec unless the
    job ``waits``.
    """
    parts = (_without_placement(each.get("spec") or {}) if waits else _whole(each) for each in templates)
    return FixedParts(kind, tuple(parts))


def other_programs(change: Change[FixedParts]) -> bool:
    """Whether containers are to run other programs: no version of Kubernetes lets a Job's change, waiting or not."""
    if change.old is None or change.new is None:
        return False
    before, after = ([_programs(each.get("spec", each)) for each in of.templates] for of in (change.old, change.new))
    return before != after


def _programs(spec: Raw) -> list[list[object]]:
    containers = (each for holder in ("initContainers", "containers") for each in spec.get(holder) or ())
    return [[each.get(name) for name in ("name", "image", "command", "args")] for each in containers]


def of_pods(change: Change[FixedParts], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of the fixed part of pod templates."""
    return findings(FIXED_RULES, change, lookup)


def _whole(template: Raw) -> Raw:
    """The template without empty fields: an absent one and an empty one are equal to Kubernetes."""
    metadata = template.get("metadata") or {}
    found = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return {"metadata": found, "spec": template.get("spec") or {}}


def _without_placement(spec: Raw) -> Raw:
    kept = {name: value for name, value in spec.items() if name not in _PLACEMENT}
    for holder in ("containers", "initContainers"):
        kept[holder] = [{k: v for k, v in each.items() if k != "resources"} for each in spec.get(holder) or ()]
    return kept


def _text(kind: str) -> str:
    again = f"delete the {kind} and create it again (kubectl replace --force -f FILE)"
    return f"this {kind}'s pod template cannot change: {again}"


def again(kind: str) -> str:
    """The refusal in the place of Kubernetes' own, which has the whole template."""
    return f"spec.template: field is immutable: delete the {kind} and create it again (kubectl replace --force -f FILE)"


def _immutable(change: Change[FixedParts], lookup: Lookup) -> Iterable[str]:
    if change.old is not None and change.new is not None and change.old != change.new:
        yield _text(change.new.kind)


FIXED_RULES: Final[tuple[Rule[Change[FixedParts]], ...]] = (
    Rule(
        "pods-immutable",
        "The pod template of a queued job is changed, which Kubernetes refuses.",
        _immutable,
        example=_text("Job"),
    ),
)
