"""``kubectl seiretsu why-preempted``: which workload preempted a job, by which rule, and when.

The names of workloads in other namespaces are those that your rights show.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import typer

from api import resources
from api.names import Label
from api.objects import Raw
from cli import named, preempted, target
from cli.preempted import ShownPreemptor
from cli.reader import Reader
from cli.target import As, AsGroup, ContextOption, FailedError, Kubeconfig, Namespace, UnreadableError
from core.explain.parts import needed
from core.explain.preemption import ShownPreemption, preemptions
from core.jobs.pod_owners import PodOwner


def command(
    name: named.JobArgument,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    output: named.OutputOption = "text",
) -> None:
    """Report which workload preempted a job, by which rule, when, and what avoids it."""
    with target.failing("why-preempted", output):
        here = target.target(kubeconfig, context, as_user, as_group).connection()
        namespace = namespace or here.namespace
        named.sought(name)
        with Reader(here) as reader, target.reached(here.server):
            workload = _workload(reader, name, namespace)
            about = f"involvedObject.kind=Workload,involvedObject.name={workload['metadata']['name']},reason=Preempted"
            events = reader.list(resources.EVENTS, namespace, fields=about) or []
            found = preemptions(workload, events)
            shown = [(each, _preemptor(reader, each, namespace)) for each in found]
    job = f"{namespace}/{name}"
    if output == "text":
        typer.echo(preempted.text(job, workload, shown, time.time()), nl=False)
    else:
        moments = {each.at: datetime.fromtimestamp(each.at, UTC).isoformat() for each in found if each.at is not None}
        typer.echo(target.written(preempted.plain(job, workload, shown, moments), output), nl=False)


def _workload(reader: Reader, name: str, namespace: str) -> Raw:
    """The Workload of a job, the newest one. Raises UnreadableError without the right to list them in the namespace,
    FailedError if there is none.
    """
    kind, wanted = named.sought(name)
    found = reader.list(resources.WORKLOADS, namespace)
    if found is None:
        raise UnreadableError(f"you may not list workloads in namespace {namespace}: ask for that right")
    for each in needed(kind) if isinstance(kind, PodOwner) else ():
        found += reader.list(each, namespace) or []
    workload = named.workload_of(found, name, namespace)
    if workload is None:
        jobs = reader.list(kind.resource, namespace) if kind is not None else []
        raise FailedError(named.without_workload(kind, [*found, *(jobs or [])], wanted, namespace))
    return workload


def _preemptor(reader: Reader, preemption: ShownPreemption, namespace: str) -> ShownPreemptor:
    """Who preempted, by the label with the uid of its job. A group of pods has none: it is looked for among all
    Workloads.
    """
    labels = f"{Label.JOB_UID}={preemption.job_uid}" if preemption.job_uid else ""
    found = reader.list(resources.WORKLOADS, labels=labels)
    known = found if found is not None else reader.list(resources.WORKLOADS, namespace, labels=labels)
    return preempted.preemptor(preemption, known or [], complete=found is not None)
