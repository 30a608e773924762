"""Decides the next write about a parent and its variants: a chain of rules, of which the first that answers decides.

Variants wait in the queue and use quota, each in one flavor; the job is started by the parent, which has the admission
of the variant that runs. So no variant gives up quota before the parent has: the pods may still use it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from api import names
from api.names import AdmittedReason, Condition, EvictedReason, MigrationMode, PendingReason, PreemptionGate
from api.objects import key_of
from api.resources import WORKLOADS
from core.actions import Action, Create, Delete, Patch, Target, Wait, first, status
from core.jobs import meta
from core.jobs.workload import LONG_NAME, variant_name
from core.model import ClusterQueue, Key, Migration, Raw, Workload
from core.model.events import NORMAL, Event
from core.model.workload import replace
from core.scheduling.variants import acceptable, flavor_of, preference
from core.wire.conditions import without_condition
from core.wire.guard import guarded
from core.workload import transitions

PREEMPTION_SECONDS = 300.0
"""How long one variant alone may preempt others, before the next one may."""
_PRIORITY = ("priority", "priorityClassRef")
_FOLLOWED = ("queueName", *_PRIORITY)
"""The fields of a parent's spec that its waiting variants follow; one that holds quota follows the priority."""
_OWN = (
    names.Label.CONCURRENT_ADMISSION_PARENT,
    names.Label.JOB_UID,
    names.Label.MULTIKUEUE_ORIGIN,
    names.Annotation.ADMISSION_GATED_BY,
    names.Annotation.MULTIKUEUE_ORIGIN_UID,
)
"""The labels and annotations of a parent that its variants do not have. No variant is the copy of a manager cluster's
Workload: the manager would take it for one whose Workload is gone.
"""


@dataclass(frozen=True)
class VariantFamily:
    """A parent with its object, and its variants with theirs. ``evicting`` are variants whose eviction is decided but
    not written yet. ``refused`` are flavors for which a variant was refused a moment ago.
    """

    now: float
    parent: Workload
    raw: Raw
    queue: ClusterQueue
    members: tuple[tuple[Workload, Raw], ...] = ()
    evicting: frozenset[Key] = frozenset()
    refused: frozenset[str] = frozenset()
    longest_name: int = LONG_NAME

    @cached_property
    def variants(self) -> tuple[Workload, ...]:
        """The variants that are not being deleted, the preferred flavor first."""
        found = (each for each, _ in self.members if not each.deleting)
        return tuple(sorted(found, key=lambda each: (preference(each, self.queue), each.key)))

    @cached_property
    def admitted(self) -> Workload | None:
        """The admitted variant with the most preferred flavor; None if there is none that stays."""
        return next((each for each in self.variants if self._stays(each)), None)

    @property
    def migration(self) -> Migration:
        """The migration policy of the ClusterQueue."""
        return self.queue.migration or Migration()

    def _stays(self, variant: Workload) -> bool:
        evicted = variant.holds(Condition.EVICTED) or variant.key in self.evicting
        return _has_reservation(variant) and variant.holds(Condition.ADMITTED) and not evicted


VariantRule = Callable[[VariantFamily], Action | None]


def decide(family: VariantFamily) -> Action:
    """The first action that a rule asks for."""
    return first(RULES, family) or Wait()


def over(f: VariantFamily) -> Action | None:
    """The variants of a finished parent are finished; Kubernetes deletes those of a parent that is deleted."""
    done = f.parent.condition(Condition.FINISHED)
    if done is None or not done.status:
        return Wait() if f.parent.deleting else None
    left = (each for each in f.variants if not each.holds(Condition.FINISHED))
    ended = ((each, transitions.finished(each, done.reason, done.message, f.now)) for each in left)
    return next((action for each, after in ended if (action := _status(each, after))), Wait())


