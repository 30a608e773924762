"""Admission of jobs: forced suspension and defaults on create, validation and feedback on create and update.

Pure functions of the request, the settings and the caches. Suspension depends on the request only: a job with a queue
name starts suspended, regardless of its client and of the state of the caches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import orjson

from api import names
from api.errors import FieldError, forbidden, invalid
from api.names import Annotation, Condition, Label
from api.objects import Resource
from core.feedback import Finding, PodSpec, Submission, news, submission
from core.feedback.change import Change
from core.feedback.fixed import again, fixed, of_pods, other_programs
from core.feedback.jobs import OF_NOW, of_job
from core.feedback.keys import Keys, of_keys
from core.feedback.rules import closest, fitted
from core.feedback.submission import OF_JOB
from core.jobs import elastic, meta, owners, template
from core.jobs.admission import metadata, running
from core.jobs.fields import Path, Setting, at, dotted
from core.jobs.kind import JobKind
from core.matching import namespaces
from core.model import Key, Raw, Workload
from core.model.owner import Level, Reference, reference
from core.quota.usage import holds_quota
from core.wire import decode
from webhook import expressions, patch
from webhook.patch import Operation
from webhook.policy import PolicyVerdict, judge
from webhook.review import Request, Response, allow, bad_request, refuse
from webhook.settings import Context


def mutate(kind: JobKind, request: Request, context: Context) -> Response:
    """Sets default queue, default priority class, suspension; returns no operation for values that are set already.

    A waiting job stays suspended when an update unsuspends it, with a warning: a manifest with ``suspend: false`` can
    be applied repeatedly, as GitOps tools do.
    """
    if request.operation == "UPDATE":
        found = _kept_suspended(kind, request, context) or allow(patch=_resized(kind, request, context))
        if not found.allowed:
            return found
        found = replace(found, patch=found.patch + _keep_nodes(kind, request, found, context))
        return replace(found, patch=found.patch + _keep_user(request, found, context))
    if request.operation != "CREATE":
        return allow()
    job = request.new()
    errors = kind.form.errors(job)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    if kind.skip(job) or not kind.covers(job, context.settings.frameworks):
        return allow()
    defaulted, operations = _defaults(kind, job, request, context)
    if _to_be_queued(defaulted, request, context):
        return allow(patch=operations)
    return _of_keys(kind, None, job, request, context).response(patch=operations)  # it is not used again


def _defaults(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Raw, tuple[Operation, ...]]:
    """Returns the job with its defaults, each of which sees the ones before, and the operations that add them."""
    operations: tuple[Operation, ...] = ()
    steps = (_default_queue, _default_priority_class, _suspension, _elastic_gate, _managed_by, _of_the_kind, _user)
    for default in steps:
        found = default(kind, job, request, context)
        job, operations = patch.apply(job, found), operations + found
    return job, operations


def _default_queue(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    return _queue(job, request, context)


def _queue(job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    if meta.queue_name(job) or not (default_queue(request.namespace, context) and managed(request.namespace, context)):
        return ()
    if _queued_by_owner(job, request, context) or Annotation.POD_SUSPENDING_PARENT in meta.annotations(job):
        return ()
    return patch.add(job, ("metadata", "labels", Label.QUEUE_NAME), names.DEFAULT_LOCAL_QUEUE)


def _default_priority_class(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    return _class(job, request, context)


def _class(job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    if not context.settings.enabled("WorkloadPriorityClassDefaulting") or meta.priority_class(job):
        return ()
    if not _to_be_queued(job, request, context) or _queued_by_owner(job, request, context):
        return ()
    if context.lookup.priority_class(names.DEFAULT_WORKLOAD_PRIORITY_CLASS) is None:
        return ()
    path = ("metadata", "labels", Label.PRIORITY_CLASS)
    return patch.add(job, path, names.DEFAULT_WORKLOAD_PRIORITY_CLASS)


def _suspension(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    if meta.deleting(job) or not _to_be_queued(job, request, context):
        return ()
    follows = _runs_with_owner if kind.nested else _queued_by_owner
    if follows(job, request, context):
        return ()
    operations = _set(job, kind.hold(job))
    return operations + settings_patch(patch.apply(job, operations), kind.on_queueing(job, context.settings.enabled))


def _elastic_gate(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    """The pods of an elastic job wait with a scheduling gate: there may be more of them than are admitted."""
    if not _is_elastic(kind, job, context) or not _to_be_queued(job, request, context):
        return ()
    if meta.deleting(job) or _queued_by_owner(job, request, context):
        return ()
    operations: tuple[Operation, ...] = ()
    for path, gates in _gates(kind, job):
        operations += _set(patch.apply(job, operations), Setting(path, elastic.with_gate(gates)))
    return operations


def _gates(kind: JobKind, job: Raw) -> list[tuple[Path, list[Raw]]]:
    """The path and value of the scheduling gates of each pod template that the job has."""
    paths = [(*slot.path, "spec", "schedulingGates") for slot in kind.slots(job) if at(job, slot.path)]
    return [(path, at(job, path) or []) for path in paths]


def _is_elastic(kind: JobKind, job: Raw, context: Context) -> bool:
    return kind.elastic and metadata.elastic(job, context.settings.enabled)


def _ungated(kind: JobKind, old: Raw, new: Raw, context: Context) -> list[FieldError]:
    """Refuses pods without the scheduling gate in an elastic job whose pods have it: they would start immediately."""
    if not _is_elastic(kind, old, context):
        return []
    before = dict(_gates(kind, old))
    if not any(map(template.is_gated, before.values())):
        return []
    text = f"an elastic job must have the scheduling gate {elastic.GATE}"
    return [
        forbidden(dotted(path), text)
        for path, gates in _gates(kind, new)
        if not template.is_gated(gates) and (path not in before or template.is_gated(before[path]))
    ]


def _managed_by(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    """A job whose ClusterQueue has a MultiKueue check is left to the worker clusters, as in Kueue."""
    named = kind.manager(job) not in ("", kind.own_controller)
    if kind.managed_by is None or named or not context.settings.enabled("MultiKueue"):
        return ()
    queue = context.lookup.local_queue(Key(request.namespace, meta.queue_name(job)))
    cluster_queue = context.lookup.cluster_queue(queue.cluster_queue) if queue is not None else None
    checks = (context.lookup.admission_check(rule.name) for rule in (cluster_queue.checks if cluster_queue else ()))
    if not any(check is not None and check.controller_name == names.MULTIKUEUE_CONTROLLER for check in checks):
        return ()
    return _set(job, Setting(kind.managed_by, names.MULTIKUEUE_CONTROLLER))


def _of_the_kind(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    return settings_patch(job, kind.defaults(job, context.settings.enabled))


def _user(kind: JobKind, job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    """The name of the user who queues the job, for the history: whatever the client has written there is replaced."""
    if not context.settings.records_users or not is_queued(job, request, context):
        return ()
    return patch.add(job, ("metadata", "annotations", Annotation.QUEUED_BY), request.username)


def _keep_nodes(kind: JobKind, request: Request, found: Response, context: Context) -> tuple[Operation, ...]:
    """Puts back the nodes of its flavors that an update leaves out of a job that runs: a list of a custom resource,
    like the groups of a RayCluster, is replaced as a whole by each ``kubectl apply`` of its manifest.
    """
    old, new = request.old(), request.new()
    if kind.form.errors(new) or kind.form.errors(old):  # validation will report them
        return ()
    workload, new = _with_quota(new, request, context), patch.apply(new, found.patch)
    if workload is None:
        return ()
    return settings_patch(new, running.left_out(kind, old, new, workload, context.lookup.flavor))


def _keep_user(request: Request, found: Response, context: Context) -> tuple[Operation, ...]:
    """Restores the name of the user who queued the job if an update changes or removes it, as each server-side apply of
    a manifest does; a job that is queued by the update gets the name of its user.
    """
    if not context.settings.records_users:
        return ()
    old, new = request.old(), patch.apply(request.new(), found.patch)
    path = ("metadata", "annotations", Annotation.QUEUED_BY)
    name = meta.annotations(old).get(Annotation.QUEUED_BY)
    if not _to_be_queued(old, request, context):
        if not is_queued(new, request, context) or context.account().wrote(request):
            return ()
        name = request.username
    if name is not None:
        return patch.add(new, path, name)
    return (Operation("remove", path),) if Annotation.QUEUED_BY in meta.annotations(new) else ()


def default_queue_and_class(job: Raw, request: Request, context: Context) -> tuple[Operation, ...]:
    """Returns the operations that set the default queue and the default priority class of an object of any kind."""
    queue = _queue(job, request, context)
    return queue + _class(patch.apply(job, queue), request, context)


def is_queued(job: Raw, request: Request, context: Context) -> bool:
    """Whether an object is to be queued itself, and no object above it is."""
    return _to_be_queued(job, request, context) and not _queued_by_owner(job, request, context)


def settings_patch(job: Raw, settings: Iterable[Setting]) -> tuple[Operation, ...]:
    """Returns the operations that give an object these fields."""
    operations: tuple[Operation, ...] = ()
    for setting in settings:
        operations += _set(patch.apply(job, operations), setting)
    return operations


def _set(job: Raw, setting: Setting) -> tuple[Operation, ...]:
    return patch.add(job, tuple(map(str, setting.path)), setting.value)


def _resized(kind: JobKind, request: Request, context: Context) -> tuple[Operation, ...]:
    """A running job that is to have more pods is suspended in the same write, else they run before it is stopped.

    With fewer pods it runs on until the controller stops it; it never uses more than it was admitted with.
    """
    old, new = request.old(), request.new()
    if kind.form.errors(new) or kind.form.errors(old):  # validation will report them
        return ()
    if not _is_running(kind, old, new) or not _grows(kind, old, new) or context.account().wrote(request):
        return ()
    if not _to_be_queued(new, request, context) or _queued_by_owner(old, request, context):
        return ()
    if _is_elastic(kind, old, context) and all(template.is_gated(gates) for _, gates in _gates(kind, old)):
        return ()
    return _set(new, kind.hold(new))


def _runs_with_owner(job: Raw, request: Request, context: Context) -> bool:
    """Whether an object above the job is queued instead of it and the job need not be suspended.

    Below an object of an external framework the framework's controller decides; below a job, the job runs when that job
    is admitted.
    """
    above = _ancestor(job, request, context)
    if above is None:
        return False
    if not owners.known(above):
        return True
    namespace, lookup = request.namespace, context.lookup
    return owners.lets_run(lookup.owner(namespace, above), above, namespace, lookup.workload_of)


def _queued_by_owner(job: Raw, request: Request, context: Context) -> bool:
    """Whether an object above the job is queued instead of it; False while the caches have neither that object nor its
    Workload.
    """
    return _ancestor(job, request, context) is not None


def _ancestor(job: Raw, request: Request, context: Context) -> Reference | None:
    """The object that is queued instead of the job; None for a job that is queued itself, or whose owners are not all
    known: such a job is suspended like others, and the controller decides. A job that has quota of its own is queued
    itself, whatever its owners are.
    """
    if meta.controller(job) is None:
        return None
    namespace, lookup, settings = request.namespace, context.lookup, context.settings
    own = lookup.workload_of(meta.uid(job)) if meta.uid(job) else None
    if own is not None and holds_quota(own):
        return None

    def look(owner: Reference) -> Level | None:
        return owners.level_or_workload(lookup.owner(namespace, owner), owner, namespace, lookup.workload_of)

    external = owners.kinds_and_groups(settings.external_frameworks)
    without = settings.manage_jobs_without_queue_name and managed(namespace, context)
    try:
        found = owners.nesting(job, look, external, without_queue_name=without)
    except owners.NestingError:
        return None
    return None if found.unread is not None else found.ancestor


def _to_be_queued(job: Raw, request: Request, context: Context) -> bool:
    if meta.queue_name(job):
        return True
    return context.settings.manage_jobs_without_queue_name and managed(request.namespace, context)


def managed(namespace: str, context: Context) -> bool:
    """Whether jobs of a namespace are managed.

    If no cache has its labels the answer is yes: the API server has already applied the same selector to the namespace
    (it is in the webhook configuration).
    """
    labels, own = context.lookup.namespace_labels(namespace), context.settings.namespace
    selector = decode.selector(context.settings.managed_jobs_namespace_selector) if labels is not None else None
    return namespaces.managed(namespace, labels or {}, selector, own=own)


def default_queue(namespace: str, context: Context) -> bool:
    """Whether the namespace has a LocalQueue named default."""
    return context.lookup.local_queue(Key(namespace, names.DEFAULT_LOCAL_QUEUE)) is not None


def validate(kind: JobKind, request: Request, context: Context) -> Response:
    """Returns all errors of the job together."""
    if request.operation not in ("CREATE", "UPDATE"):
        return allow()
    new, settings = request.new(), context.settings
    old = request.old() if request.operation == "UPDATE" else None
    errors = kind.form.errors(new) or kind.form.errors(old)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    if not any(kind.covers(job, settings.frameworks) for job in (new, old) if job is not None):
        return allow()
    if kind.skip(new):
        excluded = kind.skip_errors(new)
        return refuse(excluded) if excluded else allow()
    lookup = context.lookup

    def meant(
        name: str,
    ) -> str | None:  # only for a name that is wrong: it looks at all of the namespace
        return closest(name, lookup.local_queue_names(request.namespace)) if lookup.synced else None

    errors = metadata.on_create(new, settings.enabled, meant=meant)
    if old is not None and _unchecked(kind, old, new, context):
        escaped = _escaped(kind, old, new, request, context)
        return refuse(escaped) if escaped else allow()
    if old is None:
        errors += kind.validate_create(new, settings.enabled)
        errors += _not_suspended(kind, new, request, context)
    else:
        errors += kind.validate_update(old, new, settings.enabled)
        errors += metadata.on_update(
            old,
            new,
            settings.enabled,
            was_suspended=kind.suspended(old),
            suspended=kind.suspended(new),
            default_queue=default_queue(request.namespace, context),
            runs_in=_runs_in(new, context),
        )
        errors += _not_kept_suspended(kind, old, new, request, context)
        errors += _escaped(kind, old, new, request, context)
        errors += _ungated(kind, old, new, context)
        errors += _without_owner(new, request, context)
    keys = _of_keys(kind, old, new, request, context)
    if errors:
        return refuse(errors, warnings=keys.warnings)
    asked = _asked(kind, old, new, request, context)
    verdict = _feedback(kind, asked, request, context) if asked is not None else PolicyVerdict()
    by_hand = _stopped_by_hand(kind, old, new, request, context) if old is not None else ()
    warnings = (*by_hand, *_below_job(kind, new), *kind.warnings(old, new), *keys.warnings, *verdict.warnings)
    response = PolicyVerdict(warnings, keys.refusals + verdict.refusals, keys.rules + verdict.rules).response()
    uid = meta.uid(new)
    counts = asked is not None and old is None and not _taken(kind.resource, request, context)
    if asked is not None and counts and response.allowed and uid and not request.dry_run:
        context.accepted.add(uid, asked, context.clock())
    return response


def _without_owner(job: Raw, request: Request, context: Context) -> list[FieldError]:
    """Refuses changes of a job that is being deleted and whose owner is gone, if the gate is off: Kueue did so before
    it had that gate. Garbage collection waits then until somebody removes the owner reference.
    """
    above, gate = reference(job), "SkipAncestorCheckForDeletedWorkloads"
    if above is None or not meta.deleting(job) or context.settings.enabled(gate):
        return []
    known = context.lookup.owner(request.namespace, above) if _to_be_queued(job, request, context) else None
    if not owners.is_gone(known, above):
        return []
    detail = f"workload owner not found: remove the reference, or set the feature gate {gate}"
    return [invalid("metadata.ownerReferences", f"{above.kind} {above.name}", detail)]


def _unchecked(kind: JobKind, old: Raw, new: Raw, context: Context) -> bool:
    """Whether a change of a job is not checked, as in Kueue: the job names no queue, or no longer one."""
    settings = context.settings
    if not kind.updates_checked_by_queue or settings.manage_jobs_without_queue_name or meta.queue_name(new):
        return False
    return not (settings.enabled("ValidateRayAndSparkJobUpdates") and meta.queue_name(old))


def explain_immutable(kind: JobKind, request: Request, context: Context) -> Response:
    """Returns the advice about a change of a queued job's pods that Kubernetes will refuse: called before its
    validation.
    """
    if request.operation != "UPDATE" or context.account().wrote(request):
        return allow()
    old, new = request.old(), request.new()
    if not meta.queue_name(new) or kind.form.errors(new) or kind.form.errors(old):
        return allow()
    waits = kind.held(old)
    before, after = (
        fixed(kind.kind, [each["template"] for each in kind.pod_sets(job)], waits=waits) for job in (old, new)
    )
    change = Change(before, after)
    found = judge(of_pods(change, context.lookup), context.settings.feedback, context.labels_of(request.namespace))
    if found.warnings and kind.kind == "Job" and other_programs(change):
        # Kubernetes refuses it after this and prints the whole template, which hides the warning.
        return Response(allowed=False, code=422, reason="Invalid", message=again(kind.kind), rules=found.rules)
    return found.response()


def _of_keys(kind: JobKind, old: Raw | None, new: Raw, request: Request, context: Context) -> PolicyVerdict:
    """Returns the findings about new labels and annotations."""
    left = kind.held(new) and not _to_be_queued(new, request, context)
    change = Change(
        None if old is None else keys_of(kind, old), replace(keys_of(kind, new), left=left, namespace=request.namespace)
    )
    return judge(
        of_keys(change, context.lookup, context.spent), context.settings.feedback, context.labels_of(request.namespace)
    )


def keys_of(kind: JobKind, job: Raw) -> Keys:
    """The labels and annotations of a job and of its pods."""
    pods = [each["template"].get("metadata") or {} for each in kind.pod_sets(job)]
    return Keys(
        meta.labels(job),
        meta.annotations(job),
        {key: value for each in pods for key, value in (each.get("labels") or {}).items()},
        {key: value for each in pods for key, value in (each.get("annotations") or {}).items()},
    )


def _not_suspended(kind: JobKind, job: Raw, request: Request, context: Context) -> list[FieldError]:
    """Enforces suspension after the mutating webhooks of others: a job that must wait does not start."""
    if not _suspension(kind, job, request, context):
        return []
    path = dotted(kind.hold(job).path)
    return [forbidden(path, f"a job that waits in a queue is created suspended: another webhook unset {path}")]


def _spelt(setting: Setting) -> tuple[str, str]:
    """The path and the value of a field, as messages have them."""
    return dotted(setting.path), orjson.dumps(setting.value).decode()


def _kept_suspended(kind: JobKind, request: Request, context: Context) -> Response | None:
    """The job held back again, with a warning, on an update that only admission may make; None for any other."""
    old, new = request.old(), request.new()
    errors = kind.form.errors(new) or kind.form.errors(old)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    if kind.skip(new) or not _started_by_hand(kind, old, new, request, context):
        return None
    path, value = _spelt(kind.hold(new))
    place, done = _place(new), _done(new, context)
    if done:
        warning = fitted(f"{path} stays {value}: the workload is finished ({done})", f"{path} stays {value}: {_AGAIN}")
    elif _has_pods(kind, old):
        warning = f"{path} stays {value}: the job {_STOPS}"
    elif _is_admitted(new, context):
        warning = f"{path} stays {value}: the job {_STARTS}"
    else:
        warning = fitted(
            f"{path} stays {value}: the job {place} and starts when it is admitted",
            f"{path} stays {value}: the job starts when it is admitted",
        )
    return allow(patch=_set(new, kind.hold(new)), warnings=[warning])


def _below_job(kind: JobKind, new: Raw) -> tuple[str, ...]:
    """Kueue's warning about a pod of a job that is marked as a queued pod."""
    marked = meta.labels(new).get(Label.MANAGED) == "true" and not any(
        each in meta.annotations(new) for each in kind.marks
    )
    if kind.nested or not marked or not owners.below_job(new):
        return ()
    return (f"pod owner is managed by kueue, label '{Label.MANAGED}=true' might lead to unexpected behaviour",)


