"""Decides the next write about a Workload in this cluster: a chain of rules, of which the first that answers decides.

A worker is chosen once, in the same write that makes the check ready and admits the Workload here, and its job is
created only afterwards (``core.multikueue.there``): so the job never runs in two workers that admit it at the same
moment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from api import names
from api.names import MULTIKUEUE_CONTROLLER, CheckState, Condition, FinishedReason
from api.objects import key_of
from core.actions import Action, Patch, Target, Wait, first, status
from core.jobs import meta
from core.jobs.template import merge_diff
from core.model import CheckState as State
from core.model import Raw, Workload
from core.model.events import NORMAL, WARNING, Event, admitted_by_checks
from core.model.workload import replace
from core.multikueue.dispatch import nominated
from core.multikueue.group import Group, Worker, earliest
from core.multikueue.hopeless import NO_WORKER, sentence
from core.multikueue.shape import MALFORMED
from core.wire.active import condition_of
from core.wire.guard import guarded
from core.workload import transitions

UNSEEN_SECONDS = 10.0
"""How long the status of a finished job is waited for, which arrives by another watch than that of its Workload."""


AWAITED_SECONDS = 30.0
"""When a group is looked at again that waits for the first one of its object."""
REFUSED_SECONDS = 60.0
"""How long a worker that admitted the Workload may refuse its job."""


Why = Literal[
    "reject", "retry", "out of sync", "refused", "admit", "nominate", "record", "hopeless", "finish", "release", "copy"
]


WARNS: frozenset[Why] = frozenset({"out of sync", "refused", "hopeless"})
"""The updates whose event is a warning."""
HereRule = Callable[[Group], Action | None]


def decide(group: Group) -> Action:
    """The first action that a rule asks for."""
    if group.local is None or not group.followed:
        return Wait()
    group = dataclasses.replace(group, workers=group.offered)
    return first(RULES if group.check is not None and group.configured else WITHOUT_CONFIG, group) or Wait()


def unsupported(g: Group) -> Action | None:
    """A job that cannot run in another cluster, or that the controller of this cluster runs, is rejected."""
    assert g.local is not None and g.check is not None
    ran = g.local.holds(Condition.EVICTED) and g.local.holds(Condition.ADMITTED)
    if g.local.deleting or g.local.holds(Condition.FINISHED) or ran:
        return None
    if g.check.state == CheckState.REJECTED:
        return Wait()
    if g.kind is None:
        named = f' for owner kind "{g.owner}"' if g.owner else ""
        return _checked(g, CheckState.REJECTED, f"No multikueue adapter found{named}", "reject")
    if g.job is None:
        return Wait()
    if g.kind.left(g.job):
        return None
    by = g.kind.manager(g.job)
    path = ".".join(map(str, g.kind.managed_by or ()))
    text = f'The owner is not managed by Kueue: Expecting {path} to be "{MULTIKUEUE_CONTROLLER}" not "{by}"'
    return _checked(g, CheckState.REJECTED, text, "reject")


def over(g: Group) -> Action | None:
    """A Workload that has finished or holds no quota needs nothing here. One that is being deleted stays until the pods
    of its job have ended.
    """
    if not g.over:
        return None
    assert g.local is not None
    return _leaving(g) if g.local.deleting and not g.local.holds(Condition.FINISHED) else Wait()


def finished_there(g: Group) -> Action | None:
    """When the Workload has finished in a worker, the job's status is copied, and then it is finished here."""
    assert g.local is not None
    worker = _chosen(g, Condition.FINISHED)
    found = condition_of(worker.workload, Condition.FINISHED) if worker is not None else None
    if worker is None or found is None or _ended_by_eviction(g, worker) or _job_lost(g, worker):
        return None
    if found["reason"] == FinishedReason.OUT_OF_SYNC:
        if not g.assigned:
            return Wait()
        text = f'Remote workload on worker cluster "{worker.name}" is out of sync with its user job, '
        return _checked(g, CheckState.RETRY, f"{text}resetting for re-dispatch", "out of sync", emits=True)
    if found["reason"] == FinishedReason.WORKLOAD_SLICE_REPLACED:
        return Wait() if g.successor is not None or g.check is None else _gone(g)
    if copy := _status_of(g, worker):
        return copy
    since = worker.since(Condition.FINISHED) or 0.0
    wait = since + UNSEEN_SECONDS - g.now
    if wait > 0 and _ends_later(g, worker):
        return Wait(wait)
    after = transitions.finished(g.local, found["reason"], found.get("message", ""), g.now)
    return _update(g, after, "finish")


