"""The job that an argument of a command names, among the objects of a cluster; and the sentence if there is none.

Separate from ``explain`` for commands that decide nothing: what ``explain`` imports takes longer than all else there.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Literal

import typer

from api.names import Label
from api.objects import Key, Raw
from cli.target import UsageError
from core.explain.parts import Parts, parts
from core.jobs import meta
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.pod_owners import POD_OWNERS, PodOwner, replicas
from core.model.owner import owner

OutputOption = Annotated[Literal["text", "json", "yaml"], typer.Option("--output", "-o", help="How to print it.")]


def _completed(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns what the name of a job may become, for the completion of a shell."""
    from cli.completion import jobs

    return jobs(ctx.params, incomplete)


JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB|WORKLOAD",
        help="A Job, jobset/NAME, deployment/NAME, workload/NAME.",
        autocompletion=_completed,
    ),
]
"""The argument of commands about one job."""


def workload_of(objects: list[Raw], name: str, namespace: str) -> Raw | None:
    """Returns the Workload that an argument names, the newest of its job; None if there is none."""
    here = [each for each in objects if each["metadata"].get("namespace") == namespace]
    kind, wanted = sought(name)
    if isinstance(kind, PodOwner):
        of_parts = parts_of(kind, here, wanted)
        return of_parts.shown if of_parts is not None else None
    found = [each for each in here if each["kind"] == "Workload" and is_named(each, wanted, kind)]
    return max(found, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), default=None)


def sought(name: str) -> tuple[JobKind | PodOwner | None, str]:
    """The kind of object that an argument names, and the name; no kind for a Workload. Raises UsageError for a kind
    that is not queued.
    """
    prefix, slash, rest = name.rpartition("/")
    if not slash:
        return BATCH_JOB, rest
    kind = prefix.partition(".")[0].lower()
    if kind in ("workload", "workloads", "wl"):
        return None, rest
    known: dict[str, JobKind | PodOwner] = {}
    kinds: tuple[JobKind | PodOwner, ...] = (*POD_OWNERS, *ALL)
    for each in kinds:
        for word in (each.resource.kind.lower(), each.resource.plural, getattr(each, "singular", "")):
            known.setdefault(word, each)
    if kind not in known or not rest:
        close = get_close_matches(kind, [word for word in (*known, "workload") if word], n=1)
        hint = (
            f": did you mean {close[0]}/{rest}?" if close else "; write KIND/NAME, for example job/NAME or jobset/NAME"
        )
        raise UsageError(f"there is no kind {prefix!r} that is queued{hint}")
    return known[kind], rest


def parts_of(kind: PodOwner, here: list[Raw], wanted: str) -> Parts | None:
    """Returns what is queued of an object whose pods are queued; None if that is nothing."""
    asked = (kind.resource.kind, wanted)
    owner_of_pods = next((o for o in here if (o["kind"], o["metadata"]["name"]) == asked), None)
    return parts(kind, owner_of_pods, here) if owner_of_pods is not None else None


def without_workload(kind: JobKind | PodOwner | None, here: list[Raw], wanted: str, namespace: str) -> str:
    """Returns why there is nothing to explain: no such job, one that is not managed, or one without a Workload yet."""
    if kind is None:
        return f"there is no Workload {wanted} in namespace {namespace}; see kubectl get workloads -n {namespace}"
    named = kind.resource.kind
    jobs = [each for each in here if each["kind"] == named]
    job = next((each for each in jobs if each["metadata"]["name"] == wanted), None)
    if job is None:
        close = get_close_matches(wanted, [each["metadata"]["name"] for each in jobs], n=1)
        hint = f": did you mean {close[0]}?" if close else f"; see kubectl get {kind.resource.plural} -n {namespace}"
        return f"there is no {named} {wanted} in namespace {namespace}{hint}"
    if isinstance(kind, PodOwner) and kind.of_another(job):
        return f"{named} {wanted} has no Workload: its pods have that of the object that created it"
    queue = meta.queue_name(job)
    if not queue:
        return (
            f"{named} {wanted} does not wait: it names no queue (label {Label.QUEUE_NAME}), so it has no Workload"
            " and Kubernetes runs it immediately"
        )
    if isinstance(kind, PodOwner) and not replicas(job):
        return f"{named} {wanted} has 0 replicas, so there are no pods that could wait"
    if isinstance(kind, JobKind) and kind.finished(job) is not None:
        return f"{named} {wanted} has finished, and its Workload is deleted"
    chosen = meta.priority_class(job)
    known = f"; it names WorkloadPriorityClass {chosen}, which must exist" if chosen else ""
    return (
        f"{named} {wanted} names queue {queue} but has no Workload yet{known}; "
        f"kubectl describe {named.lower()} {wanted} -n {namespace} shows more, "
        "if the controller runs and manages the namespace"
    )


def is_named(workload: Raw, name: str, kind: JobKind | None) -> bool:
    """Whether a Workload, or the job of a Workload, has this name."""
    metadata = workload["metadata"]
    of_job = kind is not None and owner(workload) == owner_of(kind, Key(metadata["namespace"], name))
    return bool(metadata["name"] == name) or of_job