def marked(f: VariantFamily) -> Action | None:
    """A label shows that the Workload is a parent. One that was admitted itself, before the feature gate was on, runs
    to its end or eviction first: a parent uses no quota. A slice of an elastic job is admitted without variants.
    """
    if f.parent.parent:
        return None
    if f.parent.slice_name or (_has_reservation(f.parent) and not f.members):
        return Wait()
    label = {names.Label.CONCURRENT_ADMISSION_PARENT: "true"}
    return Patch(guarded({"metadata": {"labels": label}}, f.raw), why="mark")


def gated(f: VariantFamily) -> Action | None:
    """A parent that may not wait for quota, e.g. because of an admission gate, gets no variants yet."""
    return Wait() if (f.parent.gates or _kept_out(f.parent)) and not f.members else None


def created(f: VariantFamily) -> Action | None:
    """Each flavor has a variant, the preferred one first. While one is refused the parent does without that flavor."""
    known = {flavor_of(each) for each, _ in f.members} | f.refused
    missing = next((flavor for flavor in f.queue.flavors if flavor not in known), None)
    if missing is None:
        return None
    made = manifest(f.raw, missing, f.longest_name)
    text = f'Variant Workload "{key_of(made)}" created'
    event = Event(NORMAL, names.Event.CREATED_VARIANT, text)
    return Create(made, WORKLOADS, part=missing, why="create", events=(event,))


def stale(f: VariantFamily) -> Action | None:
    """A variant is deleted whose flavor the ClusterQueue does not have any more."""
    for each in f.variants:
        if (flavor := flavor_of(each)) not in f.queue.flavors:
            return _deleted(each, f'flavor "{flavor}" no longer in ClusterQueue')
    return None


def followed(f: VariantFamily) -> Action | None:
    """Variants follow the priority of their parent, and its queue while they hold no quota. One with which the parent
    does not run is created again if the pod sets have changed, or the queue while it holds quota.
    """
    specs = {each.key: raw["spec"] for each, raw in f.members}
    mine = f.raw["spec"]
    for each in f.variants:
        its, held = specs[each.key], _has_reservation(each)
        runs = _runs_with(f.parent, each)
        if not runs and its.get("podSets") != mine.get("podSets"):
            return _deleted(each, "the pod sets of its parent have changed")
        if not runs and held and its.get("queueName") != mine.get("queueName"):
            return _deleted(each, "the queue of its parent has changed")
        fields = _PRIORITY if held else _FOLLOWED
        if changes := {field: mine.get(field) for field in fields if its.get(field) != mine.get(field)}:
            return _changed(each, changes, "follow")
    return None


def permitted(f: VariantFamily) -> Action | None:
    """The gates that a variant has from its parent are open if those of the parent are: who opens them, e.g. a manager
    cluster, knows only the parent.
    """
    opened = {state.name: state for state in f.parent.gate_states if state.name != PreemptionGate.CONCURRENT_ADMISSION}
    for each in f.variants:
        if each.holds(Condition.FINISHED) or _has_reservation(each):  # it preempts nobody
            continue
        states = transitions.with_gate_states(each, f.now).gate_states
        after = tuple(
            replace(state, open=opened[state.name].open, since=f.now)
            if state.name in opened and state.open != opened[state.name].open
            else state
            for state in states
        )
        if after != states:
            return _status(each, replace(each, gate_states=after))
    return None


def evicted(f: VariantFamily) -> Action | None:
    """When the variant with which the parent runs is evicted, the parent is evicted; a variant gives up its quota when
    the parent has.
    """
    for each in f.variants:
        if not _has_reservation(each) or not each.holds(Condition.EVICTED):
            continue
        if not _runs_with(f.parent, each):
            return _status(each, transitions.released(each, f.now))
        if not f.parent.holds(Condition.EVICTED):
            return _parent_evicted(f, EvictedReason.VARIANT_EVICTED, "Admitted variant was evicted")
        return Wait()
    return None


