"""Labels and annotations of a job that have no effect or contradict each other: kubectl accepts any key.

Separate from `core.feedback.jobs` because these rules also apply to jobs without a queue name: a mistyped label may be
the reason.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from api.names import GROUP, Annotation, Label
from core.feedback import topology
from core.feedback.change import Change
from core.feedback.rules import HINTS, Finding, IsSpent, Rule, closest, findings, fitted, never, resembles, shortened
from core.model import Key, Labels
from core.state.lookup import Lookup

_ON_JOB_AS_LABEL, _ON_JOB, _ON_PODS_AS_LABEL, _ON_PODS = (
    "a label of the job",
    "an annotation of the job",
    "a label of spec.template",
    "an annotation of spec.template",
)


LONGEST_KEY: Final = 253 + 1 + 63
"""The maximum length of a key in Kubernetes: a prefix, a slash and a name. Longer keys are refused by Kubernetes and
skipped here.
"""

LOOKED_AT: Final = 256
"""The maximum number of labels, and of annotations, of one object that are checked, because a request waits."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The labels and annotations of a job and of its pod templates.

    ``left`` is a suspended job that no controller will start in its present state. ``noun`` is what the job is called,
    ``namespace`` where it is ('' if that is not known).
    """

    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    pod_labels: Labels = field(default_factory=dict)
    pod_annotations: Labels = field(default_factory=dict)
    left: bool = False
    noun: str = "job"
    namespace: str = ""

    def written(self, place: str) -> str:
        """A place as messages have it."""
        return place.replace("the job", f"the {self.noun}")

    @property
    def places(self) -> Iterable[tuple[str, Labels]]:
        """The keys by place; the place as text."""
        return (
            (_ON_JOB_AS_LABEL, self.labels),
            (_ON_JOB, self.annotations),
            (_ON_PODS_AS_LABEL, self.pod_labels),
            (_ON_PODS, self.pod_annotations),
        )


def of_keys(change: Change[Keys], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """Returns all findings about the labels and annotations that a change adds."""
    return findings(KEY_RULES, change, lookup, spent)


_READ: Final[Mapping[str, tuple[str, ...]]] = {
    Label.QUEUE_NAME: (_ON_JOB_AS_LABEL, _ON_JOB),
    Label.PRIORITY_CLASS: (_ON_JOB_AS_LABEL,),
    Label.MAX_EXEC_TIME_SECONDS: (_ON_JOB_AS_LABEL,),
    Annotation.ADMISSION_GATED_BY: (_ON_JOB,),
    Annotation.MIN_PARALLELISM: (_ON_JOB,),
    Annotation.COMPLETIONS_EQUAL_PARALLELISM: (_ON_JOB,),
}
"""Where the keys that users set are read; other keys cause no warning in any place."""

_KNOWN: Final = frozenset(
    value
    for names in (Label, Annotation)
    for name, value in vars(names).items()
    if name.isupper() and value.startswith(f"{GROUP}/")
)
_NAMES: Final = tuple(sorted(key.partition("/")[2] for key in _KNOWN))


def _new(change: Change[Keys]) -> Iterator[tuple[str, str]]:
    """Returns the new keys with their places."""
    if change.new is None:
        return
    before = dict(change.old.places) if change.old is not None else {}
    for place, found in change.new.places:
        known = before.get(place, {})
        come = (key for key in found if len(key) <= LONGEST_KEY and "/" in key and key not in known)
        yield from ((place, key) for key in heapq.nsmallest(LOOKED_AT, come))


def _meant_for_us(key: str) -> bool:
    """Whether the prefix is Kueue's group or similar; subdomains of it belong to others."""
    prefix = key.partition("/")[0]
    if prefix.endswith(f".{GROUP}"):
        return False
    return prefix == GROUP or prefix.startswith("kueue.") or resembles(prefix, GROUP, 2)


def names_queue(labels: Labels) -> str:
    """The first label that names a queue, or nearly; '' for none."""
    return next(filter(_is_queue, sorted(labels)[:LOOKED_AT]), "")


def _is_queue(key: str) -> bool:
    if key == Label.QUEUE_NAME or _bare(key):
        return True
    if "/" not in key or not _meant_for_us(key) or key in _KNOWN:
        return False
    return closest(key.partition("/")[2], _NAMES) == Label.QUEUE_NAME.partition("/")[2]


def _bare(key: str) -> bool:
    """Whether it is the key of the queue without its prefix, however it is joined."""
    return len(key) <= len("queue-name") and key.replace("-", "").replace("_", "").lower() == "queuename"


