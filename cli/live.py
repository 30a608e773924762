"""The objects of a live cluster, read once with the user's kubeconfig: for ``simulate --from-cluster`` and
``explain``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from api import resources
from api.objects import Raw, Resource
from cli.reader import Reader
from cli.target import UnreadableError, reached
from controller.kube.config import Connection
from controller.run.watched import WATCHED
from controller.settings import ControllerSettings, Feature
from core.guard.pods import RUNNING
from core.jobs.owners import KNOWN
from seiretsu import running

KINDS = tuple(row.resource for row in WATCHED if row.enters is not None and row.feature is not Feature.DEVICES)
"""The kinds that decisions depend on, in any Configuration."""
OF_DEVICES = tuple(row.resource for row in WATCHED if row.feature is Feature.DEVICES)
"""Those by which claims are counted: only who knows the mapping of the Configuration needs them, and there are many."""
MOST_CHILDREN = 5
"""Of so many objects with events it is asked whether they belong to a job."""
MOST_EVENTS = 500


class Seen(NamedTuple):
    """The objects that a user may read, and the plurals of those that the user may not, with the namespace if only that
    is readable.
    """

    objects: list[Raw]
    unseen: tuple[str, ...]

    def hides(self, *kinds: Resource) -> bool:
        """Whether there may be objects of these kinds that were not shown."""
        return any(word.split()[0] == kind.plural for word in self.unseen for kind in kinds)


class Evidence(NamedTuple):
    """What is known of the pods of an admitted Workload. ``pods`` is None if they may not be read."""

    pods: list[Raw] | None
    events: list[Raw]


def kinds(settings: ControllerSettings) -> tuple[Resource, ...]:
    """The kinds that decisions with these settings depend on."""
    return (*KINDS, *OF_DEVICES) if Feature.DEVICES in settings.features else KINDS


def objects(here: Connection, kinds: Sequence[Resource] = KINDS) -> list[Raw]:
    """Returns all objects of some kinds. Raises UnreadableError if the user may not read them or the API server does
    not answer.
    """
    with Reader(here) as reader:
        found, unseen = seen(reader, kinds, "", None)
        with reached(reader.connection.server):
            nodes, hidden = _nodes(reader, found)
        found, unseen = found + nodes, unseen + hidden
    if unseen:
        raise UnreadableError(f"you may not list {unseen[0]} in {here.server}: ask for the right")
    return found


def seen(
    reader: Reader,
    kinds: Sequence[Resource],
    namespace: str,
    job: tuple[str, str] | None,
    here: Sequence[Resource] = (),
) -> Seen:
    """Returns all objects of some kinds that the user may read: in the whole cluster, else in one namespace; and those
    of the kinds ``here`` in that namespace alone.

    If something is not readable, also the events about a job there (its kind and name). Raises UnreadableError if the
    API server does not answer.
    """
    found: list[Raw] = []
    unseen: list[str] = []
    with reached(reader.connection.server):
        for resource in kinds:
            items = reader.list(resource)
            if items is None and namespace and resource.namespaced:
                items = reader.list(resource, namespace)
                unseen.append(resource.plural if items is None else f"{resource.plural} outside {namespace}")
            elif items is None:
                unseen.append(resource.plural)
            found += items or []
        for resource in here:
            items = reader.list(resource, namespace)
            unseen += [resource.plural] if items is None else []
            found += items or []
        if job is not None:
            nodes, hidden = _nodes(reader, found)
            found += nodes
            unseen += hidden
        if unseen and job is not None:
            selector = f"involvedObject.kind={job[0]},involvedObject.name={job[1]}"
            found += reader.list(resources.EVENTS, namespace, fields=selector) or []
    return Seen(found, tuple(unseen))


def _nodes(reader: Reader, found: Iterable[Raw]) -> tuple[list[Raw], tuple[str, ...]]:
    """The nodes, and the pods on them, if a flavor has a topology; and what of that may not be read."""
    flavors = (raw for raw in found if raw["kind"] == resources.RESOURCE_FLAVORS.kind)
    if not any((raw.get("spec") or {}).get("topologyName") for raw in flavors):
        return [], ()
    nodes, pods = reader.list(resources.NODES), reader.list(resources.PODS, fields=RUNNING)
    read = ((resources.NODES, nodes), (resources.PODS, pods))
    return [*(nodes or ()), *(pods or ())], tuple(resource.plural for resource, items in read if items is None)


def evidence(reader: Reader, workload: Raw, job: Raw | None) -> Evidence | None:
    """Returns the pods of an admitted Workload and the events about them; None if they are not in this cluster."""
    selector = running.pods_of(workload)
    if selector is None:
        return None
    namespace = workload["metadata"]["namespace"]
    with reached(reader.connection.server):
        pods = reader.list(resources.PODS, namespace, labels=selector.labels, fields=selector.fields)
        warnings = reader.list(resources.EVENTS, namespace, fields="type=Warning", most=MOST_EVENTS) or []
        warnings = [each for each in warnings if each.get("reason") in running.WATCHED]
        known = running.about(job, pods or ())
        others = [each for each in warnings if (each.get("involvedObject") or {}).get("uid") not in known]
        children = _children(reader, others, job, namespace)
    return Evidence(pods, [each | {"involvedObject": _as(job, each, children)} for each in warnings])


def _as(job: Raw | None, event: Raw, children: frozenset[str]) -> Raw:
    """The object of an event; the job where the event is about a part of it."""
    about: Raw = event.get("involvedObject") or {}
    return {**about, "uid": (job or {})["metadata"]["uid"]} if about.get("uid") in children else about


def _children(reader: Reader, events: Iterable[Raw], job: Raw | None, namespace: str) -> frozenset[str]:
    """The uids of objects that a job owns and whose pods could not be created: a JobSet's Jobs, for example."""
    if job is None:
        return frozenset()
    found: set[str] = set()
    named = {
        (about.get("apiVersion", ""), about.get("kind", ""), about.get("name", ""), about.get("uid", ""))
        for about in (event.get("involvedObject") or {} for event in events if event.get("reason") == "FailedCreate")
        if str(about.get("name", "")).startswith(job["metadata"]["name"])
    }
    for version, kind, name, uid in sorted(named)[:MOST_CHILDREN]:
        resource = KNOWN.get((version.rpartition("/")[0], kind))
        matching = reader.list(resource, namespace, fields=f"metadata.name={name}") if resource is not None else None
        owners = [each for raw in matching or () for each in raw["metadata"].get("ownerReferences") or ()]
        if any(each.get("uid") == job["metadata"]["uid"] for each in owners):
            found.add(uid)
    return frozenset(found)
