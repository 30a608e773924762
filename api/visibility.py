"""The visibility API (``visibility.kueue.x-k8s.io``): which workloads wait in a queue, in the order of the queue, and
where a LocalQueue or one of its workloads stands.

Its documents and paths, with the shapes of Kueue's aggregated API server. It has no objects: the only requests are
``get`` of a subresource, and discovery. ``pendingworkloads`` of a queue is Kueue's, word for word. ``standing`` is
Seiretsu's own: a subresource beside it, so that clients of Kueue read what they know, and a role gives each alone. So
are ``reports``, of the whole cluster or of one namespace: what the history has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from api.objects import Raw

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""The preferred version is the first one; both have the same fields."""
KIND, PENDING_WORKLOADS = "PendingWorkloadsSummary", "pendingworkloads"
STANDING = "standing"
QUEUE_STANDING, WORKLOAD_STANDING = "LocalQueueStanding", "WorkloadStanding"
CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS = "clusterqueues", "localqueues", "workloads"
REPORTS, REPORT = "reports", "Report"
RECORDINGS, RECORDING, LAST = "recordings", "Recording", "last"
"""The last minutes of the scheduler's recording, of the whole cluster."""
FINISHED: Final = "workloads"
GROUPS: Final = ("queue", "cohort", "namespace", "user", "localqueue")
"""The names of reports: by what they group use; and FINISHED, the list of workloads that have ended."""
SUBRESOURCES: Final = (
    (CLUSTER_QUEUES, PENDING_WORKLOADS, KIND),
    (LOCAL_QUEUES, PENDING_WORKLOADS, KIND),
    (LOCAL_QUEUES, STANDING, QUEUE_STANDING),
    (WORKLOADS, STANDING, WORKLOAD_STANDING),
)
"""What can be asked: the resource, its subresource, and the kind of the answer."""
API_SERVICES: Final = tuple(f"{version}.{GROUP}" for version in VERSIONS)
"""The names of the APIServices."""
DEFAULT_LIMIT, MAX_LIMIT = 1000, 5000
"""An answer is encoded in one step of the event loop: 5000 workloads are 1.8 MB, about 30 ms."""


DEFAULT_STANDING_LIMIT, MAX_STANDING_LIMIT = 50, 500
"""The same for the workloads in a standing, of which each is larger."""


class VisibilityRequest(NamedTuple):
    """What a request is about: a queue or a workload, and which subresource of it; a ClusterQueue has no namespace."""

    version: str
    resource: str
    namespace: str
    name: str
    subresource: str = PENDING_WORKLOADS


class Page(NamedTuple):
    """Which of the waiting workloads are asked for."""

    offset: int
    limit: int


def asked(path: str) -> VisibilityRequest | None:
    """Returns what a path is about; None for any other path."""
    match path.strip("/").split("/"):
        case ["apis", group, version, resource, name] if resource == RECORDINGS:
            known = group == GROUP and version in VERSIONS and name == LAST
            return VisibilityRequest(version, RECORDINGS, "", name, "") if known else None
        case ["apis", group, version, resource, name] if resource == REPORTS:
            return _report(group, version, "", name)
        case ["apis", group, version, "namespaces", namespace, resource, name] if namespace and resource == REPORTS:
            return _report(group, version, namespace, name)
        case ["apis", group, version, resource, name, subresource]:
            namespace = ""
        case ["apis", group, version, "namespaces", namespace, resource, name, subresource] if namespace:
            pass
        case _:
            return None
    served = any((resource, subresource) == (plural, sub) for plural, sub, _ in SUBRESOURCES)
    known = group == GROUP and version in VERSIONS and served and (resource == CLUSTER_QUEUES) == (not namespace)
    return VisibilityRequest(version, resource, namespace, name, subresource) if known and name else None


def _report(group: str, version: str, namespace: str, name: str) -> VisibilityRequest | None:
    known = group == GROUP and version in VERSIONS and name in (*GROUPS, FINISHED)
    return VisibilityRequest(version, REPORTS, namespace, name, "") if known else None


def page(query: str, default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> Page:
    """Returns the offset and limit of a query: as in Kueue numbers out of range are replaced by the nearest one.
    ``ValueError`` with a sentence for anything else.
    """
    given = parse_qs(query)
    offset, limit = (_number(given, name, number) for name, number in (("offset", 0), ("limit", default)))
    return Page(max(offset, 0), min(max(limit, 0), most))


def discovery(path: str) -> Raw | None:
    """Returns the document of discovery at a path; None if there is none."""
    match path.strip("/").split("/"):
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}
        case ["apis", group] if group == GROUP:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group()}
        case ["apis", group, version] if group == GROUP and version in VERSIONS:
            found = [each for resource in _RESOURCES for each in _resources(*resource)] + [_REPORTS]
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


def standing(version: str, kind: str, metadata: Raw, fields: Raw) -> Raw:
    """Returns the answer about where a LocalQueue or a workload stands."""
    return {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": metadata, **fields}


def workload_metadata(raw: Raw) -> Raw:
    """Returns what is shown of the metadata of a Workload: its name, age and owners."""
    metadata = raw["metadata"]
    shown = {key: metadata[key] for key in ("name", "namespace", "creationTimestamp") if key in metadata}
    named = ("apiVersion", "kind", "name", "uid")
    owners = [{key: each.get(key, "") for key in named} for each in metadata.get("ownerReferences") or ()]
    return {**shown, **({"ownerReferences": owners} if owners else {})}


def pending_workload(raw: Raw, *, priority: int, in_cluster_queue: int, in_local_queue: int) -> Raw:
    """Returns the item about a Workload; positions count from 0."""
    return {
        "metadata": workload_metadata(raw),
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


def not_found(about: VisibilityRequest) -> str:
    """Returns the message about a queue or workload that does not exist."""
    return f'{about.resource.removesuffix("s")}.{GROUP} "{about.name}" not found'


_RESOURCES: Final = (
    (CLUSTER_QUEUES, "clusterqueue", False),
    (LOCAL_QUEUES, "localqueue", True),
    (WORKLOADS, "", True),
)


def _resources(plural: str, singular: str, namespaced: bool) -> list[Raw]:
    """A resource and its subresources. Workloads themselves are not in the list: kubectl would know two resources of
    that name.
    """
    own: Raw = {"name": plural, "singularName": singular, "namespaced": namespaced, "kind": KIND, "verbs": []}
    return [
        *([own] if singular else []),
        *(
            {"name": f"{plural}/{sub}", "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]}
            for resource, sub, kind in SUBRESOURCES
            if resource == plural
        ),
    ]


_REPORTS: Final[Raw] = {
    "name": REPORTS,
    "singularName": "report",
    "namespaced": True,
    "kind": REPORT,
    "verbs": ["get"],
}


def _group() -> Raw:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _number(given: dict[str, list[str]], name: str, default: int) -> int:
    text = given.get(name, [str(default)])[0]
    try:
        return int(text[:20])
    except ValueError:
        raise ValueError(f"{name}: {text[:50]!r} is not a number") from None
