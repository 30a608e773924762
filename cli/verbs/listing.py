"""``kubectl seiretsu list``: queues, workloads, flavors and the pods of a job, in kueuectl's columns.

``-o wide`` adds columns. Objects are filtered where the API server can, else here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple

import typer

from api import resources, visibility
from api.names import Condition, Label
from api.objects import Key, Raw, Resource, key_of
from cli.target import FailedError, UsageError
from cli.verbs.group import group
from cli.verbs.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD, Type, closest
from cli.verbs.printing import PrintedTable, age, list_of, table
from cli.verbs.session import Session, listed, none_found, one, verb
from controller.kube.errors import ApiError
from core.jobs import kinds
from core.jobs.owners import KNOWN
from core.wire.timestamps import epoch

STATUSES: Final = ("all", "pending", "quotareserved", "admitted", "finished")
_VERSION: Final = f"/apis/{visibility.GROUP}/{visibility.VERSIONS[0]}"
MOST_STANDINGS: Final = 50
"""Of so many LocalQueues it is asked when their workloads start."""
MOST_TYPE: Final = 20
"""So many characters of a job's type are printed."""

SelectorOption = Annotated[str, typer.Option("--selector", "-l", help="Which labels: key1=value1,key2=value2.")]
FieldSelector = Annotated[str, typer.Option("--field-selector", help="Which fields: key1=value1,key2=value2.")]
OfClusterQueue = Annotated[str, typer.Option("--clusterqueue", "-c", help="Only those of this ClusterQueue.")]
OfLocalQueue = Annotated[str, typer.Option("--localqueue", "-q", help="Only those of this LocalQueue.")]
For = Annotated[str, typer.Option("--for", metavar="TYPE[.API-GROUP]/NAME", help="Only those of this job.")]


@verb("list")
def cluster_queue(
    opened: Session,
    selector: SelectorOption = "",
    field_selector: FieldSelector = "",
    active: Annotated[
        list[str] | None, typer.Option("--active", help="Only active ones (true), or others (false).")
    ] = None,
) -> None:
    """List ClusterQueues."""
    wanted = _active(active or [])
    found, version = listed(opened.client, resources.CLUSTER_QUEUES, labels=selector, fields=field_selector)
    if wanted is not None:
        found = [each for each in found if is_true(each, "Active") == wanted]
    made = cluster_queues(found, time.time(), wide=opened.output.wide)
    _print(opened, resources.CLUSTER_QUEUES, found, version, made)


@verb("list", namespaced=True, everywhere=True)
def local_queue(
    opened: Session,
    clusterqueue: OfClusterQueue = "",
    selector: SelectorOption = "",
    field_selector: FieldSelector = "",
) -> None:
    """List LocalQueues."""
    found, version = listed(opened.client, resources.LOCAL_QUEUES, opened.where, labels=selector, fields=field_selector)
    if clusterqueue:
        known = [str(each["spec"].get("clusterQueue")) for each in found]
        found = [each for each in found if each["spec"].get("clusterQueue") == clusterqueue]
        _hint_at(clusterqueue, found, known)
    made = local_queues(found, time.time(), wide=opened.output.wide, namespaces=not opened.where)
    _print(opened, resources.LOCAL_QUEUES, found, version, made)


@verb("list")
def resource_flavor(
    opened: Session,
    selector: SelectorOption = "",
    field_selector: FieldSelector = "",
) -> None:
    """List ResourceFlavors."""
    found, version = listed(opened.client, resources.RESOURCE_FLAVORS, labels=selector, fields=field_selector)
    made = resource_flavors(found, time.time(), wide=opened.output.wide)
    _print(opened, resources.RESOURCE_FLAVORS, found, version, made)