def evicted_there(g: Group) -> Action | None:
    """A worker has evicted the Workload: it is evicted here too, and queued again."""
    assert g.local is not None and g.check is not None
    worker = _chosen(g, Condition.EVICTED)
    if worker is None:
        return None
    if g.local.holds(Condition.EVICTED):
        return _status_of(g, worker) or Wait()
    if not g.assigned:
        return None
    text = f'Workload evicted on worker cluster: "{worker.name}", resetting for re-admission. '
    return _checked(g, CheckState.RETRY, f'{text}Previously: "{g.check.state}"', "retry", emits=True, previously=False)


def evicted_here(g: Group) -> Action | None:
    """The Workload was evicted here: the job's status shows when its pods in the worker have ended, or else its quota
    is released here when that worker has nothing of it.
    """
    assert g.local is not None
    return _leaving(g) if g.local.holds(Condition.EVICTED) else None


def _leaving(g: Group) -> Action:
    """Shows in the job's status whether it has pods in a worker. A lost worker is waited for only if it may have the
    job.
    """
    running = next((each for each in g.workers if each.own_jobs or _may_have_pods(g, each)), None)
    if running is not None:
        return _status_of(g, running) or Wait()
    lost = [each for each in g.workers if not each.connected and each.name in (g.ran or each.name,)]
    waits = [left for each in lost if (left := _left(g, each)) > 0]
    return Wait(min(waits)) if waits else _cleared(g) or _released(g) or Wait()


def _may_have_pods(g: Group, w: Worker) -> bool:
    """Whether pods of a job that is gone may be left in a worker: its copy stays until they have ended."""
    if w.workload is None or g.ran:
        return w.workload is not None and w.name == g.ran
    return meta.controller(w.workload) is not None or (g.kind is not None and not g.kind.shows_end)


def _released(g: Group) -> Action | None:
    """Releases the quota of a Workload that has run, if nothing here shows when its pods have ended."""
    assert g.local is not None
    shown = g.kind is not None and g.kind.shows_end
    if shown or not g.local.holds(Condition.ADMITTED):
        return None
    return _update(g, transitions.released(g.local, g.now), "release")


def lost(g: Group) -> Action | None:
    """A Workload whose worker is lost stays admitted for ``workerLostTimeout``; one that its worker has no more, or
    whose job was deleted there, is queued again immediately. Kueue finishes the latter, although it never ended. If no
    worker is recorded, as by versions of Kueue without ``clusterName``, it is the one that admits the Workload.
    """
    assert g.local is not None and g.check is not None
    if not g.assigned:
        return None
    name = g.local.cluster_name
    if not name:
        if (found := earliest([each for each in g.configured if not each.leaves], Condition.ADMITTED)) is not None:
            return _update(g, replace(g.local, cluster_name=found.name, nominated=()), "record")
        text = "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it"
        return _checked(g, CheckState.RETRY, text, "retry")
    worker = next((each for each in g.configured if each.name == name), None)
    if worker is not None and not worker.connected:
        left = _left(g, worker)
        return Wait(left) if left > 0 else _checked(g, CheckState.RETRY, "Admitting remote lost", "retry")
    if worker is None or (worker.since(Condition.ADMITTED) is None and not g.growing) or _job_lost(g, worker):
        return _gone(g)
    return None


def refused_there(g: Group) -> Action | None:
    """A Workload whose worker admits it but does not take its job, or serves a malformed one, is queued again after a
    minute.
    """
    assert g.local is not None and g.check is not None
    worker = g.worker(g.local.cluster_name)
    if not g.assigned or worker is None or not worker.job_refused:
        return None
    if g.kind is None or g.job is None:
        return None
    if len(worker.jobs) >= len(list(g.kind.parts(g.job))) and not worker.malformed:
        return None
    wait = worker.job_refused_since + REFUSED_SECONDS - g.now
    text = f'Worker cluster "{worker.name}" {worker.malformed or f"does not take the job: {worker.job_refused}"}'
    return Wait(wait) if wait > 0 else _checked(g, CheckState.RETRY, text, "refused", emits=True)