_STARTS: Final = "is admitted: it is started with the nodes of its flavors"
_STOPS: Final = "was stopped and its pods still terminate: it starts again when they are gone"
_AGAIN: Final = "change the job so that it can start, or create it again"


def _not_kept_suspended(kind: JobKind, old: Raw, new: Raw, request: Request, context: Context) -> list[FieldError]:
    """Returns the refusal if another webhook removed the forced suspension, or the mutating hook was not called."""
    if not _started_by_hand(kind, old, new, request, context):
        return []
    path, done = dotted(kind.hold(new).path), _done(new, context)
    if done:
        return [forbidden(path, f"the job cannot run, its workload is finished ({done}): {_AGAIN}")]
    if _has_pods(kind, old):
        return [forbidden(path, f"the job {_STOPS}")]
    if _is_admitted(new, context):
        return [forbidden(path, f"the job {_STARTS}, not by hand")]
    text = f"the job {_place(new)} and is started when its workload is admitted, not by hand"
    return [forbidden(path, text)]


def _done(job: Raw, context: Context) -> str:
    """Why the Workload of the job is finished; '' where it is not."""
    workload = context.lookup.workload_of(meta.uid(job))
    done = workload.condition(Condition.FINISHED) if workload is not None else None
    return done.message if done is not None and done.status else ""


