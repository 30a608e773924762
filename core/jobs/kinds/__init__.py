"""The table of the kinds of jobs: one line for each kind; the rest is in the kind's file in this package."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from api.names import DEFAULT_FRAMEWORKS
from core.jobs.kind import JobKind
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.job import BATCH_JOB
from core.jobs.kinds.jobset import JOB_SET
from core.jobs.kinds.kubeflow import JAX_JOB, PADDLE_JOB, PY_TORCH_JOB, TF_JOB, XG_BOOST_JOB
from core.jobs.kinds.mpijob import MPI_JOB
from core.jobs.kinds.pod import POD
from core.jobs.kinds.pod_group import POD_GROUP, grouped
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.rayjob import RAY_JOB
from core.jobs.kinds.rayservice import RAY_SERVICE
from core.jobs.kinds.sparkapplication import SPARK_APPLICATION
from core.jobs.kinds.trainjob import TRAIN_JOB
from core.jobs.pod_owners import POD_OWNERS
from core.model import Key, Raw

__all__ = [
    "ALL",
    "BATCH_JOB",
    "FRAMEWORKS_IN_HELM",
    "JOB_SET",
    "KINDS",
    "POD",
    "POD_GROUP",
    "enabled_kinds",
    "kind_at",
    "kind_of",
    "supported",
]

ALL: Final[tuple[JobKind, ...]] = (
    BATCH_JOB,
    MPI_JOB,
    RAY_JOB,
    RAY_CLUSTER,
    RAY_SERVICE,
    JOB_SET,
    TRAIN_JOB,
    PY_TORCH_JOB,
    TF_JOB,
    XG_BOOST_JOB,
    PADDLE_JOB,
    JAX_JOB,
    APP_WRAPPER,
    SPARK_APPLICATION,
    POD,
)
"""In the order in which Kueue's own Configuration names them."""

KINDS: Final[dict[str, JobKind]] = {kind.framework: kind for kind in ALL}
"""By name in ``integrations.frameworks`` of the Configuration."""

_DEFAULT: Final = " ".join(f'"{each}"' for each in DEFAULT_FRAMEWORKS)
FRAMEWORKS_IN_HELM: Final = (
    f"{{{{- $frameworks := default (list {_DEFAULT}) (default (dict) $configuration.integrations).frameworks -}}}}\n"
)
"""The line of the chart's templates that sets ``$frameworks``: those of the ``$configuration``, or the default."""


def supported() -> dict[str, str]:
    """Every name in ``integrations.frameworks`` that is supported, with the feature gate that it needs, '' for none."""
    return {kind.framework: kind.gate for kind in ALL} | {owner.framework: "" for owner in POD_OWNERS}


def enabled_kinds(frameworks: Collection[str]) -> list[JobKind]:
    """The kinds that these frameworks enable, in their order; those that are enabled by another one last."""
    named = [KINDS[name] for name in frameworks if name in KINDS]
    return [*named, *(kind for kind in ALL if kind not in named and kind.enabled(frameworks))]


def kind_of(raw: Raw) -> JobKind | None:
    """The kind of job that an object is, by its ``apiVersion`` and ``kind``; None for any other object."""
    named = (raw.get("apiVersion"), raw.get("kind"))
    return next((each for each in ALL if (each.api_version, each.kind) == named), None)


def kind_at(kind: JobKind, key: Key) -> JobKind:
    """The rules for the job with this key: pods of a group have others than single pods."""
    return POD_GROUP if kind is POD and grouped(key) else kind
