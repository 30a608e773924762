"""``seiretsu explain``: shows why a Job waits, which workloads hold what it needs, and what would let it start."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import typer

from api import quantity
from api.names import Condition, Label
from api.objects import key_of
from cli import live
from cli.manifests import Document, ScenarioError
from cli.report import columns
from cli.scenario import LIVE
from cli.world import Rules, World, rules
from controller import resources
from controller.events import WAITS
from core.explain.analysis import explain
from core.explain.explanation import Explanation
from core.explain.parts import Parts, called, needed, parts
from core.jobs import meta
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.pod_owners import POD_OWNERS, PodOwner, replicas
from core.model import Key, Raw
from core.model.owner import GROUP, owner

_NAME = re.compile(r"(?<![/\w.-])[a-z0-9][a-z0-9-]*/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""NAMESPACE/NAME in a sentence."""
JUDGED_BY = (
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.RESOURCE_FLAVORS,
    resources.LOCAL_QUEUES,
    resources.NAMESPACES,
    resources.WORKLOADS,
)
"""Kinds of which all objects are needed to compute a decision of the cycle."""
_UID = re.compile(r"\(UID: ([0-9a-f-]+), JobUID: [^)]*\)")
"""A preemptor in Kueue's sentence."""


def command(
    name: Annotated[
        str, typer.Argument(metavar="JOB|WORKLOAD", help="A Job, jobset/NAME, deployment/NAME, workload/NAME.")
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where it is.")] = "default",
    kubeconfig: Annotated[Path | None, typer.Option(help="Which cluster; else as kubectl finds it.")] = None,
    config: Annotated[Path | None, typer.Option(help="The Configuration that serve runs with.")] = None,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Report why a Job waits, its queue position, which workloads hold what it needs, and what would let it start."""
    try:
        chosen = rules(config)
        found = look(name, namespace, kubeconfig)
    except (live.LiveError, ScenarioError) as error:
        typer.echo(f"seiretsu explain: {error}", err=True)
        raise typer.Exit(1) from None
    told = explanation(found, name, namespace, time.time(), chosen)
    if isinstance(told, str):
        typer.echo(f"seiretsu explain: {told}", err=True)
        raise typer.Exit(1)
    if output == "json":
        typer.echo(json.dumps(plain(told), indent=2))
    else:
        typer.echo(text(told, jobs_of(found.objects)), nl=False)


def look(name: str, namespace: str, kubeconfig: Path | None) -> live.Seen:
    """Returns the objects that an answer about a job depends on, as far as the user may read them. Raises LiveError."""
    kind, wanted = _sought(name)
    jobs = (kind or BATCH_JOB).resource
    here = needed(kind) if isinstance(kind, PodOwner) else ()
    everywhere = live.KINDS if here else (*live.KINDS, jobs)
    return live.seen(kubeconfig, everywhere, namespace, (jobs.kind, wanted) if kind else None, here)


def explanation(
    found: live.Seen, name: str, namespace: str, now: float, chosen: Rules | None = None
) -> Explanation | str:
    """Returns why a job waits, as far as the objects that the user may read say it, or why there is no answer."""
    kind, _ = _sought(name)
    here = needed(kind) if isinstance(kind, PodOwner) else ()
    if here and found.hides(*here):
        hidden = ", ".join(each.plural for each in here if found.hides(each))
        return f"you may not list {hidden} in namespace {namespace}: ask for that right"
    if found.hides(*JUDGED_BY):
        return partial_answer(found, name, namespace)
    return answer(found.objects, name, namespace, now, chosen)


def workload_of(objects: list[Raw], name: str, namespace: str) -> Raw | None:
    """Returns the Workload that an argument names, the newest of its job; None if there is none."""
    here = [each for each in objects if each["metadata"].get("namespace") == namespace]
    kind, wanted = _sought(name)
    if isinstance(kind, PodOwner):
        of_parts = _parts(kind, here, wanted)
        return of_parts.shown if of_parts is not None else None
    found = [each for each in here if each["kind"] == "Workload" and _is(each, wanted, kind)]
    return max(found, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), default=None)


def _sought(name: str) -> tuple[JobKind | PodOwner | None, str]:
    """The kind of object that an argument names, and the name; no kind for a Workload."""
    prefix, _, rest = name.rpartition("/")
    if prefix == "workload":
        return None, rest
    for owner_kind in POD_OWNERS:
        if prefix in (owner_kind.resource.kind.lower(), owner_kind.resource.plural):
            return owner_kind, rest
    return next((kind for kind in ALL if prefix in (kind.singular, kind.plural)), BATCH_JOB), rest


def answer(objects: list[Raw], name: str, namespace: str, now: float, chosen: Rules | None = None) -> Explanation | str:
    """Returns the explanation of a Job or Workload among the objects of a cluster, or why there is none."""
    here = [o for o in objects if o["metadata"].get("namespace") == namespace]
    workloads = [o for o in here if o["kind"] == "Workload"]
    kind, wanted = _sought(name)
    of_parts = None
    if isinstance(kind, PodOwner):
        of_parts = _parts(kind, here, wanted)
        found = [of_parts.shown] if of_parts else []
    else:
        found = [w for w in workloads if _is(w, wanted, kind)]
    if not found:
        return _without_workload(kind, here, wanted, namespace)
    world = World((Document(o, LIVE) for o in objects), _as_marked(chosen, workloads))
    for workload in world.workloads:
        world.state.set_workload(workload.key, workload)
    key = Key(namespace, max(found, key=lambda w: w["metadata"].get("creationTimestamp", ""))["metadata"]["name"])
    told = explain(world.state, key, now)
    if told is not None:
        return replace(told, summary=of_parts.summary if of_parts else "")
    done = next(w.condition(Condition.FINISHED) for w in world.workloads if w.key == key)
    assert done is not None
    return Explanation(key, "finished", reason=done.reason, message=done.message)


def _as_marked(chosen: Rules | None, workloads: list[Raw]) -> Rules | None:
    """The rules with concurrent admission if a Workload is marked as a parent: the feature gate is on in the
    controller.
    """
    if not any(meta.labels(raw).get(Label.CONCURRENT_ADMISSION_PARENT) == "true" for raw in workloads):
        return chosen
    found = chosen or Rules()
    policy = replace(found.controller.policy, concurrent_admission=True)
    reading = replace(found.controller.reading, concurrent_admission=True, preemption_gates=True)
    return replace(found, controller=replace(found.controller, policy=policy, reading=reading))


def partial_answer(seen: live.Seen, name: str, namespace: str) -> Explanation | str:
    """Returns an explanation from the objects that a user may read, if they are not enough to decide about a
    workload.
    """
    here = [o for o in seen.objects if o["metadata"].get("namespace") == namespace]
    kind, wanted = _sought(name)
    if isinstance(kind, PodOwner):
        of_parts = _parts(kind, here, wanted)
        if of_parts is None:
            return _without_workload(kind, here, wanted, namespace)
        return replace(_by_status(of_parts.shown), summary=of_parts.summary, unseen=seen.unseen)
    found = [o for o in here if o["kind"] == "Workload" and _is(o, wanted, kind)]
    job = next((o for o in here if kind and (o["kind"], o["metadata"]["name"]) == (kind.kind, wanted)), None)
    if not found and (kind is None or job is None or not meta.queue_name(job)):
        if job is None and seen.hides((kind or BATCH_JOB).resource):
            what = f"{(kind or BATCH_JOB).kind} {wanted} in namespace {namespace} or its Workload"
            return f"you may not read {what}: ask for that right"
        return _without_workload(kind, here, wanted, namespace)
    told = _by_status(found[-1]) if found else _by_job(kind or BATCH_JOB, job or {})
    if told.state == "waiting" and not told.message:
        reason, message = _last_wait(o for o in seen.objects if o["kind"] == "Event")
        told = replace(told, reason=reason, message=message or "no reason is recorded yet")
    return replace(told, unseen=seen.unseen)


def _parts(kind: PodOwner, here: list[Raw], wanted: str) -> Parts | None:
    """Returns what is queued of an object whose pods are queued; None if that is nothing."""
    asked = (kind.resource.kind, wanted)
    owner_of_pods = next((o for o in here if (o["kind"], o["metadata"]["name"]) == asked), None)
    return parts(kind, owner_of_pods, here) if owner_of_pods is not None else None


def _by_status(workload: Raw) -> Explanation:
    """Returns an explanation from the status of a Workload."""
    status = workload.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    queue = (status.get("admission") or {}).get("clusterQueue", "")
    key = key_of(workload)
    for kind, state in ((Condition.FINISHED, "finished"), (Condition.ADMITTED, "admitted")):
        if conditions.get(kind, {}).get("status") == "True":
            return Explanation(key, state, queue, message=conditions[kind].get("message", ""))
    reserved = conditions.get(Condition.QUOTA_RESERVED, {})
    if reserved.get("status") == "True":
        told = conditions.get(Condition.ADMITTED, {})
        return Explanation(key, "quota reserved", queue, told.get("reason", ""), told.get("message", ""))
    priority = workload["spec"].get("priority")
    return Explanation(
        key, "waiting", reason=reserved.get("reason", ""), message=reserved.get("message", ""), priority=priority
    )


def _by_job(kind: JobKind, job: Raw) -> Explanation:
    """Returns an explanation from a job whose Workload is not readable."""
    key = key_of(job)
    outcome = kind.finished(job)
    if outcome is not None:
        return Explanation(key, "finished", message=outcome.message)
    if kind.suspended(job):
        return Explanation(key, "waiting")
    return Explanation(key, "admitted", message="it is not suspended")


def _last_wait(events: Iterable[Raw]) -> tuple[str, str]:
    """Returns reason and message of the newest event on a Job with the reason why it waits."""
    told = [each for each in events if each.get("message", "").startswith(WAITS)]
    newest = max(told, key=lambda each: str(each.get("lastTimestamp") or ""), default={})
    return newest.get("reason", ""), newest.get("message", "")


def _without_workload(kind: JobKind | PodOwner | None, here: list[Raw], wanted: str, namespace: str) -> str:
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


def _is(workload: Raw, name: str, kind: JobKind | None) -> bool:
    metadata = workload["metadata"]
    of_job = kind is not None and owner(workload) == owner_of(kind, Key(metadata["namespace"], name))
    return bool(metadata["name"] == name) or of_job


def plain(told: Explanation) -> Raw:
    """The explanation in plain values, amounts as Kubernetes writes them."""
    value = asdict(told) | {"key": str(told.key), "ahead": [str(key) for key in told.ahead]}
    value["cells"] = [
        {"flavor": c.flavor_resource.flavor, "resource": c.flavor_resource.resource}
        | {
            k: quantity.text(c.flavor_resource.resource, getattr(c, k))
            for k in ("asked", "nominal", "used", "free", "most")
        }
        for c in told.cells
    ]
    value["holders"] = [
        {"workload": str(h.key), "clusterQueue": h.cluster_queue, "priority": h.priority, "holds": _holds(h.amounts)}
        for h in told.holders
    ]
    return value


def _holds(amounts: object) -> str:
    assert isinstance(amounts, dict)
    return ", ".join(
        f"{quantity.text(fr.resource, n)} {fr.resource} in {fr.flavor}" for fr, n in sorted(amounts.items())
    )


def jobs_of(objects: list[Raw]) -> dict[str, str]:
    """Returns the Job of each Workload, both as NAMESPACE/NAME; also by the Workload's uid."""
    found: dict[str, str] = {}
    for each in objects:
        by = owner(each) if each["kind"] == "Workload" else None
        if by is not None:
            job = f"{by.namespace}/{called(each) or by.name.removeprefix(GROUP)}"
            found |= {str(key_of(each)): job, each["metadata"]["uid"]: job}
    return found


def text(told: Explanation, jobs: Mapping[str, str] | None = None) -> str:
    """Returns the explanation for a terminal; Workloads have the name of their Job, which users know."""
    known = jobs or {}
    lines = "".join(f"{line}\n" for line in _lines(told))
    named = _NAME.sub(lambda match: known.get(match[0], match[0]), lines)
    named = _UID.sub(lambda match: f"({known[match[1]]})" if match[1] in known else match[0], named)
    if known.get(str(told.key), str(told.key)) != str(told.key):
        named = named.replace(":", f" (Workload {told.key.name}):", 1)
    return f"{told.summary}\n{named}" if told.summary else named


def _lines(told: Explanation) -> Iterator[str]:
    where = f" in ClusterQueue {told.cluster_queue}" if told.cluster_queue else ""
    place = f", queue position {told.place} of {told.waiting}" if told.place else ""
    priority = f", priority {told.priority}" if told.priority is not None else ""
    yield f"{told.key}: {told.state}{where}{place}{priority}"
    if told.ahead:
        shown = [str(key) for key in told.ahead[:5]] + ([f"{len(told.ahead) - 5} more"] if len(told.ahead) > 5 else [])
        yield f"  behind {', '.join(shown)}"
    if told.message:
        yield f"  {told.reason + ': ' if told.reason else ''}{told.message}"
    if told.before:
        yield f"  It was evicted before: {told.before}"
    if told.unseen:
        yield ""
        yield f"Your rights do not show {', '.join(told.unseen)}."
        yield "With that right the answer has the queue position, who holds the quota, and what would let it start."
    if told.cells:
        rows = [("FLAVOR", "RESOURCE", "ASKED", "FREE NOW", "IN USE", "OWN QUOTA", "MOST EVER")]
        for c in told.cells:
            amounts = (
                quantity.text(c.flavor_resource.resource, n) for n in (c.asked, c.free, c.used, c.nominal, c.most)
            )
            rows.append((c.flavor_resource.flavor, c.flavor_resource.resource, *amounts))  # type: ignore[arg-type]
        yield ""
        yield from columns(rows).splitlines()
    if told.holders:
        yield ""
        yield "Held by"
        for h in told.holders[:10]:
            yield f"  {h.key} in {h.cluster_queue}, priority {h.priority}: {_holds(h.amounts)}"
        if len(told.holders) > 10:
            yield f"  and {len(told.holders) - 10} more"
    if len(told.shares) > 1:
        yield ""
        yield "Fair sharing: the lowest share is first (quota borrowed, in thousandths of what the cohort lends)"
        yield from (f"  {name}: {share:.0f}" for name, share in told.shares)
    if told.ways:
        yield ""
        yield "What would let it start"
        yield from (f"  - {way}" for way in told.ways)
    first = [f"{len(told.ahead)} ahead of it"] if told.ahead else []
    others = [*first, *([f"{told.rivals} in other ClusterQueues of the cohort"] if told.rivals else [])]
    if told.place and others:
        yield f"Other waiting workloads may get free quota first: {', '.join(others)}."