def forgiven(f: VariantFamily) -> Action | None:
    """While the parent is inactive, its variants forget why they gave up: all wait again when it is activated."""
    for each in f.variants if not f.parent.active else ():
        eviction = each.condition(Condition.EVICTED)
        if each.active or eviction is None or not eviction.status or _gave_up(each) is None:
            continue
        kept = without_condition(each.conditions, Condition.DEACTIVATION_TARGET)
        reason, message = EvictedReason.DEACTIVATED, "The workload is deactivated"
        after = transitions.condition(
            replace(each, conditions=kept), eviction.type, status=True, reason=reason, message=message, now=f.now
        )
        return _status(each, after)
    return None


def activated(f: VariantFamily) -> Action | None:
    """Which variants wait or run: all while none is admitted, and else those to which the workload may migrate."""
    for each in f.variants:
        wanted, why = _wanted(f, each)
        if wanted == each.active or (wanted and _gave_up(each) is not None):
            continue
        word = "activated" if wanted else "deactivated"
        reason = names.Event.ACTIVATED_VARIANT if wanted else names.Event.DEACTIVATED_VARIANT
        event = Event(NORMAL, reason, f"Variant Workload {word} due to {why}")
        return _changed(each, {"active": wanted}, word, event)
    return None


def hopeless(f: VariantFamily) -> Action | None:
    """A parent whose variants all gave up is deactivated, with the cause of the preferred one."""
    if not f.parent.active or _has_reservation(f.parent) or f.parent.holds(Condition.DEACTIVATION_TARGET):
        return None
    whys = [(each, why) for each in f.variants if not each.active and (why := _gave_up(each)) is not None]
    if not whys or len(whys) < len(f.variants) or any(_has_reservation(each) for each in f.variants):
        return None
    after, old = f.parent, f.parent.condition(Condition.EVICTED)
    if old is not None and old.status:  # of an earlier eviction: the deactivation is reported as one of its own
        text = f"Previously: {old.message}"
        after = transitions.condition(after, old.type, status=False, reason=old.reason, message=text, now=f.now)
    message = "; ".join(f"{flavor_of(each)}: {text}" for each, (_, text) in whys)
    (_, (cause, _)), *_ = whys
    return _status(f.parent, transitions.deactivation_target(after, cause, f"its variants: {message}", f.now))


def orphaned(f: VariantFamily) -> Action | None:
    """A parent that runs without a variant that holds its quota is evicted."""
    if not _has_reservation(f.parent) or f.parent.holds(Condition.EVICTED):
        return None
    if running(f.parent, f.variants) is not None:
        return None
    return _parent_evicted(f, EvictedReason.CONCURRENT_ADMISSION, "No variant is running")


def admitted(f: VariantFamily) -> Action | None:
    """The parent is admitted with the admission of its variant."""
    variant = f.admitted
    if variant is None or variant.admission is None or _has_reservation(f.parent) or _kept_out(f.parent):
        return None
    after = transitions.reserved(f.parent, variant.admission, f.now)
    text = f"The variant {variant.key.name} is admitted"
    after = transitions.condition(
        after, Condition.ADMITTED, status=True, reason=AdmittedReason.ADMITTED, message=text, now=f.now
    )
    return _status(f.parent, after)


def ready(f: VariantFamily) -> Action | None:
    """The variant shows whether the pods of the parent are ready, because its timeout applies."""
    found, variant = f.parent.condition(Condition.PODS_READY), f.admitted
    if found is None or variant is None or not _runs_with(f.parent, variant):
        return None
    before = variant.condition(Condition.PODS_READY)
    if before is not None and (before.status, before.reason) == (found.status, found.reason):
        return None
    after = transitions.condition(
        variant, found.type, status=found.status, reason=found.reason, message=found.message, now=f.now
    )
    return _status(variant, after)