def _place(job: Raw) -> str:
    queue = meta.queue_name(job)
    return f'waits in LocalQueue "{queue}"' if queue else f"names no queue (label {Label.QUEUE_NAME})"


def _started_by_hand(kind: JobKind, old: Raw, new: Raw, request: Request, context: Context) -> bool:
    """Whether an update unsuspends a job that only Seiretsu may start, as for all jobs in a queue: also one that is
    admitted, because the start sets the nodes of its flavors.

    Seiretsu's own start is recognized by the account of the request. Before the caches are read the update is allowed:
    the controller suspends such a job again.
    """
    started = kind.held(old) and not kind.held(new)
    if not started or context.account().wrote(request) or not context.lookup.synced:
        return False
    if not _to_be_queued(new, request, context):
        return False
    if _runs_with_owner(old, request, context):  # the old state: an owner may be added in the same write
        return False
    return kind.finished(new) is None


def _is_admitted(job: Raw, context: Context) -> bool:
    workload = context.lookup.workload_of(meta.uid(job))
    return workload is not None and _may_run(workload)


def _escaped(kind: JobKind, old: Raw, new: Raw, request: Request, context: Context) -> list[FieldError]:
    """Refuses that a job with quota leaves its controller, or one that runs the nodes of its flavors."""
    workload = _with_quota(new, request, context)
    if workload is None:
        return []
    errors = running.controller_errors(kind, old, new)
    return errors + running.node_errors(kind, old, new, workload, context.lookup.flavor)