def _without_prefix(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    if change.new is None or Label.QUEUE_NAME in change.new.labels:
        return
    before = change.old.labels if change.old is not None else {}
    yield from sorted(key for key in change.new.labels if _bare(key) and key not in before)
    # A label of this short name is mostly a user's own, unless its value is a queue of the namespace.
    named = change.new.labels.get("queue", "")
    if named and "queue" not in before and lookup.local_queue(Key(change.new.namespace, named)) is not None:
        yield "queue"


def _unknown(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    noun = change.new.noun if change.new is not None else ""
    for key in _without_prefix(change, lookup):
        yield f"label {key} is ignored and the {noun} has no queue: did you mean {Label.QUEUE_NAME}?"
    unknown = [(place, key) for place, key in _new(change) if _meant_for_us(key) and key not in _KNOWN]
    for number, (place, key) in enumerate(unknown):
        meant = closest(key.partition("/")[2], _NAMES) if number < HINTS else None
        fixes = (f"did you mean {GROUP}/{meant}?", f"did you mean {meant}?") if meant else ("correct or remove it",)
        yield fitted(
            *(
                f"{place.split()[1]} {written} is unknown and ignored: {each}"
                for written in (key, shortened(key))
                for each in fixes
            )
        )


_PLACED: Final = "kube-scheduler places the pods; use pod affinity"
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            Annotation.REQUIRED_TOPOLOGY,
            Annotation.PREFERRED_TOPOLOGY,
            Annotation.UNCONSTRAINED_TOPOLOGY,
            Annotation.SLICE_REQUIRED_TOPOLOGY,
            Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
            Annotation.SLICE_SIZE,
            Annotation.POD_SET_GROUP_NAME,
        ),
        _PLACED,
    ),
}
"""Keys without an effect while TopologyAwareScheduling is off, and what happens instead."""


def _misplaced(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    queued = change.new is not None and Label.QUEUE_NAME in {**change.new.labels, **change.new.annotations}
    for place, key in _new(change):
        read = _READ.get(key, (place,))
        if key in _WITHOUT_EFFECT and topology.is_off(lookup):
            continue  # in any place
        if place not in read and not (key == Label.QUEUE_NAME and queued):  # copied to the pods it does no harm
            there, right = (change.new.written(each) if change.new is not None else each for each in (place, read[0]))
            yield fitted(
                f"{key} has no effect as {there}: make it {right}",
                f"{key} has no effect there: make it {right}",
            )


def _without_effect(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    for place, key in _new(change) if topology.is_off(lookup) else ():
        instead = _WITHOUT_EFFECT.get(key)
        if instead and dict(_places(change))[place][key] != "false":
            yield fitted(f"{key} has no effect here: {instead}", f"{shortened(key)} has no effect here: {instead}")


def _places(change: Change[Keys]) -> Iterable[tuple[str, Labels]]:
    return change.new.places if change.new is not None else ()


def _by_annotation(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    if _queues_changed(change) and change.new is not None and not _queues(change.new)[0] and _queues(change.new)[1]:
        yield f"annotation {Label.QUEUE_NAME} is from v0.1: this {change.new.noun} is queued, but use a label instead"


def _twice(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    label, annotation = _queues(change.new) if change.new is not None else ("", "")
    if _queues_changed(change) and label and annotation and label != annotation:
        yield fitted(
            f'label and annotation name different queues: label "{shortened(label)}" is used; remove annotation'
            f" {Label.QUEUE_NAME}"
        )


def _withdrawn(change: Change[Keys], lookup: Lookup) -> Iterable[str]:
    if change.old is not None and change.new is not None and change.new.left and _queues_changed(change):
        queue = next(filter(None, _queues(change.old)))
        yield fitted(
            f'removes the job from LocalQueue "{shortened(queue)}": its queue position is lost; it stays suspended'
            f" until resumed or queued again"
        )


def _queues(keys: Keys) -> tuple[str, str]:
    """The queue by label, and by v0.1's annotation."""
    return keys.labels.get(Label.QUEUE_NAME) or "", keys.annotations.get(Annotation.QUEUE_NAME) or ""


def _queues_changed(change: Change[Keys]) -> bool:
    return change.new is not None and (change.old is None or _queues(change.old) != _queues(change.new))


KEY_RULES: Final[tuple[Rule[Change[Keys]], ...]] = (
    Rule(
        "unknown-key",
        "A label or annotation with Kueue's prefix, or a similar one, is unknown.",
        _unknown,
        example=("label kueue.x-k8s.io/queue-nmae is unknown and ignored: did you mean kueue.x-k8s.io/queue-name?"),
    ),
    Rule(
        "misplaced-key",
        "A label is set as an annotation, an annotation as a label, or a key of the pods on the job.",
        _misplaced,
        example="kueue.x-k8s.io/priority-class has no effect as an annotation of the job: make it a label of the job",
    ),
    Rule(
        "key-without-effect",
        "A label or annotation of Kueue has no effect in Seiretsu.",
        _without_effect,
        example="kueue.x-k8s.io/podset-required-topology has no effect here:"
        " kube-scheduler places the pods; use pod affinity",
    ),
    Rule(
        "queue-by-annotation",
        "The queue is named by the annotation of v0.1.",
        _by_annotation,
        example=("annotation kueue.x-k8s.io/queue-name is from v0.1: this job is queued, but use a label instead"),
    ),
    Rule(
        "queue-named-twice",
        "Label and annotation name different queues.",
        _twice,
        example=(
            'label and annotation name different queues: label "other" is used; remove annotation'
            " kueue.x-k8s.io/queue-name"
        ),
    ),
    Rule(
        "queue-withdrawn",
        "The queue name of a waiting job is removed.",
        _withdrawn,
        example='removes the job from LocalQueue "main": its queue position is lost; it stays suspended until'
        " resumed or queued again",
    ),
)
