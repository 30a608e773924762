"""What the rules of ``findings`` read: objects of the cluster, and what only a reader with a clock, a network and
certificates can know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.model import Raw


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerFacts:
    """A worker cluster of MultiKueue, as its kubeconfig may see it.

    ``trouble`` is why it cannot be reached; then nothing else is known. ``not_served`` are resources
    (``workloads.v1beta2.kueue.x-k8s.io``), ``denied`` rights (``create jobs.batch``), ``unseen`` the plurals that may
    not be listed.
    """

    name: str
    trouble: str = ""
    not_served: Sequence[str] = ()
    denied: Sequence[str] = ()
    unseen: Sequence[str] = ()
    objects: Mapping[str, Sequence[Raw]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A cluster at one moment.

    ``objects`` by plural of their resource; a resource that is not served has none. ``unseen`` has those that could not
    be read, with the reason. ``expiry`` is the last moment of validity of the certificates in a ``caBundle``, by its
    text (None: they cannot be read). ``answers`` is whether a server accepts connections, by URL of a webhook.
    ``untrusted`` is why the program that answers is not verified by the ``caBundle``, by what is called (a URL, or
    NAMESPACE/NAME of a Service) and the ``caBundle``. ``failed_call`` is what the API server reports of a webhook that
    it could not call just now. ``workers`` are the worker clusters whose kubeconfigs could be read.
    """

    now: datetime
    objects: Mapping[str, Sequence[Raw]] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)
    expiry: Mapping[str, datetime | None] = field(default_factory=dict)
    answers: Mapping[str, bool] = field(default_factory=dict)
    untrusted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    failed_call: str = ""
    workers: Sequence[WorkerFacts] = ()

    def of(self, plural: str) -> Sequence[Raw]:
        """The objects of a resource."""
        return self.objects.get(plural, ())

    def named(self, plural: str, name: str, namespace: str = "") -> Raw | None:
        """Returns an object by its name; None if there is none, or it could not be read."""
        for raw in self.of(plural):
            if (raw["metadata"]["name"], raw["metadata"].get("namespace", "")) == (name, namespace):
                return raw
        return None


def condition(raw: Raw, kind: str) -> Raw:
    """A condition of an object; empty if it has none of this type."""
    found = (each for each in (raw.get("status") or {}).get("conditions") or () if each.get("type") == kind)
    return next(found, {})


def moment(text: str | None) -> datetime | None:
    """The time in a field of an object; None if it is absent."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