def awaited(g: Group) -> Action | None:
    """The groups of an object run in one worker: only the first is offered to all of them. Not every change of the
    first one is heard, so it is looked again.
    """
    return Wait(AWAITED_SECONDS) if g.unassigned and g.awaits_another else None


def admitted_there(g: Group) -> Action | None:
    """The first worker that admits the Workload is the one in which it runs. It stays the one if the check is added
    again while the job runs. The same write admits the Workload here, unless another check is not ready, or is asked
    for by now and not in its status yet.
    """
    assert g.local is not None and g.check is not None
    if g.check.state != CheckState.PENDING or not (g.unassigned or g.assigned):
        return None
    asked = (g.local.cluster_name,) if g.assigned else (g.place,) if g.place else g.local.nominated
    stays = [each for each in g.configured if each.name in asked and not each.leaves]
    if (worker := earliest(stays, Condition.ADMITTED)) is None:
        return None
    message = f'The workload was admitted on "{worker.name}"'
    after = replace(_with(g, CheckState.READY, message), cluster_name=worker.name, nominated=())
    after = transitions.placed_elsewhere(after)
    known = {each.name for each in after.checks}.issuperset(g.required)
    if known and transitions.checks_ready(after) and after.active and not after.holds(Condition.DEACTIVATION_TARGET):
        after = transitions.admitted_in_step(after, g.now)
        after = transitions.pods_awaited(after, g.now) if g.policy.follows_pods else after
    return _update(g, after, "admit", message)


def running_there(g: Group) -> Action | None:
    """The job here shows the status of the job in the worker."""
    assert g.local is not None
    worker = g.worker(g.local.cluster_name)
    return _status_of(g, worker) if worker is not None else None


def grown(g: Group) -> Action | None:
    """A larger slice of an elastic job goes to the worker that has the job; while that one is not known, to none."""
    assert g.local is not None
    if not g.unassigned or g.replaced is None or not _has_job(g.replaced):
        return None
    name = g.replaced.cluster_name
    return _update(g, replace(g.local, cluster_name=name, nominated=()), "nominate") if name else Wait()


def offered(g: Group) -> Action | None:
    """While no worker was chosen, the dispatcher decides to which ones the Workload is offered."""
    assert g.local is not None
    found = nominated(g) if g.unassigned else None
    if isinstance(found, float):
        return Wait(found)
    return _update(g, replace(g.local, nominated=found), "nominate") if found is not None else None


def hopeless(g: Group) -> Action | None:
    """Reports on the check when no worker could ever admit the Workload, and why; Kueue reports nothing."""
    assert g.local is not None and g.check is not None
    if not g.unassigned or not g.configured:
        return None
    reasons = {each.name: each.hopeless for each in g.configured if each.hopeless}
    none_left = len(reasons) == len(g.configured)
    message = sentence(reasons) if none_left else ""
    if message == g.check.message or not (none_left or g.check.message.startswith(NO_WORKER)):
        return None
    return _update(g, _with(g, g.check.state, message, g.check.since), "hopeless", message)


RULES: tuple[HereRule, ...] = (
    unsupported,
    over,
    finished_there,
    evicted_there,
    evicted_here,
    lost,
    refused_there,
    awaited,
    admitted_there,
    running_there,
    grown,
    offered,
    hopeless,
)
WITHOUT_CONFIG: tuple[HereRule, ...] = (over, finished_there, evicted_here, running_there)
"""The rules for a Workload whose check, or its MultiKueueConfig, is removed while it runs in a worker."""


def _has_job(w: Workload) -> bool:
    """Whether a slice may have the job in a worker: it holds quota, or another one has taken it over."""
    done = w.condition(Condition.FINISHED)
    if done is not None and done.status:
        return done.reason == FinishedReason.WORKLOAD_SLICE_REPLACED
    return w.holds(Condition.QUOTA_RESERVED)


def _gone(g: Group) -> Action | None:
    return _checked(g, CheckState.RETRY, "Admitting remote no longer exists", "retry")