@verb("list", namespaced=True, everywhere=True)
def workload(
    opened: Session,
    clusterqueue: OfClusterQueue = "",
    localqueue: OfLocalQueue = "",
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only these: all, pending, quotareserved, admitted, finished; may be repeated."),
    ] = None,
    for_job: For = "",
    selector: SelectorOption = "",
    field_selector: FieldSelector = "",
) -> None:
    """List Workloads: what waits, with its position, and what runs."""
    statuses = _statuses(status or [])
    found, version = _workloads(opened, for_job, selector, field_selector)
    of_queues = _cluster_queues_of(opened, found)
    known = [str(each["spec"].get("queueName")) for each in found]
    found = [
        each
        for each in found
        if (not localqueue or each["spec"].get("queueName") == localqueue)
        and (not clusterqueue or cluster_queue_of(each, of_queues) == clusterqueue)
        and (not statuses or status_of(each) in statuses)
    ]
    _hint_at(localqueue, found, known)
    _hint_at(clusterqueue, found, set(of_queues.values()))
    places = _positions(opened, found, of_queues) if opened.output.is_table else {}
    starts = _starts(opened, found) if opened.output.wide else None
    made = workloads(found, time.time(), of_queues, places, starts=starts, namespaces=not opened.where)
    _print(opened, resources.WORKLOADS, found, version, made)


@verb("list", namespaced=True, everywhere=True)
def pods(
    opened: Session,
    for_job: Annotated[
        str, typer.Option("--for", metavar="TYPE[.API-GROUP]/NAME", help="The job whose pods they are.")
    ],
    selector: SelectorOption = "",
    field_selector: FieldSelector = "",
) -> None:
    """List the pods of a job of any kind."""
    resource, name = job_of(for_job)
    job = _job(opened, resource, name)
    if job is None:
        return none_found(opened.where)
    where = job["metadata"]["namespace"]
    labels = ",".join(each for each in (selector, pod_selector(job)) if each)
    if not opened.output.is_table:
        found, version = listed(opened.client, resources.PODS, where, labels=labels, fields=field_selector)
        return opened.print(list_of(resources.PODS, found, version))
    query = {"labelSelector": labels, **({"fieldSelector": field_selector} if field_selector else {})}
    answer = opened.client.table(resources.PODS.path(where), query)
    made = of_server(answer, wide=opened.output.wide, namespace="" if opened.where else where)
    return typer.echo(table(made), nl=False) if made.rows else none_found(where)


_PODS = Type("pods", resources.PODS, ("pod", "po"))
app = group(
    [
        (CLUSTER_QUEUE, cluster_queue),
        (LOCAL_QUEUE, local_queue),
        (WORKLOAD, workload),
        (RESOURCE_FLAVOR, resource_flavor),
        (_PODS, pods),
    ]
)


def _print(opened: Session, resource: Resource, found: list[Raw], version: str, made: PrintedTable) -> None:
    if not opened.output.is_table:
        opened.print(list_of(resource, found, version))
    elif not found:
        none_found(opened.where if resource.namespaced else "")
    else:
        typer.echo(table(made), nl=False)


def _active(given: list[str]) -> bool | None:
    if len(given) > 1:
        raise UsageError("only one active flag can be provided")
    if given and given[0].lower() not in ("true", "false"):
        raise UsageError(f"--active {given[0]}: it must be true or false")
    return given[0].lower() == "true" if given else None


def _statuses(given: list[str]) -> frozenset[str]:
    for each in given:
        if each.lower() not in STATUSES:
            must = '"all", "pending", "quotareserved", "admitted" or "finished"'
            raise UsageError(f"invalid status value ({each}). Must be {must}")
    wanted = frozenset(each.lower() for each in given)
    return frozenset() if "all" in wanted else wanted


def _hint_at(wanted: str, found: list[Raw], known: Iterable[str]) -> None:
    """If nothing is found for the name of a queue, prints the name that is probably meant."""
    if wanted and not found and wanted not in known and (hint := closest(wanted, known)):
        typer.echo(f"{wanted}{hint}", err=True)


def is_true(raw: Raw, condition: str) -> bool:
    """Whether a condition of an object is true."""
    return since(raw, condition) is not None


def since(raw: Raw, condition: str) -> float | None:
    """Returns since when a condition is true, None if it is not."""
    for each in (raw.get("status") or {}).get("conditions") or ():
        if each.get("type") == condition and each.get("status") == "True":
            return epoch(each["lastTransitionTime"])
    return None


def status_of(raw: Raw) -> str:
    """Returns the status of a Workload, as ``--status`` names it."""
    for condition, status in ((Condition.FINISHED, "finished"), (Condition.ADMITTED, "admitted")):
        if is_true(raw, condition):
            return status
    return "quotareserved" if is_true(raw, Condition.QUOTA_RESERVED) else "pending"