def _with_quota(job: Raw, request: Request, context: Context) -> Workload | None:
    """The Workload of a job that has quota; None for our own writes."""
    workload = context.lookup.workload_of(meta.uid(job)) if context.lookup.synced else None
    if workload is None or not holds_quota(workload) or context.account().wrote(request):
        return None
    return workload


def _has_pods(kind: JobKind, job: Raw) -> bool:
    """Whether the status of a job that was stopped shows pods, of a kind that counts those that terminate: others would
    run beside them. Seiretsu starts it when they are gone.
    """
    terminating = kind.terminating(job)
    return terminating is not None and (terminating > 0 or kind.active(job))


def _stopped_by_hand(kind: JobKind, old: Raw, new: Raw, request: Request, context: Context) -> tuple[str, ...]:
    """Returns the warning that suspending a running job does not hold it, with what to do instead."""
    stopped = kind.held(new) and not kind.held(old)
    if not stopped or meta.deleting(new) or context.account().wrote(request):
        return ()
    if _pods(kind, old) != _pods(kind, new):  # a resize, which suspends the job in the same write
        return ()
    if not _to_be_queued(new, request, context) or _queued_by_owner(old, request, context):
        return ()
    workload = context.lookup.workload_of(meta.uid(new)) if context.lookup.synced else None
    if workload is None or not _may_run(workload):
        return ()
    hold = "to hold the job, set spec.active: false on"
    path, value = _spelt(kind.hold(new))
    return (
        f"{path}: {value} stops the pods of this job and requeues it: it may start again immediately",
        fitted(f"{hold} Workload {workload.key.name}", f"{hold} the Workload with label job-uid={workload.job_uid}"),
    )


