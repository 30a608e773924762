"""Labels of metrics that the operator promotes from labels and annotations of objects (``metrics.customLabels``).

Separate from the metrics, which ask by the kind of object that a series is about. Rule:
https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/#ControllerMetricsCustomLabel (feature gate
CustomMetricLabels).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from api.objects import Key, Raw

UNTRACKED: Final = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""Replaces every value that is not among the ``trackedValues``."""


@dataclass(frozen=True, slots=True)
class PromotedLabel:
    """One promoted label: ``custom_<name>``, read from a label, or from an annotation, of objects of a ``kind``."""

    name: str
    kind: str = "ClusterQueue"
    label_key: str = ""
    annotation_key: str = ""
    tracked: tuple[str, ...] = ()

    def value(self, raw: Raw | None) -> str:
        """Return the value that an object has; '' where it has none or there is no object."""
        metadata = raw["metadata"] if raw is not None else {}
        if self.annotation_key:
            found = (metadata.get("annotations") or {}).get(self.annotation_key, "")
        else:
            found = (metadata.get("labels") or {}).get(self.label_key or self.name, "")
        return found if not self.tracked or found in self.tracked else UNTRACKED


class CustomLabels:
    """All promoted labels by kind; ``look`` returns the object of a kind and key, None where it is gone."""

    def __init__(
        self,
        labels: Iterable[PromotedLabel] = (),
        look: Callable[[str, Key], Raw | None] = lambda kind, key: None,
    ) -> None:
        self._by_kind: dict[str, tuple[PromotedLabel, ...]] = {}
        self._look = look
        for label in labels:
            self._by_kind[label.kind] = (*self._by_kind.get(label.kind, ()), label)

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Return the names of the labels that objects of these kinds give, kind by kind in alphabetical order."""
        return tuple(f"custom_{label.name}" for kind in sorted(kinds) for label in self._by_kind.get(kind, ()))

    def promotes(self, kind: str) -> bool:
        """Whether objects of the kind give any label."""
        return kind in self._by_kind

    def values(self, subjects: Iterable[tuple[str, Key]]) -> tuple[str, ...]:
        """Return the values in the order of ``names``; ``subjects`` are kinds and keys of objects, one a kind."""
        if not self._by_kind:
            return ()
        return tuple(
            label.value(raw)
            for kind, key in sorted(subjects)
            if kind in self._by_kind
            for raw in (self._look(kind, key),)
            for label in self._by_kind[kind]
        )
