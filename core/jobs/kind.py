"""What queueing needs to know of a kind of job. One kind is one file beside this, and one entry in ``core.jobs.KINDS``.

Jobs stay raw dicts: they are read, and patched with what differs, never rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.jobs.template import Injection
from core.model import Key, Raw
from core.model.owner import Owner


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object, or of its subresource."""

    body: Raw
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended."""

    success: bool
    message: str


class JobKind(Protocol):
    """A kind of job. ``framework`` is its name in ``integrations.frameworks`` of the Configuration."""

    framework: str
    api_version: str
    kind: str
    plural: str

    def pod_sets(self, job: Raw) -> list[Raw]:
        """``spec.podSets`` of the Workload that stands for the job."""
        ...

    def suspended(self, job: Raw) -> bool:
        """Whether it is wanted not to run."""
        ...

    def active(self, job: Raw) -> bool:
        """Whether it still has pods."""
        ...

    def finished(self, job: Raw) -> Outcome | None:
        """How it ended, if it did."""
        ...

    def pods_ready(self, job: Raw) -> bool:
        """Whether all its pods are ready or have succeeded."""
        ...

    def reclaimable(self, job: Raw) -> Mapping[str, int]:
        """Pods by pod set that will not be needed any more although the job runs on."""
        ...

    def start(self, job: Raw, injections: Sequence[Injection]) -> list[Patch]:
        """Let it run with the nodes, counts and marks it was given; raises ``template.ConflictError``."""
        ...

    def stop(self, job: Raw, pod_sets: Sequence[Raw]) -> list[Patch]:
        """Suspend it and undo what ``start`` put in; the pod sets of its Workload say what was there (none: unknown).

        Empty when nothing is left to do, so that a stop cut short is finished by asking again.
        """
        ...


def group_of(kind: JobKind) -> str:
    """The API group of a kind of job."""
    return kind.api_version.rpartition("/")[0]


def owner_of(kind: JobKind, job: Key) -> Owner:
    """A job of this kind as the owner of its Workload."""
    return Owner(group_of(kind), kind.kind, job.namespace, job.name)


def guard(job: Raw, *, version: bool) -> Raw:
    """The metadata that keeps a patch from landing on another object, and with ``version`` on another state of it."""
    metadata = {"uid": job["metadata"]["uid"]}
    if version and "resourceVersion" in job["metadata"]:
        metadata["resourceVersion"] = job["metadata"]["resourceVersion"]
    return metadata
