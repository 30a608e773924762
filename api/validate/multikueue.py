"""Rules of MultiKueueConfig and MultiKueueCluster beyond their schemas."""

from collections.abc import Callable
from dataclasses import dataclass

from api.errors import FieldError, broken_rule
from api.objects import Raw
from api.validate.common import spec_of


@dataclass(frozen=True, slots=True)
class _SameForUpdate:
    """Returns the errors of the rules that depend only on the new object."""

    rules: Callable[[Raw], list[FieldError]]

    def validate_create(self, obj: Raw) -> list[FieldError]:
        """Errors of a new object."""
        return self.rules(obj)

    def validate_update(self, old: Raw, new: Raw) -> list[FieldError]:
        """Errors of a changed object."""
        del old
        return self.rules(new)


def _config(obj: Raw) -> list[FieldError]:
    clusters: list[str] = spec_of(obj).get("clusters") or []
    return [] if len(set(clusters)) == len(clusters) else [broken_rule("spec.clusters", "must be unique")]


def _cluster(obj: Raw) -> list[FieldError]:
    source = spec_of(obj).get("clusterSource")
    if source is None or sum(source.get(kind) is not None for kind in ("kubeConfig", "clusterProfileRef")) == 1:
        return []
    text = "exactly one of the fields in [kubeConfig clusterProfileRef] must be set"
    return [broken_rule("spec.clusterSource", text)]


CONFIG = _SameForUpdate(_config)
CLUSTER = _SameForUpdate(_cluster)