def _runs_in(job: Raw, context: Context) -> str:
    """The LocalQueue of the admitted Workload of a job, '' if it has none: only who may write Workloads makes one."""
    workload = context.lookup.workload_of(meta.uid(job)) if meta.uid(job) else None
    return workload.queue if workload is not None and _may_run(workload) else ""


def _may_run(workload: Workload) -> bool:
    """Whether the job of this Workload has quota: a finished one gave it back."""
    return workload.holds(Condition.ADMITTED) and not workload.holds(Condition.FINISHED)


def _asked(kind: JobKind, old: Raw | None, new: Raw, request: Request, context: Context) -> Submission | None:
    """Returns the job to check: a job that will wait in a queue, when it is created or changed; and a running one whose
    number of pods changes.
    """
    runs_with = _running_pods(kind, old, new)
    if (
        not _to_be_queued(new, request, context)
        or not (kind.held(new) or runs_with is not None)
        or _queued_by_owner(new, request, context)
    ):
        return None
    if old is not None and runs_with is None and _same_to_feedback(kind, old, new):
        return None
    asked = submission_of(kind, new, request, context)
    if old is None or runs_with is None:
        return asked
    same = [each["name"] for each in kind.pod_sets(old)] == [each["name"] for each in kind.pod_sets(new)]
    return replace(asked, runs_with=runs_with, elastic=same and _is_elastic(kind, new, context))