def cluster_queue_of(raw: Raw, of_queues: Mapping[Key, str]) -> str:
    """Returns the ClusterQueue of a Workload: that of its admission, else that of its LocalQueue."""
    admitted = ((raw.get("status") or {}).get("admission") or {}).get("clusterQueue")
    return str(admitted or of_queues.get(Key(raw["metadata"]["namespace"], raw["spec"].get("queueName", "")), ""))


class JobName(NamedTuple):
    """A job, as ``--for`` names it."""

    resource: Resource
    name: str


def job_of(text: str) -> JobName:
    """Returns the job that ``TYPE[.API-GROUP]/NAME`` names. Raises UsageError for another form, FailedError for a type
    that is not known.
    """
    typed, slash, name = text.partition("/")
    if not slash or not typed or not name or "/" in name:
        raise UsageError(f"--for {text}: it must be TYPE[.API-GROUP]/NAME, for example job/train")
    word, _, group = typed.lower().partition(".")
    found = [
        each
        for each in KNOWN.values()
        if word in (each.kind.lower(), each.plural)
        and (not group or group in (each.group, f"{each.version}.{each.group}"))
    ]
    if not found:
        known = sorted({each.kind.lower() for each in KNOWN.values()})
        raise FailedError(f'the server doesn\'t have a resource type "{typed}"{closest(word, known)}')
    return JobName(found[0], name)


def pod_selector(job: Raw) -> str:
    """Returns the labels of the pods of a job. Raises FailedError for a kind whose pods have no such label."""
    name, kind = job["metadata"]["name"], job["kind"]
    label = _pods_label(kind)
    if not label:
        raise FailedError(f"unsupported kind: {kind}")
    if kind == "Pod":
        grouped = (job["metadata"].get("labels") or {}).get(label)
        if not grouped:
            raise FailedError(f"pod {name} belongs to no group of pods (label {label})")
        return f"{label}={grouped}"
    if kind in ("RayJob", "RayService"):
        status = job.get("status") or {}
        cluster = status.get("rayClusterName") or (status.get("activeServiceStatus") or {}).get("rayClusterName")
        if not cluster:
            raise FailedError(f"{kind} {name} has no RayCluster yet, so it has no pods")
        return f"{label}={cluster}"
    return f"{label}={name}"


_LEADER_WORKER_SET: Final = ("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name")


def _pods_label(kind: str) -> str:
    """The label with which the operator of a kind marks the pods of a job; '' if there is none."""
    if kind == _LEADER_WORKER_SET[0]:
        return _LEADER_WORKER_SET[1]
    return next((each.pods_label for each in kinds.ALL if each.resource.kind == kind), "")


def _job(opened: Session, resource: Resource, name: str) -> Raw | None:
    """The job of a name, in one namespace or else the first of all; None if there is none."""
    if opened.where:
        return one(opened.client, resource, opened.where, name)
    found, _ = listed(opened.client, resource, fields=f"metadata.name={name}")
    return found[0] if found else None


def _workloads(opened: Session, for_job: str, selector: str, field_selector: str) -> tuple[list[Raw], str]:
    """The Workloads; those of one job by the label with its uid, else by their owner."""

    def read(labels: str) -> tuple[list[Raw], str]:
        return listed(opened.client, resources.WORKLOADS, opened.where, labels=labels, fields=field_selector)

    if not for_job:
        return read(selector)
    job = _job(opened, *job_of(for_job))
    if job is None:
        return [], ""
    uid = job["metadata"]["uid"]
    found, version = read(",".join(each for each in (selector, f"{Label.JOB_UID}={uid}") if each))
    if not found:
        found, version = read(selector)
        found = [each for each in found if uid in (owner.get("uid") for owner in _owners(each))]
    return found, version


def _owners(raw: Raw) -> list[Raw]:
    return list(raw["metadata"].get("ownerReferences") or ())


def _cluster_queues_of(opened: Session, found: list[Raw]) -> dict[Key, str]:
    """The ClusterQueue of each LocalQueue, in one request; none where they may not be read."""
    if not found:
        return {}
    try:
        queues, _ = listed(opened.client, resources.LOCAL_QUEUES, opened.where)
    except FailedError:
        return {}
    return {key_of(each): str(each["spec"].get("clusterQueue", "")) for each in queues}


