"""The OpenAPI v3 documents of the visibility API: clients read there which fields an answer has."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Final

from api.objects import Raw
from api.visibility import (
    CLUSTER_QUEUES,
    DEFAULT_LIMIT,
    DEFAULT_STANDING_LIMIT,
    GROUP,
    KIND,
    LOCAL_QUEUES,
    MAX_LIMIT,
    MAX_STANDING_LIMIT,
    PENDING_WORKLOADS,
    QUEUE_STANDING,
    STANDING,
    VERSIONS,
    WORKLOAD_STANDING,
    WORKLOADS,
)

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
    local_queue, pages = f"{base}/namespaces/{{namespace}}/{LOCAL_QUEUES}/{{name}}", (DEFAULT_LIMIT, MAX_LIMIT)
    wait = "read the workloads that wait in a {}, in the order in which they are decided"
    return {
        "openapi": "3.0.0",
        "info": {"title": "Seiretsu visibility API", "version": version},
        "paths": {
            f"{base}/{CLUSTER_QUEUES}/{{name}}/{PENDING_WORKLOADS}": _read(
                version, KIND, "ClusterQueuePendingWorkloads", wait.format("ClusterQueue"), pages, name
            ),
            f"{local_queue}/{PENDING_WORKLOADS}": _read(
                version, KIND, "LocalQueuePendingWorkloads", wait.format("LocalQueue"), pages, name, namespace
            ),
            f"{local_queue}/{STANDING}": _read(
                version,
                QUEUE_STANDING,
                "LocalQueueStanding",
                "read what a LocalQueue may use and what is free now, its share, and what its workloads wait for",
                (DEFAULT_STANDING_LIMIT, MAX_STANDING_LIMIT),
                name,
                namespace,
            ),
            f"{base}/namespaces/{{namespace}}/{WORKLOADS}/{{name}}/{STANDING}": _read(
                version,
                WORKLOAD_STANDING,
                "WorkloadStanding",
                "read why a workload waits, its position, who holds what it needs, and what would let it start",
                None,
                _of_path("name", "name of the Workload"),
                _of_path("namespace", "namespace of the Workload"),
            ),
        },
        "components": {"schemas": _schemas(version)},
    }


def _read(version: str, kind: str, about: str, description: str, pages: tuple[int, int] | None, *path: Raw) -> Raw:
    summary = {"schema": _named(f"{_models(version)}.{kind}")}
    page = []
    if pages is not None:
        page = [
            _of_query("offset", "position of the first workload to return, from 0", 0),
            _of_query("limit", f"how many workloads to return at most, up to {pages[1]}", pages[0]),
        ]
    return {
        "get": {
            "tags": ["visibility"],
            "description": description,
            "operationId": f"readVisibility{version.title()}{about}",
            "parameters": page,
            "responses": {"200": {"description": "OK", "content": {"application/json": summary}}},
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": {"group": GROUP, "version": version, "kind": kind},
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


def _object(description: str, needed: tuple[str, ...] = (), /, **properties: Raw) -> Raw:
    required = {"required": list(needed)} if needed else {}
    return {"description": description, "type": "object", "properties": properties, **required}


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
    return {
        f"{_models(version)}.{KIND}": summary | _kind(version, KIND),
        f"{_models(version)}.PendingWorkload": item,
        f"{_models(version)}.{QUEUE_STANDING}": _queue_standing() | _kind(version, QUEUE_STANDING),
        f"{_models(version)}.{WORKLOAD_STANDING}": _workload_standing() | _kind(version, WORKLOAD_STANDING),
        f"{_META}.ObjectMeta": metadata,
        f"{_META}.OwnerReference": owner,
    }


def _kind(version: str, kind: str) -> Raw:
    return {"x-kubernetes-group-version-kind": [{"group": GROUP, "version": version, "kind": kind}]}


def _head() -> Raw:
    return {
        "apiVersion": _text("The group and version of this document."),
        "kind": _text("The kind of this document."),
        "metadata": _named(f"{_META}.ObjectMeta"),
    }


def _list(items: Raw, description: str) -> Raw:
    return {"description": description, "type": "array", "items": items}


def _quantities(**described: str) -> Raw:
    return {name: _text(f"{description} A quantity.") for name, description in described.items()}


def _truth(description: str) -> Raw:
    return {"description": description, "type": "boolean"}


def _real(description: str) -> Raw:
    return {"description": description, "type": "number", "format": "double"}


def _forecast() -> Raw:
    about = "When the workload is expected to start; absent while that is not known."
    return {"description": about, "type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _queue_standing() -> Raw:
    limits = _object(
        "A resource of a flavor.",
        name=_text("The resource."),
        **_quantities(
            nominal="The ClusterQueue's own quota.",
            borrowingLimit="How much more it may borrow; absent: no limit of its own.",
            maximum="The most that it could ever use, own and borrowed.",
            available="What a workload could get now, own and borrowed, without preemption.",
            borrowable="The part of that which would be borrowed.",
            reserved="What workloads of the ClusterQueue hold.",
            reservedInLocalQueue="What workloads of this LocalQueue hold.",
            usedInLocalQueue="What admitted workloads of this LocalQueue hold.",
        ),
    )
    level = _object(
        "A level of a topology.",
        level=_text("The node label."),
        domains=_number("How many domains the flavor has there."),
    )
    flavor = _object(
        "A flavor of the ClusterQueue, in the order in which they are tried.",
        name=_text("The flavor."),
        resources=_list(limits, "Its resources."),
        topology=_object("The topology of its nodes.", levels=_list(level, "From the highest level to the lowest.")),
    )
    lacks = _object(
        "What the workload lacks in a flavor.",
        name=_text("The flavor."),
        resources=_list(
            _object(
                "A resource.",
                name=_text("The resource."),
                **_quantities(requested="The request.", available="What is free now.", missing="The difference."),
            ),
            "The resources of which too little is free.",
        ),
    )
    waiting = _object(
        "A workload of the LocalQueue that waits.",
        metadata=_named(f"{_META}.ObjectMeta"),
        priority=_number("The workload's priority."),
        positionInClusterQueue=_number("The position in the ClusterQueue, from 0; not older than a second."),
        positionInLocalQueue=_number("The position in the LocalQueue, from 0."),
        reason=_text("Why it waits, in one word."),
        message=_text("Why it waits."),
        lacking=_list(lacks, "What it lacks, by flavor; a flavor in which all of it is free is not listed."),
        forecast=_forecast(),
    )
    return _object(
        "Where a LocalQueue stands.",
        **_head(),
        clusterQueue=_text("The ClusterQueue of the LocalQueue."),
        active=_truth("Whether workloads can be admitted."),
        reason=_text("Why or why not, in one word."),
        message=_text("Why or why not."),
        pendingInClusterQueue=_number("How many workloads wait in the ClusterQueue."),
        pendingInLocalQueue=_number("How many workloads wait in the LocalQueue."),
        reservingWorkloads=_number("How many workloads of the LocalQueue hold quota."),
        admittedWorkloads=_number("How many of these are admitted."),
        flavors=_list(flavor, "Limits and usage."),
        fairSharing=_object(
            "The share of the ClusterQueue, with fair sharing.",
            weight=_real("Its weight."),
            weightedShare=_long("Its share; the lowest is first."),
        ),
        admissionFairSharing=_object(
            "The usage of the LocalQueue in the past, if it orders the ClusterQueue.",
            weight=_real("Its weight."),
            usage=_real("Its weighted usage; the lowest is first. Absent: the weight is 0."),
            localQueuesWithLess=_number("How many LocalQueues of the ClusterQueue have less."),
            localQueues=_number("How many LocalQueues the ClusterQueue has."),
        ),
        workloads=_list(waiting, "The workloads of the LocalQueue that wait, in order; a page of them."),
    )


def _long(description: str) -> Raw:
    return {"description": description, "type": "integer", "format": "int64", "default": 0}


def _workload_standing() -> Raw:
    workload = {
        "namespace": _text("The workload's namespace."),
        "name": _text("The workload's name."),
        "job": _text("The name of the workload's job."),
    }
    amount = _object(
        "An amount.",
        flavor=_text("The flavor."),
        name=_text("The resource."),
        **_quantities(amount="How much."),
    )
    cell = _object(
        "A resource of a flavor that the workload could get.",
        flavor=_text("The flavor."),
        name=_text("The resource."),
        **_quantities(
            requested="The request of the whole workload.",
            available="What is free now, own and borrowed.",
            reserved="What workloads of the ClusterQueue hold.",
            nominal="The ClusterQueue's own quota.",
            maximum="The most that it could ever use.",
            missing="What is missing now.",
        ),
    )
    holder = _object(
        "A workload that holds some of what is missing.",
        **workload,
        clusterQueue=_text("Its ClusterQueue."),
        priority=_number("Its priority."),
        resources=_list(amount, "What it holds."),
    )
    others = _object(
        "Workloads that hold some of what is missing and may not be named.",
        workloads=_number("How many."),
        clusterQueue=_text("Their ClusterQueue; empty if it may not be named."),
        resources=_list(amount, "What they hold together."),
    )
    domain = _object(
        "A domain of a topology.",
        name=_text("Its name; empty if you may not list nodes."),
        room=_number("How many units fit there now."),
        roomIfEmpty=_number("How many would fit if nothing were there."),
        takenBy=_list(
            _object("A workload with pods there.", **workload, pods=_number("How many pods.")), "Who is there."
        ),
        podsOfOthers=_number("How many pods of other workloads are there."),
    )
    rooms = _object(
        "Where in a topology a pod set could be placed.",
        podSet=_text("The pod set."),
        flavor=_text("The flavor."),
        level=_text("The node label of the level."),
        wanted=_number("How many units the pod set has."),
        unit=_text("What a unit is: a pod, or a slice of pods."),
        required=_truth("Whether all units must be in one domain."),
        podsInNoSlice=_number("How many pods are beyond the last whole slice: they get no domain."),
        domains=_list(domain, "The domains with most room."),
        domainsNotShown=_number("How many others there are."),
    )
    compared = _object(
        "A ClusterQueue that competes for the same quota.",
        clusterQueue=_text("Its name; empty if it may not be named."),
        weightedShare=_real("Its share; the lowest is first."),
    )
    return _object(
        "Where a workload stands.",
        **_head(),
        localQueueName=_text("The LocalQueue of the workload.", default=""),
        state=_text("waiting, admitted, quota reserved, being evicted, backing off, not queued or finished."),
        clusterQueue=_text("The ClusterQueue in which it is."),
        reason=_text("Why it waits, in one word."),
        message=_text("Why it waits."),
        evictedBefore=_text("Why it was evicted, if it ran before."),
        priority=_number("The workload's priority."),
        positionInClusterQueue=_number("The position in the ClusterQueue, from 0; absent if it is in no queue."),
        pendingInClusterQueue=_number("How many workloads wait in the ClusterQueue."),
        waitingInCohort=_number("How many wait in other ClusterQueues of the cohort."),
        ahead=_list(_object("A workload.", **workload), "The first of those before it that may be named."),
        aheadNotNamed=_number("How many others are before it."),
        flavors=_list(cell, "Requests and free quota, in the order in which flavors are tried."),
        heldBy=_list(holder, "Who holds what is missing."),
        heldByOthers=_list(others, "The same of workloads that may not be named."),
        topology=_list(rooms, "Room in the topologies of its flavors."),
        fairShares=_list(compared, "The shares that decide which ClusterQueue is next, with fair sharing."),
        wouldHelp=_list(_text("A sentence."), "The changes of which each would let it start."),
        notComputed=_list(_text("A sentence."), "What would take too long to compute."),
        forecast=_forecast(),
    )