def submission_of(kind: JobKind, job: Raw, request: Request, context: Context) -> Submission:
    """Returns the job as input of feedback."""
    asked = kind.topology_requests(job)
    pods = [
        PodSpec(
            each["name"],
            each.get("count", 1),
            each["template"].get("spec") or {},
            each.get("minCount"),
            asked.get(each["name"]),
        )
        for each in kind.pod_sets(job)
    ]
    rules = context.rules_of(request.namespace)
    slots = kind.slots(job)
    called, fields = {slot.name: slot.called for slot in slots}, {slot.name: slot.field for slot in slots}
    words = replace(OF_JOB, pods=kind.pods_field, called=called, fields=fields)
    found = submission(request.namespace, meta.queue_name(job), meta.priority_class(job), pods, rules, words)
    found = replace(found, dry_run=request.dry_run and request.operation == "CREATE")
    manager = kind.manager(job)
    if kind.managed_by is None or not manager or manager == kind.own_controller:
        return found
    return replace(found, managed_by=(dotted(kind.managed_by), manager))


def _feedback(kind: JobKind, asked: Submission, request: Request, context: Context) -> PolicyVerdict:
    """Returns the findings about it, counting jobs that were accepted just before; for a change, only new ones."""
    labels = context.labels_of(request.namespace)
    lookup = context.accepted.beside(context.lookup, context.clock(), but=meta.uid(request.new()))
    if asked.runs_with is not None:
        return judge(of_job(asked, lookup, context.spent), context.settings.feedback, labels)

    def found(asked: Submission, request: Request) -> tuple[Finding, ...]:
        if asked.too_large:
            return of_job(asked, lookup)
        own = expressions.findings(context.settings.expressions, "jobs", request, labels, asked)
        return (*own, *of_job(asked, lookup, context.spent))

    now = found(asked, request)
    now = created(now, kind.resource, request, context)
    if now and (before := request.before()) is not None:
        now = news(now, found(submission_of(kind, before.new(), request, context), before))
    return judge(now, context.settings.feedback, labels)