def _queues_with_waiting(found: list[Raw]) -> list[Key]:
    """The LocalQueues in which any of the workloads wait; their names may be empty."""
    waiting = [each for each in found if status_of(each) == "pending"]
    return sorted({Key(each["metadata"]["namespace"], each["spec"].get("queueName", "")) for each in waiting})


def _path_of(local_queue: Key) -> str:
    """Where the visibility API has a LocalQueue."""
    return f"{_VERSION}/namespaces/{local_queue.namespace}/localqueues/{local_queue.name}"


def _starts(opened: Session, found: list[Raw]) -> dict[Key, str]:
    """When each waiting workload starts, as the server forecasts it: of the first workloads of each LocalQueue, and of
    no more than a number of LocalQueues, because each is a call.
    """
    starts: dict[Key, str] = {}
    query = {"limit": str(visibility.MAX_STANDING_LIMIT)}
    for path in [_path_of(each) for each in _queues_with_waiting(found) if each.name][:MOST_STANDINGS]:
        try:
            items = opened.client.get(f"{path}/{visibility.STANDING}", query).get("workloads") or []
        except ApiError as error:
            if error.status in (403, 404):
                continue
            break
        for each in items:
            message = str((each.get("forecast") or {}).get("message", ""))
            starts[key_of(each)] = message.removeprefix("starts in ").removeprefix("about ")
    return starts


def _positions(opened: Session, found: list[Raw], of_queues: Mapping[Key, str]) -> dict[Key, int]:
    """The position of each waiting workload in its LocalQueue, from the visibility API; without it, or the right to
    read it, there is none.
    """
    places: dict[Key, int] = {}
    queues = _queues_with_waiting(found)
    if not opened.where:
        paths = [
            f"{_VERSION}/clusterqueues/{name}" for name in sorted({of_queues.get(key, "") for key in queues} - {""})
        ]
    else:
        paths = [_path_of(key) for key in queues if key.name]
    for path in paths:
        offset = 0
        while True:
            query = {"limit": str(visibility.MAX_LIMIT), "offset": str(offset)}
            try:
                items = opened.client.get(f"{path}/{visibility.PENDING_WORKLOADS}", query).get("items") or []
            except ApiError as error:
                if error.status == 404:
                    break
                return places
            places |= {key_of(each): int(each["positionInLocalQueue"]) for each in items}
            offset += len(items)
            if len(items) < visibility.MAX_LIMIT:
                break
    return places


def cluster_queues(found: Iterable[Raw], now: float, *, wide: bool = False) -> PrintedTable:
    """Returns the table of ClusterQueues."""
    headers = ("Name", "Cohort", "Pending Workloads", "Admitted Workloads", "Active", "Age")
    more = ("Strategy", "Stop Policy", "Flavors") if wide else ()

    def row(raw: Raw) -> tuple[str, ...]:
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        flavors = [each["name"] for one in spec.get("resourceGroups") or () for each in one.get("flavors") or ()]
        wider = (str(spec.get("queueingStrategy", "")), str(spec.get("stopPolicy", "")), ",".join(flavors))
        return (
            raw["metadata"]["name"],
            str(spec.get("cohortName", "")),
            *_counts(status),
            str(is_true(raw, "Active")).lower(),
            _age(raw, now),
            *(wider if wide else ()),
        )

    return PrintedTable((*headers, *more), [row(each) for each in found])


def local_queues(found: Iterable[Raw], now: float, *, wide: bool = False, namespaces: bool = False) -> PrintedTable:
    """Returns the table of LocalQueues."""
    headers = ("Name", "ClusterQueue", "Pending Workloads", "Admitted Workloads", "Age")
    more = ("Active", "Stop Policy") if wide else ()

    def row(raw: Raw) -> tuple[str, ...]:
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        wider = (str(is_true(raw, "Active")).lower(), str(spec.get("stopPolicy", "")))
        return (
            *((raw["metadata"]["namespace"],) if namespaces else ()),
            raw["metadata"]["name"],
            str(spec.get("clusterQueue", "")),
            *_counts(status),
            _age(raw, now),
            *(wider if wide else ()),
        )

    return PrintedTable((*(("Namespace",) if namespaces else ()), *headers, *more), [row(each) for each in found])


