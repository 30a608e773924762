"""Decides the next write about a Workload in one worker cluster: a chain of rules, of which the first that answers
decides.

It depends on what is written here (nominations, the chosen worker), never on another worker; only ``may_preempt``
compares workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from api.names import CheckState, Condition, EvictedReason, FinishedReason, GatePosition, Label, PreemptionGate
from api.objects import key_of
from api.resources import WORKLOADS
from core.actions import Action, Create, Delete, Patch, Target, Wait, Write, Writes, first
from core.jobs import meta
from core.jobs.fields import Setting, at, changed
from core.jobs.template import merge_diff
from core.model import Raw
from core.multikueue import mirror
from core.multikueue.group import Group, Policy, Worker, earliest
from core.wire.finalizers import released
from core.wire.guard import guarded
from core.wire.timestamps import maybe_epoch, stamp

PREEMPTION_SECONDS: Final = 300.0
"""How long one worker alone may preempt others for a Workload, before the next one may."""
IN_PLACE: Final = frozenset({"priority", "priorityClassRef"})
"""The fields of a copy that are changed without creating it again."""

ThereRule = Callable[[Group, Worker], Action | None]


def decide(group: Group, worker: Worker) -> Action:
    """The first action that a rule asks for."""
    return first(RULES, group, worker) or Wait()


def unreachable(g: Group, w: Worker) -> Wait | None:
    """Nothing is written to a worker whose state is not known."""
    return None if w.connected else Wait()


def of_another(g: Group, w: Worker) -> Action | None:
    """The copy of an earlier Workload of that name is withdrawn with its job."""
    another = g.raw is not None and w.origin not in ("", meta.uid(g.raw))
    return (_withdrawn(w) or Wait()) if another else None


def rejected(g: Group, w: Worker) -> Action | None:
    """A Workload that may not run in another cluster is in none. One whose check is removed while it runs goes on."""
    if g.local is None:
        return None
    unwanted = not g.followed if g.check is None else g.kind is None or g.check.state == CheckState.REJECTED
    return (_withdrawn(w) or Wait()) if unwanted else None


def over(g: Group, w: Worker) -> Action | None:
    """A Workload that is gone, has finished or holds no quota is withdrawn from every worker."""
    return (_withdrawn(w) or Wait()) if g.over else None


def replaced(g: Group, w: Worker) -> Wait | None:
    """A slice of an elastic job that was replaced leaves in the workers what it has: the job is that of all slices."""
    done = g.local.condition(Condition.FINISHED) if g.local is not None and not g.local.deleting else None
    return Wait() if done is not None and done.reason == FinishedReason.WORKLOAD_SLICE_REPLACED else None


def evicted_here(g: Group, w: Worker) -> Action | None:
    """A Workload that was evicted here is deactivated in its worker, which stops its pods. Pods of a group are deleted
    by that, so the copy is withdrawn when none runs any more, and they are created again when it is offered again.
    """
    assert g.local is not None
    eviction = g.local.condition(Condition.EVICTED)
    if eviction is None or not eviction.status:
        return None
    if w.workload is None or not w.jobs or _is_idle(g, w):
        return _withdrawn(w) or Wait()
    if any(w.since(kind) is not None for kind in (Condition.EVICTED, Condition.DEACTIVATION_TARGET)):
        return Wait()
    target = {
        "type": Condition.DEACTIVATION_TARGET,
        "status": "True",
        "reason": EvictedReason.EVICTED_ON_MANAGER_CLUSTER,
        "message": f"Evicted on manager: {eviction.message}",
        "lastTransitionTime": stamp(g.now),
    }
    before = (w.workload.get("status") or {}).get("conditions") or ()
    conditions = [*(each for each in before if each["type"] != Condition.DEACTIVATION_TARGET), target]
    return Patch(guarded({"status": {"conditions": conditions}}, w.workload), "status", why="deactivate")


def _is_idle(g: Group, w: Worker) -> bool:
    """Whether the worker has evicted the Workload, and no pods of the job run there any more, as far as that is not
    reported here. What a malformed job shows is not waited for.
    """
    if g.kind is None or w.since(Condition.EVICTED) is None:
        return False
    if w.malformed:
        return True
    return g.kind.idle_in_worker(w.jobs, g.now) or (not g.kind.shows_end and w.since(Condition.QUOTA_RESERVED) is None)


def outdated(g: Group, w: Worker) -> Action | None:
    """A copy that differs from the Workload is withdrawn and created again; only its priority is changed in place, and
    the numbers of pods of an elastic job that has fewer now.

    One that has finished, or that the chosen worker has evicted, stays until that is known here. One that was finished
    because its job there was deleted does not stay where it is not needed.
    """
    assert g.local is not None
    if w.workload is None or g.raw is None or "deletionTimestamp" in w.workload["metadata"]:
        return None
    if w.job_gone and g.local.cluster_name != w.name:
        return _withdrawn(w)
    evicted = g.local.cluster_name == w.name and w.since(Condition.EVICTED) is not None
    if evicted or w.since(Condition.FINISHED) is not None:
        return Wait()
    wanted = mirror.workload(g.raw, g.policy)["spec"]
    differing = mirror.differing(wanted, w.workload["spec"])
    if wanted.get("active") is False or (g.local.cluster_name == w.name and w.since(Condition.ADMITTED) is not None):
        differing -= {"active"}  # an eviction follows, here or there, which ends the pods of the job first
    if differing <= {"priority"} and wanted.get("priorityClassRef"):
        return None  # the class of that name in the worker may have another value
    in_place = IN_PLACE | {"podSets"} if g.elastic and _shrinks(w.workload["spec"], wanted) else IN_PLACE
    if differing <= in_place:
        patch = {key: wanted.get(key) for key in sorted(differing)}
        return Patch(guarded({"spec": patch}, w.workload), why="follow") if patch else None
    return _withdrawn(w)


def chosen(g: Group, w: Worker) -> Action | None:
    """The chosen worker gets the job as soon as it admits the Workload, and loses pods of a group that are deleted
    here; the others lose their copies. A larger slice of an elastic job takes over the job that is there.
    """
    assert g.local is not None
    if not g.local.cluster_name:
        return None
    if g.local.cluster_name != w.name:
        return _withdrawn(w) or Wait()
    if g.kind is None or g.job is None or g.raw is None:
        return Wait()
    if w.workload is None:
        return (
            Create(mirror.workload(g.raw, replace(g.policy, orchestrated=False)), WORKLOADS, why="offer")
            if g.growing
            else Wait()
        )
    if w.since(Condition.ADMITTED) is None or meta.deleting(g.job) or meta.deleting(w.workload):
        return Wait()
    kind, parts = g.kind, {each["metadata"]["name"]: each for each in g.kind.parts(g.job)}
    unwanted = [each for each in w.jobs if not kind.made_for(parts.get(each["metadata"]["name"]), each)]
    if going := tuple(each for each in unwanted if not meta.deleting(each)):
        return Writes([_deletion(w, each) for each in going], why="withdraw")
    if w.former is not None:
        return _taken_over(g, w.former)
    there = {each["metadata"]["name"] for each in w.jobs}
    wanted = mirror.jobs(g.kind, g.job, g.raw, g.policy.origin)
    missing = tuple(each for each in wanted if each["metadata"]["name"] not in there)
    return (
        Writes([Create(each, kind.resource) for each in missing], why="begin")
        if missing
        else _forwarded(g, w) or Wait()
    )


def offered(g: Group, w: Worker) -> Action | None:
    """A worker that is nominated and that the MultiKueueConfig names gets a copy of the Workload; any other loses the
    one that it has.
    """
    assert g.local is not None and g.raw is not None
    if not g.unassigned:
        return None
    if not w.configured or w.name not in g.local.nominated:
        return _withdrawn(w)
    return _offered(g.raw, g.policy) if w.workload is None else None


def may_preempt(g: Group, w: Worker) -> Action | None:
    """Of the workers that could admit the Workload only by preemption the one that reported it first may, and five
    minutes later the next one.
    """
    if not g.policy.orchestrated or not g.unassigned or w.workload is None or not _is_blocked(w):
        return None
    before = earliest([each for each in g.workers if _is_blocked(each)], Condition.BLOCKED_ON_PREEMPTION_GATES)
    if before is None or before.name != w.name:  # ``w`` was read apart from them, without all that they have
        return Wait(PREEMPTION_SECONDS)
    opened = [since for each in g.workers if (since := _open_since(each)) is not None]
    left = max(opened) + PREEMPTION_SECONDS - g.now if opened else 0.0
    if left > 0:
        return Wait(left)
    others = [each for each in _gate_states(w) if each["name"] != PreemptionGate.MULTIKUEUE]
    gate = {
        "name": PreemptionGate.MULTIKUEUE,
        "position": GatePosition.OPEN,
        "lastTransitionTime": stamp(g.now),
    }
    return Patch(guarded({"status": {"preemptionGates": [*others, gate]}}, w.workload), "status", why="open gate")


RULES: tuple[ThereRule, ...] = (
    unreachable,
    of_another,
    rejected,
    replaced,
    over,
    evicted_here,
    outdated,
    chosen,
    offered,
    may_preempt,
)


def _forwarded(g: Group, w: Worker) -> Patch | None:
    """The change of the job in its worker that follows one of the job here."""
    assert g.kind is not None and g.job is not None
    theirs = {each["metadata"]["name"]: each for each in w.jobs}
    paths, sizes = g.kind.forwarded if g.policy.forwards else (), _sizes(g)
    for part in g.kind.parts(g.job) if paths or sizes else ():
        remote = theirs[part["metadata"]["name"]]
        if found := _with(g, remote, [*(Setting(path, at(part, path)) for path in paths), *sizes]):
            return found
    return None


def _taken_over(g: Group, remote: Raw) -> Patch | Wait:
    """The job in the worker gets the name of the larger slice and the number of pods that this is for, also if the job
    here has another one again.
    """
    assert g.kind is not None and g.job is not None and g.raw is not None
    sizes = _sizes(g)
    labels, annotations = g.kind.naming(g.job, g.raw["metadata"]["name"])
    kept = {key: value for key, value in meta.labels(remote).items() if key != Label.PREBUILT_WORKLOAD}
    named = {"labels": kept | labels, "annotations": meta.annotations(remote) | annotations}
    after = {**remote, "metadata": {**remote["metadata"], **named}}
    return (_with(g, remote, sizes, after) or Wait()) if sizes else Wait()


def _sizes(g: Group) -> list[Setting]:
    """The fields with the numbers of pods of an elastic job, as this slice is for."""
    assert g.kind is not None and g.job is not None and g.raw is not None
    return g.kind.sizes(g.job, g.raw["spec"]["podSets"]) if g.elastic else []


def _with(g: Group, remote: Raw, settings: Iterable[Setting], after: Raw | None = None) -> Patch | None:
    """The change that gives an object in a worker these fields."""
    assert g.kind is not None
    after = remote if after is None else after
    for setting in settings:
        after = changed(after, *setting)
    body = merge_diff(remote, after)
    if not body or meta.deleting(remote):
        return None
    return Patch(guarded(body, remote), target=Target(g.kind.resource, key_of(remote)), why="forward")


def _shrinks(before: Raw, after: Raw) -> bool:
    """Whether the pod sets of a Workload differ only in that there are fewer pods."""
    old, new = before.get("podSets") or [], after.get("podSets") or []
    counts = [(each["count"], other["count"]) for each, other in zip(old, new, strict=False)]
    same = [{**each, "count": 0} for each in old] == [{**each, "count": 0} for each in new]
    return same and all(less <= more for more, less in counts)


def _gate_states(w: Worker) -> list[Raw]:
    return list(((w.workload or {}).get("status") or {}).get("preemptionGates") or ())


def _open_since(w: Worker) -> float | None:
    """Since when the gate of the copy in a worker is open; None if it is closed."""
    gate = next((each for each in _gate_states(w) if each["name"] == PreemptionGate.MULTIKUEUE), None)
    if gate is None or gate["position"] != GatePosition.OPEN:
        return None
    return maybe_epoch(gate["lastTransitionTime"]) or 0.0


def _is_blocked(w: Worker) -> bool:
    """Whether the copy in a worker waits for its gate to preempt others."""
    return w.since(Condition.BLOCKED_ON_PREEMPTION_GATES) is not None and _open_since(w) is None


def _withdrawn(w: Worker) -> Writes | None:
    """Withdraws what a worker has: the objects of the job, then the Workload; None if that is nothing, or is being
    deleted.

    The finalizer of a copy that no job there has adopted is removed; otherwise the worker does that when the pods of
    the job are gone, so their quota is used until then.
    """
    steps: list[Write] = [_deletion(w, each) for each in w.own_jobs if not meta.deleting(each)]
    found = w.workload if w.workload is not None and not meta.deleting(w.workload) else None
    alone = w.workload is not None and not meta.controller(w.workload) and (found is not None or not w.own_jobs)
    if w.workload is not None and alone and (release := released(w.workload)):
        steps.append(Patch(release))
    if found is not None:
        steps.append(Delete(meta.uid(found)))
    return Writes(steps, why="withdraw") if steps else None


def _deletion(w: Worker, raw: Raw) -> Delete:
    resource = next(each for each in w.served if (each.api_version, each.kind) == (raw["apiVersion"], raw["kind"]))
    return Delete(meta.uid(raw), Target(resource, key_of(raw)))


def _offered(raw: Raw, policy: Policy) -> Create:
    return Create(mirror.workload(raw, policy), WORKLOADS, why="offer")