def created(found: tuple[Finding, ...], resource: Resource, request: Request, context: Context) -> tuple[Finding, ...]:
    """The findings about an object, without those that it will wait if its name is taken. A refusal stays: the store
    may be behind a deletion.
    """
    if not found or not _taken(resource, request, context):
        return found
    policy, labels = context.settings.feedback, context.labels_of(request.namespace)
    return tuple(each for each in found if each.rule not in OF_NOW or policy.action(each.rule, labels) == "Deny")


def _taken(resource: Resource, request: Request, context: Context) -> bool:
    """Whether an object is created under the name of another: Kubernetes will refuse it, so it does not wait."""
    new = request.operation == "CREATE" and bool(request.name)
    return new and context.lookup.exists(resource, Key(request.namespace, request.name))


def _running_pods(kind: JobKind, old: Raw | None, new: Raw) -> int | None:
    """With how many pods a job runs that is to have more or fewer, perhaps 0; None for any other."""
    if old is None or not _is_running(kind, old, new):
        return None
    before, after = _pods(kind, old), _pods(kind, new)
    return before if before != after else None


def _is_running(kind: JobKind, old: Raw, new: Raw) -> bool:
    """Whether a job that is changed was not suspended; it may have no pods at present."""
    return not meta.deleting(new) and not kind.held(old)


def _grows(kind: JobKind, old: Raw, new: Raw) -> bool:
    """Whether a pod set gets more pods than it was started with, or is new; others may get fewer at the same time."""
    before = {each["name"]: each.get("count", 1) for each in kind.pod_sets(old)}
    return any(each.get("count", 1) > before.get(each["name"], 0) for each in kind.pod_sets(new))


def _pods(kind: JobKind, job: Raw) -> int:
    return sum(each.get("count", 1) for each in kind.pod_sets(job))


def _same_to_feedback(kind: JobKind, old: Raw, new: Raw) -> bool:
    """Whether nothing changed that feedback depends on; most updates are of the status or of labels."""
    if not kind.suspended(old):
        return True  # a job that is being stopped: its owner has seen it start
    named = meta.queue_name(old) == meta.queue_name(new) and meta.priority_class(old) == meta.priority_class(new)
    return named and kind.pod_sets(old) == kind.pod_sets(new)
