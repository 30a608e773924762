"""The visibility API (``visibility.kueue.x-k8s.io``): which workloads wait in a queue, in the order of the queue.

Its documents and paths, with the shapes of Kueue's aggregated API server. It has no objects: the only requests are
``get`` of the subresource ``pendingworkloads`` of a queue, and discovery.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from api.objects import Raw

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""The preferred version is the first one; both have the same fields."""
KIND, SUBRESOURCE = "PendingWorkloadsSummary", "pendingworkloads"
CLUSTER_QUEUES, LOCAL_QUEUES = "clusterqueues", "localqueues"
API_SERVICES: Final = tuple(f"{version}.{GROUP}" for version in VERSIONS)
"""The names of the APIServices."""
DEFAULT_LIMIT, MAX_LIMIT = 1000, 5000
"""An answer is encoded in one step of the event loop: 5000 workloads are 1.8 MB, about 30 ms."""


class AskedQueue(NamedTuple):
    """The queue that a request is about; a ClusterQueue has no namespace."""

    version: str
    resource: str
    namespace: str
    name: str


class Page(NamedTuple):
    """Which of the waiting workloads are asked for."""

    offset: int
    limit: int


def asked(path: str) -> AskedQueue | None:
    """Returns the queue that a path is about; None for any other path."""
    match path.strip("/").split("/"):
        case ["apis", group, version, resource, name, subresource]:
            namespace, wanted = "", CLUSTER_QUEUES
        case ["apis", group, version, "namespaces", namespace, resource, name, subresource]:
            wanted = LOCAL_QUEUES
        case _:
            return None
    known = group == GROUP and version in VERSIONS and subresource == SUBRESOURCE
    return AskedQueue(version, resource, namespace, name) if known and resource == wanted and name else None


def page(query: str) -> Page:
    """Returns the offset and limit of a query: as in Kueue numbers out of range are replaced by the nearest one.
    ``ValueError`` with a sentence for anything else.
    """
    given = parse_qs(query)
    offset, limit = (_number(given, name, default) for name, default in (("offset", 0), ("limit", DEFAULT_LIMIT)))
    return Page(max(offset, 0), min(max(limit, 0), MAX_LIMIT))


def discovery(path: str) -> Raw | None:
    """Returns the document of discovery at a path; None if there is none."""
    match path.strip("/").split("/"):
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}
        case ["apis", group] if group == GROUP:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group()}
        case ["apis", group, version] if group == GROUP and version in VERSIONS:
            found = [each for resource in _RESOURCES for each in _resources(*resource)]
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{GROUP}/{version}",
                "resources": found,
            }
        case _:
            return None


def summary(version: str, items: Iterable[Raw]) -> Raw:
    """Returns the answer about a queue."""
    return {"kind": KIND, "apiVersion": f"{GROUP}/{version}", "metadata": {}, "items": list(items)}


def pending_workload(raw: Raw, *, priority: int, in_cluster_queue: int, in_local_queue: int) -> Raw:
    """Returns the item about a Workload; positions count from 0."""
    metadata = raw["metadata"]
    shown = {key: metadata[key] for key in ("name", "namespace", "creationTimestamp") if key in metadata}
    named = ("apiVersion", "kind", "name", "uid")
    owners = [{key: each.get(key, "") for key in named} for each in metadata.get("ownerReferences") or ()]
    return {
        "metadata": {**shown, **({"ownerReferences": owners} if owners else {})},
        "priority": priority,
        "localQueueName": (raw.get("spec") or {}).get("queueName", ""),
        "positionInClusterQueue": in_cluster_queue,
        "positionInLocalQueue": in_local_queue,
    }


_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    503: "ServiceUnavailable",
}


def failure(code: int, message: str) -> Raw:
    """Returns the Status of a request that is refused."""
    reason = {"reason": _REASONS[code]} if code in _REASONS else {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        **reason,
        "code": code,
    }


def not_found(about: AskedQueue) -> str:
    """Returns the message about a queue that does not exist."""
    return f'{about.resource.removesuffix("s")}.{GROUP} "{about.name}" not found'


_RESOURCES: Final = ((CLUSTER_QUEUES, "clusterqueue", False), (LOCAL_QUEUES, "localqueue", True))


def _resources(plural: str, singular: str, namespaced: bool) -> list[Raw]:
    shared: Raw = {"namespaced": namespaced, "kind": KIND}
    return [
        {"name": plural, "singularName": singular, **shared, "verbs": []},
        {"name": f"{plural}/{SUBRESOURCE}", "singularName": "", **shared, "verbs": ["get"]},
    ]


def _group() -> Raw:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _number(given: dict[str, list[str]], name: str, default: int) -> int:
    text = given.get(name, [str(default)])[0]
    try:
        return int(text[:20])
    except ValueError:
        raise ValueError(f"{name}: {text[:50]!r} is not a number") from None
