"""The OpenAPI v3 documents of the visibility API: clients read there which fields an answer has."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Final

from api.objects import Raw
from api.visibility import CLUSTER_QUEUES, DEFAULT_LIMIT, GROUP, KIND, LOCAL_QUEUES, MAX_LIMIT, SUBRESOURCE, VERSIONS

ROOT: Final = "/openapi/v3"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"


def openapi(path: str) -> Raw | None:
    """Returns the document at a path: the list of all documents, or that of a version; None if there is none."""
    if path == ROOT:
        return {"paths": {_place(version): {"serverRelativeURL": _address(version)} for version in VERSIONS}}
    return next((_document(version) for version in VERSIONS if path == f"{ROOT}/{_place(version)}"), None)


def _place(version: str) -> str:
    return f"apis/{GROUP}/{version}"


def _address(version: str) -> str:
    """Where a client reads the document; another document has another address, so clients may keep it."""
    digest = hashlib.sha256(json.dumps(_document(version), sort_keys=True).encode()).hexdigest()
    return f"{ROOT}/{_place(version)}?hash={digest[:32].upper()}"


@cache
def _document(version: str) -> Raw:
    base, name = f"/{_place(version)}", _of_path("name", "name of the queue")
    namespace = _of_path("namespace", "namespace of the LocalQueue")
    return {
        "openapi": "3.0.0",
        "info": {"title": "Seiretsu visibility API", "version": version},
        "paths": {
            f"{base}/{CLUSTER_QUEUES}/{{name}}/{SUBRESOURCE}": _read(version, "ClusterQueue", name),
            f"{base}/namespaces/{{namespace}}/{LOCAL_QUEUES}/{{name}}/{SUBRESOURCE}": _read(
                version, "LocalQueue", name, namespace
            ),
        },
        "components": {"schemas": _schemas(version)},
    }


def _read(version: str, queue: str, *path: Raw) -> Raw:
    summary = {"schema": _named(f"{_models(version)}.{KIND}")}
    return {
        "get": {
            "tags": ["visibility"],
            "description": f"read the workloads that wait in a {queue}, in the order in which they are decided",
            "operationId": f"readVisibility{version.title()}{queue}PendingWorkloads",
            "parameters": [
                _of_query("offset", "position of the first workload to return, from 0", 0),
                _of_query("limit", f"how many workloads to return at most, up to {MAX_LIMIT}", DEFAULT_LIMIT),
            ],
            "responses": {"200": {"description": "OK", "content": {"application/json": summary}}},
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": {"group": GROUP, "version": version, "kind": KIND},
        },
        "parameters": list(path),
    }


def _of_path(name: str, description: str) -> Raw:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


def _of_query(name: str, description: str, default: int) -> Raw:
    schema = {"type": "integer", "format": "int64", "default": default}
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _models(version: str) -> str:
    return f"io.k8s.kueue.visibility.{version}"


def _named(name: str) -> Raw:
    return {"$ref": f"#/components/schemas/{name}"}


def _text(description: str, **more: str) -> Raw:
    return {"description": description, "type": "string", **more}


def _number(description: str) -> Raw:
    return {"description": description, "type": "integer", "format": "int32", "default": 0}


def _object(description: str, required: tuple[str, ...] = (), **properties: Raw) -> Raw:
    needed = {"required": list(required)} if required else {}
    return {"description": description, "type": "object", "properties": properties, **needed}


def _schemas(version: str) -> Raw:
    item = _object(
        "A workload that waits in a queue.",
        ("priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"),
        metadata=_named(f"{_META}.ObjectMeta"),
        priority=_number("The workload's priority."),
        localQueueName=_text("The LocalQueue of the workload.", default=""),
        positionInClusterQueue=_number("The position in the ClusterQueue, from 0."),
        positionInLocalQueue=_number("The position in the LocalQueue, from 0."),
    )
    summary = _object(
        "The workloads that wait in a ClusterQueue or a LocalQueue, in the order in which they are decided.",
        ("items",),
        apiVersion=_text("The group and version of this document."),
        kind=_text("The kind of this document."),
        metadata=_named(f"{_META}.ObjectMeta"),
        items={"type": "array", "items": _named(f"{_models(version)}.PendingWorkload")},
    )
    metadata = _object(
        "Metadata of the workload.",
        name=_text("The workload's name."),
        namespace=_text("The workload's namespace."),
        creationTimestamp=_text("When the workload was created.", format="date-time"),
        ownerReferences={"type": "array", "items": _named(f"{_META}.OwnerReference")},
    )
    owner = _object(
        "The object that the workload was made for.",
        ("apiVersion", "kind", "name", "uid"),
        **{each: _text(f"Its {each}.", default="") for each in ("apiVersion", "kind", "name", "uid")},
    )
    kind = {"x-kubernetes-group-version-kind": [{"group": GROUP, "version": version, "kind": KIND}]}
    return {
        f"{_models(version)}.{KIND}": summary | kind,
        f"{_models(version)}.PendingWorkload": item,
        f"{_META}.ObjectMeta": metadata,
        f"{_META}.OwnerReference": owner,
    }
