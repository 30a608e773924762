"""Who preempted whom: a row for each preemption that Workloads still show, the newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from api.objects import key_of
from core.explain.preemption import preemptions
from core.explain.sight import Sight
from core.model import Key, Raw
from core.model.messages import DUE_TO
from core.page.queue import JobOf
from core.page.story import NamedOf


def rows(workloads: Iterable[Raw], named: NamedOf, sight: Sight, job_of: JobOf) -> list[Raw]:
    """Returns the preemptions of workloads that may be named; a preemptor that may not be is counted alone."""
    found = [row for raw in workloads if sight.names(key_of(raw)) for row in _of(raw, named, sight, job_of)]
    return sorted(found, key=lambda row: (-(row["at"] or 0.0), row["namespace"], row["name"]))


def _of(raw: Raw, named: NamedOf, sight: Sight, job_of: JobOf) -> Iterator[Raw]:
    key = key_of(raw)
    for each in preemptions(raw, ()):
        by = named(each.uid)
        yield {
            "at": each.at,
            "namespace": key.namespace,
            "name": key.name,
            "job": job_of(key),
            "queue": each.of,
            "by": _named(by, sight, job_of),
            "byQueue": each.by if sight.cluster_queues or each.by == each.of else "",
            "cause": DUE_TO[each.reason],
            "rule": each.rule if sight.cluster_queues else "",
            "wouldHelp": each.way if sight.cluster_queues else "",
        }


def _named(key: Key | None, sight: Sight, job_of: JobOf) -> Raw:
    if key is None:
        return {"gone": True}
    return {"namespace": key.namespace, "name": key.name, "job": job_of(key)} if sight.names(key) else {"hidden": True}