def resource_flavors(found: Iterable[Raw], now: float, *, wide: bool = False) -> PrintedTable:
    """Returns the table of ResourceFlavors."""
    headers = ("Name", "Node Labels", "Age", *(("Node Taints", "Topology") if wide else ()))

    def row(raw: Raw) -> tuple[str, ...]:
        spec = raw.get("spec") or {}
        labels = ", ".join(sorted(f"{key}={value}" for key, value in (spec.get("nodeLabels") or {}).items()))
        taints = ", ".join(f"{each.get('key')}:{each.get('effect')}" for each in spec.get("nodeTaints") or ())
        wider = (taints, str(spec.get("topologyName", "")))
        return (raw["metadata"]["name"], labels, _age(raw, now), *(wider if wide else ()))

    return PrintedTable(headers, [row(each) for each in found])


def workloads(
    found: Iterable[Raw],
    now: float,
    of_queues: Mapping[Key, str],
    places: Mapping[Key, int],
    *,
    starts: Mapping[Key, str] | None = None,
    namespaces: bool = False,
) -> PrintedTable:
    """Returns the table of Workloads; with further columns if it is given when they start."""
    headers = ("Name", "Job Type", "Job Name", "LocalQueue", "ClusterQueue", "Status", "Position in Queue", "Exec Time")
    more = ("Priority", "Flavors", "Starts In", "Message") if starts is not None else ()

    def row(raw: Raw) -> tuple[str, ...]:
        owners = _owners(raw)
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        began, ended = since(raw, Condition.ADMITTED), since(raw, Condition.FINISHED)
        start = (starts or {}).get(key_of(raw), "")
        wider = (str(spec.get("priority", 0)), ",".join(flavors_of(status)), start, why(raw))
        return (
            *((raw["metadata"]["namespace"],) if namespaces else ()),
            raw["metadata"]["name"],
            ", ".join(sorted({_job_type(each) for each in owners})),
            ", ".join(sorted({str(each.get("name", "")) for each in owners})),
            str(spec.get("queueName", "")),
            cluster_queue_of(raw, of_queues),
            status_of(raw).upper(),
            str(places.get(key_of(raw), "")),
            age((now if ended is None else ended) - began) if began is not None else "",
            _age(raw, now),
            *(wider if starts is not None else ()),
        )

    return PrintedTable(
        (*(("Namespace",) if namespaces else ()), *headers, "Age", *more), [row(each) for each in found]
    )


def flavors_of(status: Raw) -> list[str]:
    """Returns the flavors that a Workload has been assigned."""
    sets = (status.get("admission") or {}).get("podSetAssignments") or ()
    return sorted({str(flavor) for each in sets for flavor in (each.get("flavors") or {}).values()})


def why(raw: Raw) -> str:
    """Returns the sentence of a Workload's status about its present state: why it waits, or how it has ended."""
    conditions = {each.get("type"): each for each in (raw.get("status") or {}).get("conditions") or ()}
    for kind in (Condition.FINISHED, Condition.ADMITTED, Condition.QUOTA_RESERVED):
        if conditions.get(kind, {}).get("status") == "True":
            return str(conditions[kind].get("message", "")) if kind == Condition.FINISHED else ""
    return str(conditions.get(Condition.QUOTA_RESERVED, {}).get("message", ""))


def of_server(answer: Raw, *, wide: bool, namespace: str) -> PrintedTable:
    """Returns the API server's own table, with its columns for people; those of ``-o wide`` on demand."""
    columns = answer.get("columnDefinitions") or []
    shown = [place for place, each in enumerate(columns) if wide or not each.get("priority")]
    rows = [
        (
            *((namespace,) if namespace else ()),
            *("" if row["cells"][i] is None else str(row["cells"][i]) for i in shown),
        )
        for row in answer.get("rows") or ()
    ]
    headers = (*(("Namespace",) if namespace else ()), *(str(columns[i]["name"]) for i in shown))
    return PrintedTable(headers, rows)


def _job_type(owner: Raw) -> str:
    kind = str(owner.get("kind", "")).lower()
    return kind if len(kind) <= MOST_TYPE else f"{kind[:MOST_TYPE]}..."


def _counts(status: Raw) -> tuple[str, str]:
    return str(status.get("pendingWorkloads", 0)), str(status.get("admittedWorkloads", 0))


def _age(raw: Raw, now: float) -> str:
    return age(now - epoch(raw["metadata"]["creationTimestamp"]))