def blocked(f: VariantFamily) -> Action | None:
    """A parent that waits shows that a variant could be admitted only by preemption, while a gate of its own is closed:
    it is in no queue itself. No variant may preempt before that gate is open.
    """
    if not f.parent.closed_gates or _has_reservation(f.parent):
        return None
    waiting = (each for each in f.variants if each.active and not each.holds(Condition.FINISHED))
    found = next((each for each in waiting if each.holds(Condition.BLOCKED_ON_PREEMPTION_GATES)), None)
    if found is None:
        return None
    if f.parent.holds(Condition.BLOCKED_ON_PREEMPTION_GATES):
        return Wait()
    condition = found.condition(Condition.BLOCKED_ON_PREEMPTION_GATES)
    text = condition.message if condition is not None else ""
    after = transitions.with_gate_states(f.parent, f.now)
    return _status(f.parent, transitions.preemption_gated(after, text, f.now))


def may_preempt(f: VariantFamily) -> Action | None:
    """Of the variants that could be admitted only by preemption, the one with the most preferred flavor may preempt,
    and five minutes later the next one. No gate is opened before all variants before it were decided.
    """
    waiting = [each for each in f.variants if each.active and not each.holds(Condition.FINISHED)]
    candidate = None
    for each in waiting:
        if _opened(each) is not None:
            continue
        if each.holds(Condition.BLOCKED_ON_PREEMPTION_GATES):
            candidate = each
            break
        reserved = each.condition(Condition.QUOTA_RESERVED)
        if reserved is None or reserved.reason == PendingReason.PENDING_EVALUATION:
            return None
    if candidate is None:
        return None
    since = [at for each in waiting if (at := _opened(each)) is not None]
    left = max(since) + PREEMPTION_SECONDS - f.now if since else 0.0
    if left > 0:
        return Wait(left)
    states = transitions.with_gate_states(candidate, f.now).gate_states
    opened = tuple(
        replace(state, open=True, since=f.now) if state.name == PreemptionGate.CONCURRENT_ADMISSION else state
        for state in states
    )
    text = f'Opened preemption gate for variant workload "{candidate.key}"'
    event = Event(NORMAL, names.Event.PREEMPTION_UNGATED_VARIANT, text)
    return _status(candidate, replace(candidate, gate_states=opened), event)


RULES: tuple[VariantRule, ...] = (
    over,
    marked,
    gated,
    stale,
    created,
    followed,
    permitted,
    evicted,
    forgiven,
    activated,
    hopeless,
    orphaned,
    admitted,
    ready,
    blocked,
    may_preempt,
)


def manifest(raw: Raw, flavor: str, longest: int = LONG_NAME) -> Raw:
    """Returns the variant of a parent for a flavor, with a gate that keeps it from preempting others."""
    metadata, spec = raw["metadata"], raw["spec"]
    gates = [*(spec.get("preemptionGates") or ()), {"name": PreemptionGate.CONCURRENT_ADMISSION}]
    owner = meta.owner_reference(names.API_VERSION, names.Kind.WORKLOAD, raw)
    kept = {key: value for key, value in meta.annotations(raw).items() if key not in _OWN}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.Kind.WORKLOAD,
        "metadata": {
            "name": variant_name(metadata["name"], metadata["uid"], flavor, longest=longest),
            "namespace": metadata["namespace"],
            "labels": {key: value for key, value in meta.labels(raw).items() if key not in _OWN},
            "annotations": {**kept, names.Annotation.ALLOWED_RESOURCE_FLAVORS: flavor},
            "ownerReferences": [owner],
        },
        "spec": {**spec, "active": True, "preemptionGates": gates},
    }


def running(parent: Workload, variants: Iterable[Workload]) -> Workload | None:
    """The variant with which a parent runs; None if there is none."""
    return next((each for each in variants if _has_reservation(each) and _runs_with(parent, each)), None)


