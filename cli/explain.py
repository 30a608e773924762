"""``seiretsu explain``: shows why a Job waits, which workloads hold what it needs, and what would let it start; and why
one that was admitted does not run.

The server is asked first, through the visibility API. Where that is not served, or leaves something out, the objects of
the cluster are read with the user's rights and decided here.

It starts in half a second of CPU, because people and scripts call it again and again: it imports neither pydantic nor
the libraries of the server (tests/cli/test_start.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from api import resources
from api.names import Condition, Label
from api.objects import Raw, Resource, key_of
from cli import live, target
from cli.cluster_state import ClusterState, without_mapping
from cli.explained import jobs_of, plain, text
from cli.named import JobArgument, OutputOption, is_named, parts_of, sought, without_workload, workload_of
from cli.reader import Reader
from cli.standing import Standing, standing, with_summary
from cli.target import As, AsGroup, ContextOption, Kubeconfig, Namespace
from controller.settings import ControllerSettings
from core.explain.analysis import explain
from core.explain.explanation import Explanation
from core.explain.parts import needed
from core.jobs import meta
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.pod_owners import PodOwner
from core.model import Key
from core.model.messages import WAITS
from core.model.owner import owner
from core.wire.active import condition_of
from seiretsu import running
from seiretsu.running import Running

JUDGED_BY = (
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.RESOURCE_FLAVORS,
    resources.LOCAL_QUEUES,
    resources.NAMESPACES,
    resources.WORKLOADS,
)
"""Kinds of which all objects are needed to compute a decision of the cycle."""


def command(
    name: JobArgument,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    config: Annotated[Path | None, typer.Option(help="The Configuration that serve runs with.")] = None,
    output: OutputOption = "text",
) -> None:
    """Report why a Job waits, its queue position, which workloads hold what it needs, and what would let it start; and
    why one that was admitted does not run.
    """
    with target.failing("explain", output):
        chosen = settings(config)
        here = target.target(kubeconfig, context, as_user, as_group).connection()
        namespace = namespace or here.namespace
        sought(name)
        with Reader(here) as reader:
            now = time.time()
            found, answered = asked(reader, name, namespace)
            explained = answered.explanation if answered is not None else None
            if explained is None or explained.omitted:
                everything = look(reader, name, namespace, chosen)
                if explained is None or not everything.hides(*JUDGED_BY):
                    found, computed = everything, explanation(everything, name, namespace, now, chosen)
                    if isinstance(computed, str):
                        target.fail("explain", computed, output=output)
                    explained = computed
            pods, unseen = _pods(reader, found, explained, name, namespace, now)
    explained = replace(explained, unseen=(*explained.unseen, *unseen))
    jobs = {**(answered.jobs if answered is not None else {}), **jobs_of(found.objects)}
    expected = answered.forecast if answered is not None else None
    if output == "text":
        typer.echo(text(explained, jobs, pods) + starts(expected), nl=False)
    else:
        typer.echo(target.written({**plain(explained, pods, jobs), "forecast": expected}, output), nl=False)


def starts(forecast: Raw | None) -> str:
    """Returns the line about the forecast of the server; '' if it has none."""
    if forecast is None:
        return ""
    if "message" in forecast:
        return f"\nIt {forecast['message']}: forecast {forecast['ageSeconds']} s ago, from {forecast['restsOn']}\n"
    return f"\nIt is not known when it starts: {forecast['unknown']}\n" if "unknown" in forecast else ""


def settings(config: Path | None) -> ControllerSettings:
    """Returns the settings of a Configuration file, those of an empty one without; ScenarioError with its mistakes."""
    if config is None:
        return without_mapping(ControllerSettings())
    from cli.world import rules  # with the models of the Configuration, which cost more than all else here

    return rules(config).controller


def look(reader: Reader, name: str, namespace: str, chosen: ControllerSettings) -> live.Seen:
    """Returns the objects that an answer about a job depends on, as far as the user may read them. Raises
    UnreadableError, also if there is no such namespace.
    """
    kind, wanted = sought(name)
    jobs = (kind or BATCH_JOB).resource
    here = needed(kind) if isinstance(kind, PodOwner) else ()
    everywhere = live.kinds(chosen) if here else (*live.kinds(chosen), jobs)
    found = live.seen(reader, everywhere, namespace, (jobs.kind, wanted) if kind else None, here)
    known = {each["metadata"]["name"] for each in found.objects if each["kind"] == resources.NAMESPACES.kind}
    if namespace not in known and not found.hides(resources.NAMESPACES):
        close = get_close_matches(namespace, known, n=1)
        hint = f": did you mean {close[0]}?" if close else ""
        raise target.FailedError(f'Error from server (NotFound): namespaces "{namespace}" not found{hint}')
    return found


def asked(reader: Reader, name: str, namespace: str) -> tuple[live.Seen, Standing | None]:
    """Returns what the server answers about a job, and the objects of the namespace from which its Workload is known;
    None if the server has no answer, or there is no such Workload.
    """
    kind, wanted = sought(name)
    kinds = needed(kind) if isinstance(kind, PodOwner) else ((kind or BATCH_JOB).resource,)
    found = live.seen(reader, (), namespace, None, (resources.WORKLOADS, *kinds))
    workload = workload_of(found.objects, name, namespace)
    answer = standing(reader, workload) if workload is not None else None
    if answer is None or not isinstance(kind, PodOwner):
        return found, answer
    here = [each for each in found.objects if each["metadata"].get("namespace") == namespace]
    of_parts = parts_of(kind, here, wanted)
    return found, with_summary(answer, of_parts.summary if of_parts is not None else "")


def _pods(
    reader: Reader, found: live.Seen, explained: Explanation, name: str, namespace: str, now: float
) -> tuple[Running | None, tuple[str, ...]]:
    """What the pods of an admitted job do, and what of that may not be read; None if it is not admitted, or its pods
    are in another cluster.
    """
    workload = workload_of(found.objects, name, namespace)
    if workload is None or explained.state != "admitted" or not running.admitted(workload):
        return None, ()
    kind, wanted = sought(name)
    resource, named = (kind.resource, wanted) if kind is not None else (_job_kind(workload), _job_name(workload))
    job = next(
        (each for each in found.objects if (each["kind"], key_of(each)) == (resource.kind, Key(namespace, named))), None
    )
    read = live.evidence(reader, workload, job)
    if read is None:
        return None, ()
    if read.pods is None:
        return None, (resources.PODS.plural,)
    return running.running(workload, job, read.pods, read.events, now), ()


def _job_kind(workload: Raw) -> Resource:
    by = owner(workload)
    return next((kind.resource for kind in ALL if by is not None and kind.kind == by.kind), BATCH_JOB.resource)


def _job_name(workload: Raw) -> str:
    by = owner(workload)
    return by.name if by is not None else ""


def explanation(
    found: live.Seen, name: str, namespace: str, now: float, chosen: ControllerSettings | None = None
) -> Explanation | str:
    """Returns why a job waits, as far as the objects that the user may read say it, or why there is no answer."""
    kind, _ = sought(name)
    here = needed(kind) if isinstance(kind, PodOwner) else ()
    if here and found.hides(*here):
        hidden = ", ".join(each.plural for each in here if found.hides(each))
        return f"you may not list {hidden} in namespace {namespace}: ask for that right"
    if found.hides(*JUDGED_BY):
        return partial_answer(found, name, namespace)
    return answer(found.objects, name, namespace, now, chosen)


def answer(
    objects: list[Raw], name: str, namespace: str, now: float, chosen: ControllerSettings | None = None
) -> Explanation | str:
    """Returns the explanation of a Job or Workload among the objects of a cluster, or why there is none."""
    here = [o for o in objects if o["metadata"].get("namespace") == namespace]
    workloads = [o for o in here if o["kind"] == "Workload"]
    kind, wanted = sought(name)
    of_parts = None
    if isinstance(kind, PodOwner):
        of_parts = parts_of(kind, here, wanted)
        found = [of_parts.shown] if of_parts else []
    else:
        found = [w for w in workloads if is_named(w, wanted, kind)]
    if not found:
        return without_workload(kind, here, wanted, namespace)
    world = ClusterState(_as_marked(chosen or settings(None), workloads))
    for each in sorted(objects, key=lambda raw: raw["kind"] == "Workload"):
        world.add(each)
    for workload in world.workloads:
        world.state.set_workload(workload.key, workload)
    key = Key(namespace, max(found, key=lambda w: w["metadata"].get("creationTimestamp", ""))["metadata"]["name"])
    explained = explain(world.state, key, now)
    if explained is not None:
        if world.caches.devices is None:
            explained = _as_the_controller_found(explained, world.raws[key])
        return replace(explained, summary=of_parts.summary if of_parts else "")
    done = next(w.condition(Condition.FINISHED) for w in world.workloads if w.key == key)
    assert done is not None
    return Explanation(key, "finished", reason=done.reason, message=done.message)


def _as_the_controller_found(explained: Explanation, raw: Raw) -> Explanation:
    """The explanation of a workload that seems to fit because its devices are not counted here: with the reason in its
    status.
    """
    templates = ((each.get("template") or {}).get("spec") or {} for each in raw["spec"].get("podSets") or ())
    found = condition_of(raw, Condition.QUOTA_RESERVED)
    if explained.reason != "Fits" or not any(each.get("resourceClaims") for each in templates) or found is None:
        return explained
    advice = "with --config FILE, the Configuration of the controller, devices are counted here too"
    return replace(explained, reason=found["reason"], message=found["message"], ways=(advice,))


def _as_marked(chosen: ControllerSettings, workloads: list[Raw]) -> ControllerSettings:
    """The settings with concurrent admission if a Workload is marked as a parent: the feature gate is on in the
    controller.
    """
    if not any(meta.labels(raw).get(Label.CONCURRENT_ADMISSION_PARENT) == "true" for raw in workloads):
        return chosen
    policy = replace(chosen.policy, concurrent_admission=True)
    reading = replace(chosen.reading, concurrent_admission=True, preemption_gates=True)
    return replace(chosen, policy=policy, reading=reading)


def partial_answer(seen: live.Seen, name: str, namespace: str) -> Explanation | str:
    """Returns an explanation from the objects that a user may read, if they are not enough to decide about a
    workload.
    """
    here = [o for o in seen.objects if o["metadata"].get("namespace") == namespace]
    kind, wanted = sought(name)
    if isinstance(kind, PodOwner):
        of_parts = parts_of(kind, here, wanted)
        if of_parts is None:
            return without_workload(kind, here, wanted, namespace)
        return replace(_by_status(of_parts.shown), summary=of_parts.summary, unseen=seen.unseen)
    found = [o for o in here if o["kind"] == "Workload" and is_named(o, wanted, kind)]
    job = next((o for o in here if kind and (o["kind"], o["metadata"]["name"]) == (kind.kind, wanted)), None)
    if not found and (kind is None or job is None or not meta.queue_name(job)):
        if job is None and seen.hides((kind or BATCH_JOB).resource):
            what = f"{(kind or BATCH_JOB).kind} {wanted} in namespace {namespace} or its Workload"
            return f"you may not read {what}: ask for that right"
        return without_workload(kind, here, wanted, namespace)
    explained = _by_status(found[-1]) if found else _by_job(kind or BATCH_JOB, job or {})
    if explained.state == "waiting" and not explained.message:
        reason, message = _last_wait(o for o in seen.objects if o["kind"] == "Event")
        explained = replace(explained, reason=reason, message=message or "no reason is recorded yet")
    return replace(explained, unseen=seen.unseen)


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
        admitted = conditions.get(Condition.ADMITTED, {})
        return Explanation(key, "quota reserved", queue, admitted.get("reason", ""), admitted.get("message", ""))
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
    waits = [each for each in events if each.get("message", "").startswith(WAITS)]
    newest = max(waits, key=lambda each: str(each.get("lastTimestamp") or ""), default={})
    return newest.get("reason", ""), newest.get("message", "")