def _chosen(g: Group, condition: str) -> Worker | None:
    """The worker that was chosen, or else the first, if that condition of the Workload is True there."""
    assert g.local is not None
    name = g.local.cluster_name
    return earliest([each for each in g.workers if not name or each.name == name], condition)


def _ended_by_eviction(g: Group, worker: Worker) -> bool:
    """Whether the Workload has finished in a worker only because it was evicted there, which deletes a pod. Without a
    check one that was evicted only there is not queued again.
    """
    assert g.local is not None
    again = g.check is not None or g.local.holds(Condition.EVICTED)
    if not again or g.kind is None or g.kind.managed_by is not None or worker.since(Condition.EVICTED) is None:
        return False
    return not worker.jobs or any(map(g.kind.stopped_in_worker, worker.jobs))


def _job_lost(g: Group, worker: Worker) -> bool:
    """Whether the job was deleted in a worker before it had ended, as far as its status here shows."""
    if g.check is None or g.kind is None or g.job is None or not worker.job_gone:
        return False
    return not g.kind.ended_in_worker(g.kind.parts(g.job), g.now)


def _status_of(g: Group, worker: Worker) -> Patch | None:
    """Copies the status of the first object of the job that differs from that in the worker."""
    if g.kind is None or g.job is None:
        return None
    there = {each["metadata"]["name"]: each for each in worker.jobs}
    for part in g.kind.parts(g.job):
        remote = there.get(part["metadata"]["name"])
        made = remote is not None and MALFORMED not in remote and g.kind.made_for(part, remote)
        wanted = g.kind.status_from_worker(part, remote) if remote is not None and made else None
        changes = merge_diff(part.get("status") or {}, wanted) if wanted is not None else {}
        if changes:
            return _copied(g, part, changes)
    return None


def _copied(g: Group, part: Raw, changes: Raw) -> Patch:
    assert g.kind is not None
    return Patch(
        guarded({"status": changes}, part, version=False), "status", Target(g.kind.resource, key_of(part)), why="copy"
    )


def _cleared(g: Group) -> Patch | None:
    """The job of an evicted Workload that no worker has any more, or whose worker is lost, has no pods."""
    found = g.kind.shown(g.job, g.related) if g.kind is not None and g.job is not None else None
    return _copied(g, found[0], found[1]) if found is not None else None


def _left(g: Group, worker: Worker) -> float:
    """For how many seconds the job in a lost worker is taken to run on."""
    since = worker.lost_since if worker.lost_since is not None else g.now
    return since + g.policy.worker_lost_timeout - g.now


def _ends_later(g: Group, worker: Worker) -> bool:
    """Whether the job in the worker has not ended by its status although its Workload has finished with its end."""
    found = condition_of(worker.workload, Condition.FINISHED)
    if g.kind is None or not worker.jobs or found is None:
        return False
    ended = found["reason"] in (FinishedReason.SUCCEEDED, FinishedReason.FAILED)
    return ended and g.kind.ended_in_worker(worker.jobs, g.now) is False


def _with(g: Group, state: str, message: str, since: float | None = None) -> Workload:
    assert g.local is not None and g.check is not None
    text = message[: names.CONDITION_MESSAGE_LIMIT]
    since = g.now if since is None else since
    new = State(g.check.name, state, text, since, g.check.retry_count, g.check.requeue_after)
    return replace(g.local, checks=tuple(new if each.name == new.name else each for each in g.local.checks))


def _checked(
    g: Group, state: str, message: str, why: Why, *, emits: bool = False, previously: bool = True
) -> Action | None:
    assert g.check is not None
    text = f'{message}, Previously: "{g.check.state}"' if previously else message
    return _update(g, _with(g, state, text), why, text if emits else "")


def _update(g: Group, after: Workload, why: Why, message: str = "") -> Patch | None:
    """Returns the write that changes the status; ``message`` is that of an event."""
    assert g.local is not None
    emitted = [Event(WARNING if why in WARNS else NORMAL, names.Event.MULTIKUEUE, message)] if message else []
    begins = after.holds(Condition.ADMITTED) and not g.local.holds(Condition.ADMITTED)
    if why == "admit" and begins and after.admission is not None:
        emitted.append(admitted_by_checks(after, g.now))
    return status(g.local, after, why, *emitted)