def _wanted(f: VariantFamily, variant: Workload) -> tuple[bool, str]:
    """Whether a variant is to be active, and why."""
    if why := _kept_out(f.parent):
        return False, f'Parent Workload "{f.parent.key}" {why}'
    if f.admitted is None:
        return True, "no other Variant being admitted"
    if variant.key == f.admitted.key:
        return True, "being admitted"
    named, last = f'"{f.admitted.key}"', f.migration.last_acceptable
    if f.migration.mode == MigrationMode.RETAIN_FIRST_ADMISSION:
        return False, f"RetainFirstAdmission: another Variant {named} is admitted"
    if not acceptable(variant, f.queue, last):
        return False, f'being below lastAcceptableFlavor: "{last}" and another Variant admitted {named}'
    if preference(variant, f.queue) > preference(f.admitted, f.queue):
        return False, f"being lower priority than admitted Variant {named}"
    return True, f"being higher priority than admitted Variant {named}"


def _kept_out(parent: Workload) -> str:
    """Why a parent may not wait for quota, and so its variants may not; '' if it may, or runs."""
    if not parent.active:
        return "not active"
    reserved = parent.condition(Condition.QUOTA_RESERVED)
    if reserved is not None and not reserved.status and reserved.reason == PendingReason.ON_HOLD:
        return "on hold"
    if not _has_reservation(parent) and parent.holds(Condition.WAITING_FOR_REPLACEMENT_PODS):
        return "waiting for replacement pods"
    return ""


def _gave_up(variant: Workload) -> tuple[str, str] | None:
    """The cause and message with which a variant was deactivated for a cause of its own, e.g. a rejected check, if it
    was: activated again, it would only be rejected again.
    """
    eviction, target = variant.condition(Condition.EVICTED), variant.condition(Condition.DEACTIVATION_TARGET)
    if target is not None and target.status:
        return target.reason, target.message
    due = f"{EvictedReason.DEACTIVATED}{EvictedReason.DUE_TO}"
    if eviction is None or not eviction.reason.startswith(due):
        return None
    return eviction.reason.removeprefix(due), eviction.message.removeprefix("The workload is deactivated due to ")


def _parent_evicted(f: VariantFamily, reason: str, message: str) -> Action | None:
    after = transitions.evicted(f.parent, reason, message, f.now)
    return _status(f.parent, after, Event(NORMAL, f"{names.Event.EVICTED_DUE_TO}{reason}", message))


def _has_reservation(workload: Workload) -> bool:
    return workload.holds(Condition.QUOTA_RESERVED)


def _runs_with(parent: Workload, variant: Workload) -> bool:
    """Whether the parent is admitted with the admission of this variant."""
    return _has_reservation(parent) and parent.admission is not None and parent.admission == variant.admission


def _opened(variant: Workload) -> float | None:
    """Since when the gate of a variant is open; None if it is closed."""
    name = PreemptionGate.CONCURRENT_ADMISSION
    return next((state.since for state in variant.gate_states if state.name == name and state.open), None)


def _deleted(variant: Workload, why: str) -> Delete:
    text = f'Variant Workload "{variant.key}" deleted; {why}'
    event = Event(NORMAL, names.Event.DELETED_VARIANT, text)
    return Delete(variant.uid, Target(WORKLOADS, variant.key), why="delete", events=(event,))


def _changed(variant: Workload, spec: Raw, why: str, *events: Event) -> Patch:
    """Returns a patch of a variant's spec; ``events`` are emitted on the variant."""
    at = Target(WORKLOADS, variant.key)
    return Patch(guarded({"spec": spec}, variant), target=at, why=why, target_events=events)


def _status(of: Workload, after: Workload, *events: Event) -> Patch | None:
    """Returns a patch of the status of the parent or of a variant, on which ``events`` are emitted."""
    found = status(of, after, "status", target=Target(WORKLOADS, of.key))
    return dataclasses.replace(found, target_events=events) if found is not None else None
