"""The OpenAPI v3 documents of the visibility API: clients read there which fields an answer has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from typing import Final

from api import reports_openapi
from api.objects import Raw
from api.openapi import described, long, named, number, of_path, of_query, quantities, real, several, text, truth
from api.visibility import (
    CLUSTER_QUEUES,
    DEFAULT_LIMIT,
    DEFAULT_STANDING_LIMIT,
    FINISHED,
    GROUP,
    GROUPS,
    KIND,
    LAST,
    LOCAL_QUEUES,
    MAX_LIMIT,
    MAX_STANDING_LIMIT,
    PENDING_WORKLOADS,
    QUEUE_STANDING,
    RECORDING,
    RECORDINGS,
    REPORT,
    REPORTS,
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
    return {
        "openapi": "3.0.0",
        "info": {"title": "Seiretsu visibility API", "version": version},
        "paths": {**_queues(version), **_reports(version)},
        "components": {"schemas": _schemas(version)},
    }


def _queues(version: str) -> Raw:
    """The paths of queues and workloads."""
    base, name = f"/{_place(version)}", of_path("name", "name of the queue")
    namespace = of_path("namespace", "namespace of the LocalQueue")
    local_queue, pages = f"{base}/namespaces/{{namespace}}/{LOCAL_QUEUES}/{{name}}", _pages(DEFAULT_LIMIT, MAX_LIMIT)
    wait = "read the workloads that wait in a {}, in the order in which they are decided"
    return {
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
            _pages(DEFAULT_STANDING_LIMIT, MAX_STANDING_LIMIT),
            name,
            namespace,
        ),
        f"{base}/namespaces/{{namespace}}/{WORKLOADS}/{{name}}/{STANDING}": _read(
            version,
            WORKLOAD_STANDING,
            "WorkloadStanding",
            "read why a workload waits, its position, who holds what it needs, and what would let it start",
            (),
            of_path("name", "name of the Workload"),
            of_path("namespace", "namespace of the Workload"),
        ),
    }


def _reports(version: str) -> Raw:
    """The paths of what is kept of the past."""
    base = f"/{_place(version)}"
    name = of_path("name", f"what use is grouped by: {', '.join(GROUPS)}; or {FINISHED}, those that ended")
    namespace = of_path("namespace", "namespace of the workloads")
    about = "read use, waits and preemptions of {}, from the history"
    return {
        f"{base}/{REPORTS}/{{name}}": _read(
            version, REPORT, "Report", about.format("all namespaces"), reports_openapi.TIMES, name
        ),
        f"{base}/namespaces/{{namespace}}/{REPORTS}/{{name}}": _read(
            version, REPORT, "NamespacedReport", about.format("a namespace"), reports_openapi.TIMES, name, namespace
        ),
        f"{base}/{RECORDINGS}/{{name}}": _read(
            version,
            RECORDING,
            "Recording",
            "read the last minutes of the scheduler's recording",
            (),
            of_path("name", f"always {LAST}"),
        ),
    }


def _read(version: str, kind: str, about: str, description: str, query: Sequence[Raw], *path: Raw) -> Raw:
    summary = {"schema": named(f"{_models(version)}.{kind}")}
    return {
        "get": {
            "tags": ["visibility"],
            "description": description,
            "operationId": f"readVisibility{version.title()}{about}",
            "parameters": list(query),
            "responses": {"200": {"description": "OK", "content": {"application/json": summary}}},
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": {"group": GROUP, "version": version, "kind": kind},
        },
        "parameters": list(path),
    }


def _pages(usual: int, most: int) -> tuple[Raw, ...]:
    def whole(default: int) -> Raw:
        return {"type": "integer", "format": "int64", "default": default}

    return (
        of_query("offset", "position of the first workload to return, from 0", whole(0)),
        of_query("limit", f"how many workloads to return at most, up to {most}", whole(usual)),
    )


def _models(version: str) -> str:
    return f"io.k8s.kueue.visibility.{version}"


def _schemas(version: str) -> Raw:
    item = described(
        "A workload that waits in a queue.",
        ("priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"),
        metadata=named(f"{_META}.ObjectMeta"),
        priority=number("The workload's priority."),
        localQueueName=text("The LocalQueue of the workload.", default=""),
        positionInClusterQueue=number("The position in the ClusterQueue, from 0."),
        positionInLocalQueue=number("The position in the LocalQueue, from 0."),
    )
    summary = described(
        "The workloads that wait in a ClusterQueue or a LocalQueue, in the order in which they are decided.",
        ("items",),
        apiVersion=text("The group and version of this document."),
        kind=text("The kind of this document."),
        metadata=named(f"{_META}.ObjectMeta"),
        items={"type": "array", "items": named(f"{_models(version)}.PendingWorkload")},
    )
    metadata = described(
        "Metadata of the workload.",
        name=text("The workload's name."),
        namespace=text("The workload's namespace."),
        creationTimestamp=text("When the workload was created.", format="date-time"),
        ownerReferences={"type": "array", "items": named(f"{_META}.OwnerReference")},
    )
    owner = described(
        "The object that the workload was made for.",
        ("apiVersion", "kind", "name", "uid"),
        **{each: text(f"Its {each}.", default="") for each in ("apiVersion", "kind", "name", "uid")},
    )
    return {
        f"{_models(version)}.{KIND}": summary | _kind(version, KIND),
        f"{_models(version)}.PendingWorkload": item,
        f"{_models(version)}.{QUEUE_STANDING}": _queue_standing() | _kind(version, QUEUE_STANDING),
        f"{_models(version)}.{WORKLOAD_STANDING}": _workload_standing() | _kind(version, WORKLOAD_STANDING),
        f"{_models(version)}.{REPORT}": reports_openapi.report(_head()) | _kind(version, REPORT),
        f"{_models(version)}.{RECORDING}": reports_openapi.recording(_head()) | _kind(version, RECORDING),
        f"{_META}.ObjectMeta": metadata,
        f"{_META}.OwnerReference": owner,
    }


def _kind(version: str, kind: str) -> Raw:
    return {"x-kubernetes-group-version-kind": [{"group": GROUP, "version": version, "kind": kind}]}


def _head() -> Raw:
    return {
        "apiVersion": text("The group and version of this document."),
        "kind": text("The kind of this document."),
        "metadata": named(f"{_META}.ObjectMeta"),
    }


def _forecast() -> Raw:
    about = "When the workload is expected to start; absent while that is not known."
    return {"description": about, "type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _queue_standing() -> Raw:
    limits = described(
        "A resource of a flavor.",
        name=text("The resource."),
        **quantities(
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
    level = described(
        "A level of a topology.",
        level=text("The node label."),
        domains=number("How many domains the flavor has there."),
    )
    flavor = described(
        "A flavor of the ClusterQueue, in the order in which they are tried.",
        name=text("The flavor."),
        resources=several(limits, "Its resources."),
        topology=described(
            "The topology of its nodes.", levels=several(level, "From the highest level to the lowest.")
        ),
    )
    lacks = described(
        "What the workload lacks in a flavor.",
        name=text("The flavor."),
        resources=several(
            described(
                "A resource.",
                name=text("The resource."),
                **quantities(requested="The request.", available="What is free now.", missing="The difference."),
            ),
            "The resources of which too little is free.",
        ),
    )
    waiting = described(
        "A workload of the LocalQueue that waits.",
        metadata=named(f"{_META}.ObjectMeta"),
        priority=number("The workload's priority."),
        positionInClusterQueue=number("The position in the ClusterQueue, from 0; not older than a second."),
        positionInLocalQueue=number("The position in the LocalQueue, from 0."),
        reason=text("Why it waits, in one word."),
        message=text("Why it waits."),
        lacking=several(lacks, "What it lacks, by flavor; a flavor in which all of it is free is not listed."),
        forecast=_forecast(),
    )
    return described(
        "Where a LocalQueue stands.",
        **_head(),
        clusterQueue=text("The ClusterQueue of the LocalQueue."),
        active=truth("Whether workloads can be admitted."),
        reason=text("Why or why not, in one word."),
        message=text("Why or why not."),
        pendingInClusterQueue=number("How many workloads wait in the ClusterQueue."),
        pendingInLocalQueue=number("How many workloads wait in the LocalQueue."),
        reservingWorkloads=number("How many workloads of the LocalQueue hold quota."),
        admittedWorkloads=number("How many of these are admitted."),
        flavors=several(flavor, "Limits and usage."),
        fairSharing=described(
            "The share of the ClusterQueue, with fair sharing.",
            weight=real("Its weight."),
            weightedShare=long("Its share; the lowest is first."),
        ),
        admissionFairSharing=described(
            "The usage of the LocalQueue in the past, if it orders the ClusterQueue.",
            weight=real("Its weight."),
            usage=real("Its weighted usage; the lowest is first. Absent: the weight is 0."),
            localQueuesWithLess=number("How many LocalQueues of the ClusterQueue have less."),
            localQueues=number("How many LocalQueues the ClusterQueue has."),
        ),
        workloads=several(waiting, "The workloads of the LocalQueue that wait, in order; a page of them."),
    )


def _workload_standing() -> Raw:
    workload = {
        "namespace": text("The workload's namespace."),
        "name": text("The workload's name."),
        "job": text("The name of the workload's job."),
    }
    amount = described(
        "An amount.",
        flavor=text("The flavor."),
        name=text("The resource."),
        **quantities(amount="How much."),
    )
    cell = described(
        "A resource of a flavor that the workload could get.",
        flavor=text("The flavor."),
        name=text("The resource."),
        **quantities(
            requested="The request of the whole workload.",
            available="What is free now, own and borrowed.",
            reserved="What workloads of the ClusterQueue hold.",
            nominal="The ClusterQueue's own quota.",
            maximum="The most that it could ever use.",
            missing="What is missing now.",
        ),
    )
    holder = described(
        "A workload that holds some of what is missing.",
        **workload,
        clusterQueue=text("Its ClusterQueue."),
        priority=number("Its priority."),
        resources=several(amount, "What it holds."),
    )
    others = described(
        "Workloads that hold some of what is missing and may not be named.",
        workloads=number("How many."),
        clusterQueue=text("Their ClusterQueue; empty if it may not be named."),
        resources=several(amount, "What they hold together."),
    )
    there = {
        "takenBy": several(
            described("A workload with pods there.", **workload, pods=number("How many pods.")), "Who is there."
        ),
        "podsOfOthers": number("How many pods of other workloads are there."),
    }
    domain = described(
        "A domain of a topology.",
        name=text("Its name; empty if you may not list nodes."),
        room=number("How many units fit there now."),
        roomIfEmpty=number("How many would fit if nothing were there."),
        **there,
    )
    in_tree = described(
        "A domain of the tree, before those in it.",
        name=text("Its name."),
        depth=number("Its level, from 0."),
        room=number("How many pods fit there now."),
        roomIfEmpty=number("How many pods would fit if nothing were there."),
        fits=text("When all that must be in one domain fits there: now, if empty or never; empty for other levels."),
        resources=several(
            described(
                "A resource that the pods ask for.",
                name=text("The resource."),
                **quantities(free="What is free.", used="What workloads use."),
            ),
            "What is free and in use.",
        ),
        **there,
        domainsNotShown=number("How many domains in it are not listed; absent if none of them is."),
    )
    rooms = described(
        "Where in a topology a pod set could be placed.",
        podSet=text("The pod set."),
        flavor=text("The flavor."),
        level=text("The node label of the level."),
        wanted=number("How many units the pod set has."),
        unit=text("What a unit is: a pod, or a slice of pods."),
        required=truth("Whether all units must be in one domain."),
        podsInNoSlice=number("How many pods are beyond the last whole slice: they get no domain."),
        atMost=number("How many units could ever be placed."),
        leader=text("The pod set that is placed in the same domain; empty if there is none."),
        domains=several(domain, "The domains with most room."),
        domainsNotShown=number("How many others there are."),
        tree=several(in_tree, "The domains by level, cut to the best; empty if you may not list nodes."),
        treeNotShown=number("How many domains of the highest level are not in the tree."),
    )
    compared = described(
        "A ClusterQueue that competes for the same quota.",
        clusterQueue=text("Its name; empty if it may not be named."),
        weightedShare=real("Its share; the lowest is first."),
    )
    return described(
        "Where a workload stands.",
        **_head(),
        localQueueName=text("The LocalQueue of the workload.", default=""),
        state=text("waiting, admitted, quota reserved, being evicted, backing off, not queued or finished."),
        clusterQueue=text("The ClusterQueue in which it is."),
        reason=text("Why it waits, in one word."),
        message=text("Why it waits."),
        evictedBefore=text("Why it was evicted, if it ran before."),
        priority=number("The workload's priority."),
        positionInClusterQueue=number("The position in the ClusterQueue, from 0; absent if it is in no queue."),
        pendingInClusterQueue=number("How many workloads wait in the ClusterQueue."),
        waitingInCohort=number("How many wait in other ClusterQueues of the cohort."),
        ahead=several(described("A workload.", **workload), "The first of those before it that may be named."),
        aheadNotNamed=number("How many others are before it."),
        flavors=several(cell, "Requests and free quota, in the order in which flavors are tried."),
        heldBy=several(holder, "Who holds what is missing."),
        heldByOthers=several(others, "The same of workloads that may not be named."),
        topology=several(rooms, "Room in the topologies of its flavors."),
        fairShares=several(compared, "The shares that decide which ClusterQueue is next, with fair sharing."),
        wouldHelp=several(text("A sentence."), "The changes of which each would let it start."),
        notComputed=several(text("A sentence."), "What would take too long to compute."),
        forecast=_forecast(),
    )
