"""The one table of hooks. The routes (``webhook.routes``) and both webhook configurations follow from it.

Names and paths are Kueue's, so that error texts, alerts and exclusions for Kueue still apply. The scope differs from
Kueue: a hook that may refuse (``Fail``) gets queued jobs and Seiretsu's own kinds only, so that an outage of Seiretsu
affects nothing else (Kueue's best-known outage, kueue#5244). Jobs without a queue name, which are only *defaulted*, use
a second hook that the API server may skip.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from api import names
from api.names import Kind, Plural
from api.structural import Form
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, BATCH_JOB, POD
from core.jobs.pod_owners import FORM, POD_OWNERS, PodOwner
from webhook import advice, jobs, kinds, living_pods, pod_owners, strangers, template_marks
from webhook import claims as claimed
from webhook.review import Request, Response
from webhook.settings import Context, WebhookSettings

ReviewFunction = Callable[[Request, Context], Response]
FailurePolicy = Literal["Fail", "Ignore"]


class HookPhase(enum.Enum):
    """Which of the two configurations a hook belongs to."""

    MUTATING = "mutating"
    VALIDATING = "validating"


class Reach(enum.Enum):
    """Which objects are sent to a hook."""

    QUEUED_JOBS = "jobs that name a queue, in namespaces we manage"
    UNQUEUED_JOBS = "jobs that name none, in namespaces we manage"
    OUR_KINDS = "all objects of a kind of ours"
    MISPLACED = "objects of other kinds that have the label of a queue, or nearly"
    UNMANAGED_JOBS = "jobs that name a queue in namespaces that are never managed"
    DELETED_BY_HAND = "objects of a kind of ours that another object controls, deleted by a person"
    CHECKED_WORKLOADS = "Workloads that are created, or changed in what a rule reads"
    CLAIMS = "objects that name an owner whose controller did not write them, in namespaces we manage"
    COUNTED_PODS = "pods in which somebody changes what they are counted by, in namespaces we manage"
    MARKED_TEMPLATES = "objects below others in whose template somebody changes by what pods wait, in the same"


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook. ``job_kind`` and ``framework`` must be enabled for it, and ``instead_of`` must not be;
    ``needed`` returns whether other settings require it. ``advice`` is asked about what the handler allows, and adds
    warnings to its answer, or refuses; if it fails, the handler's answer counts. ``form`` is the schema that an object
    must still have when the handler's patch is applied to it. ``consequences`` is whether the answer says whom an edit
    hits.
    """

    name: str
    path: str
    phase: HookPhase
    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    kind: str
    reach: Reach
    handler: ReviewFunction
    failure_policy: FailurePolicy = "Fail"
    advice: ReviewFunction | None = None
    form: Form = kinds.FORM
    job_kind: JobKind | None = None
    framework: str = ""
    instead_of: str = ""
    needed: Callable[[WebhookSettings], bool] = lambda settings: True
    consequences: bool = False

    def exists(self, settings: WebhookSettings) -> bool:
        """Whether these settings have it."""
        enabled = self.job_kind is None or self.job_kind.enabled(settings.frameworks)
        if self.framework and self.framework not in settings.frameworks:
            return False
        return enabled and self.instead_of not in settings.frameworks and self.needed(settings)


def _of_jobs(kind: JobKind) -> tuple[Hook, ...]:
    """Returns the hooks of a job kind: defaulting of queued and of unqueued jobs, validation, and feedback on jobs that
    are not managed.

    Feedback on immutable fields is advice of the mutating hook: it is called before Kubernetes refuses the change. One
    more hook for it would have conditions of its own, for which the API server converts the job once more, also for
    each start by the controller.
    """

    def by_label(settings: WebhookSettings) -> bool:
        return not settings.manage_jobs_without_queue_name

    at = f"{kind.group.replace('.', '-')}-{kind.version}-{kind.singular}"
    queued = Hook(
        name=f"m{kind.singular}.kb.io",
        path=f"/mutate-{at}",
        phase=HookPhase.MUTATING,
        group=kind.group,
        version=kind.version,
        resources=(kind.plural,),
        operations=("CREATE", "UPDATE"),
        kind=kind.kind,
        reach=Reach.QUEUED_JOBS,
        handler=partial(jobs.mutate, kind),
        advice=partial(jobs.explain_immutable, kind) if kind.fixed_templates else None,
        form=kind.form,
        job_kind=kind,
    )
    unqueued = replace(
        queued,
        advice=None,
        name=f"m{kind.singular}-default.kb.io",
        operations=("CREATE",),
        path=f"/mutate-{at}-default",
        reach=Reach.UNQUEUED_JOBS,
        failure_policy="Ignore",
        framework=kind.framework,
        needed=by_label,
    )
    validating = replace(
        queued,
        name=f"v{kind.singular}.kb.io",
        path=f"/validate-{at}",
        phase=HookPhase.VALIDATING,
        handler=partial(jobs.validate, kind),
        advice=None,
    )
    unmanaged = replace(
        validating,
        name=f"{kind.singular}-unmanaged-feedback.kb.io",
        path=f"/feedback-{at}-unmanaged",
        operations=("CREATE",),
        reach=Reach.UNMANAGED_JOBS,
        failure_policy="Ignore",
        framework=kind.framework,
        handler=strangers.advise,
    )
    claims = replace(
        queued,
        advice=None,
        name=f"m{kind.singular}-owner.kb.io",
        operations=("CREATE",),
        path=f"/mutate-{at}-owner",
        reach=Reach.CLAIMS,
        handler=partial(claimed.disown, kind),
    )
    changed_claims = replace(
        validating,
        name=f"v{kind.singular}-owner.kb.io",
        operations=("UPDATE",),
        path=f"/validate-{at}-owner",
        reach=Reach.CLAIMS,
        handler=claimed.refuse_change,
        needed=_without_policies,
    )
    if kind is POD:  # pods cannot be changed so that another start is possible
        queued = replace(queued, operations=("CREATE",))
    return claims, queued, unqueued, validating, unmanaged, changed_claims


def _without_policies(settings: WebhookSettings) -> bool:
    return not settings.policies


def _of_ours(phase: HookPhase, kind: str, resources: tuple[str, ...], handler: ReviewFunction) -> Hook:
    singular = kind.lower()
    verb, mark = ("mutate", "m") if phase is HookPhase.MUTATING else ("validate", "v")
    return Hook(
        name=f"{mark}{singular}.kb.io",
        path=f"/{verb}-{names.GROUP.replace('.', '-')}-{names.STORAGE_VERSION}-{singular}",
        phase=phase,
        group=names.GROUP,
        version=names.STORAGE_VERSION,
        resources=resources,
        operations=("CREATE",) if phase is HookPhase.MUTATING else ("CREATE", "UPDATE"),
        kind=kind,
        reach=Reach.OUR_KINDS,
        handler=handler,
    )


def _advice(kind: str, resource: str, version: str = names.STORAGE_VERSION) -> Hook:
    """Returns the feedback hook of one of Seiretsu's kinds, including deletion; the API server may skip it."""
    singular = kind.lower()
    return replace(
        _of_ours(HookPhase.VALIDATING, kind, (resource,), advice.advise),
        name=f"{singular}-feedback.kb.io",
        path=f"/feedback-{names.GROUP.replace('.', '-')}-{version}-{singular}",
        version=version,
        operations=("CREATE", "UPDATE", "DELETE"),
        failure_policy="Ignore",
    )


def _misplaced(kind: str, group: str, resource: str, operations: tuple[str, ...]) -> Hook:
    """Feedback on a kind that is not queued; the API server may do without."""
    singular = kind.lower()
    return Hook(
        name=f"{singular}-feedback.kb.io",
        path=f"/feedback-{group or 'core'}-v1-{singular}",
        phase=HookPhase.VALIDATING,
        group=group,
        version="v1",
        resources=(resource,),
        operations=operations,
        kind=kind,
        reach=Reach.MISPLACED,
        handler=strangers.advise,
        failure_policy="Ignore",
        job_kind=BATCH_JOB if kind == "CronJob" else None,
        instead_of=_INSTEAD.get(kind, ""),
    )


_INSTEAD: Final = {"Pod": "pod", **{each.resource.kind: each.framework for each in POD_OWNERS}}
"""The framework that queues a kind whose objects otherwise only get feedback."""


def _of_pod_owner(owner: PodOwner) -> tuple[Hook, ...]:
    """Returns the hooks of a kind whose pods are queued: as of a job, without suspension."""
    group, version, singular = owner.resource.group, owner.resource.version, owner.resource.kind.lower()
    at = f"{group.replace('.', '-')}-{version}-{singular}"
    queued = Hook(
        name=f"m{singular}.kb.io",
        path=f"/mutate-{at}",
        phase=HookPhase.MUTATING,
        group=group,
        version=version,
        resources=(owner.resource.plural,),
        operations=("CREATE", "UPDATE"),
        kind=owner.resource.kind,
        reach=Reach.QUEUED_JOBS,
        handler=partial(pod_owners.mutate, owner),
        form=FORM,
        framework=owner.framework,
    )
    unqueued = replace(
        queued,
        name=f"m{singular}-default.kb.io",
        path=f"/mutate-{at}-default",
        operations=("CREATE",),
        reach=Reach.UNQUEUED_JOBS,
        failure_policy="Ignore",
        needed=lambda settings: not settings.manage_jobs_without_queue_name,
    )
    validating = replace(
        queued,
        name=f"v{singular}.kb.io",
        path=f"/validate-{at}",
        phase=HookPhase.VALIDATING,
        handler=partial(pod_owners.validate, owner),
    )
    return queued, unqueued, validating


_COUNTED_PODS: Final = Hook(
    name="vpod-counted.kb.io",
    path="/validate--v1-pod-counted",
    phase=HookPhase.VALIDATING,
    group="",
    version="v1",
    resources=("pods",),
    operations=("UPDATE",),
    kind="Pod",
    reach=Reach.COUNTED_PODS,
    handler=living_pods.validate,
    form=POD.form,
    needed=_without_policies,
)
"""Whatever is enabled: the pods of every kind of job are counted."""

_MARKED_TEMPLATES: Final = tuple(
    Hook(
        name=f"v{kind.lower()}-marks.kb.io",
        path=f"/validate-apps-v1-{kind.lower()}-marks",
        phase=HookPhase.VALIDATING,
        group="apps",
        version="v1",
        resources=(plural,),
        operations=("UPDATE",),
        kind=kind,
        reach=Reach.MARKED_TEMPLATES,
        handler=template_marks.validate,
        form=template_marks.FORM,
        needed=_without_policies,
    )
    for kind, plural in template_marks.RESOURCES.items()
)

_ALWAYS: Final = ("CREATE", "UPDATE")
_MISPLACED: Final = (
    _misplaced("Pod", "", "pods", ("CREATE",)),
    _misplaced("Deployment", "apps", "deployments", _ALWAYS),
    _misplaced("StatefulSet", "apps", "statefulsets", _ALWAYS),
    _misplaced("CronJob", "batch", "cronjobs", _ALWAYS),
)

_M, _V = HookPhase.MUTATING, HookPhase.VALIDATING
_WORKLOADS: Final = (Plural.WORKLOADS,)

HOOKS: Final[tuple[Hook, ...]] = (
    *(hook for kind in ALL for hook in _of_jobs(kind)),
    *(hook for owner in POD_OWNERS for hook in _of_pod_owner(owner)),
    _COUNTED_PODS,
    *_MARKED_TEMPLATES,
    _of_ours(_M, Kind.CLUSTER_QUEUE, (Plural.CLUSTER_QUEUES,), kinds.keep_while_in_use),
    _of_ours(_M, Kind.RESOURCE_FLAVOR, (Plural.RESOURCE_FLAVORS,), kinds.keep_while_in_use),
    replace(
        _of_ours(_M, Kind.WORKLOAD, _WORKLOADS, kinds.drop_min_counts),
        needed=lambda settings: not settings.enabled("PartialAdmission"),
    ),
    _of_ours(_V, Kind.CLUSTER_QUEUE, (Plural.CLUSTER_QUEUES,), kinds.validate),
    _of_ours(_V, Kind.COHORT, (Plural.COHORTS,), kinds.validate),
    _of_ours(_V, Kind.RESOURCE_FLAVOR, (Plural.RESOURCE_FLAVORS,), kinds.validate),
    replace(
        _of_ours(_V, Kind.WORKLOAD, (Plural.WORKLOADS, f"{Plural.WORKLOADS}/status"), kinds.validate),
        reach=Reach.CHECKED_WORKLOADS,
        advice=advice.advise_workload,
    ),
    replace(_advice(Kind.CLUSTER_QUEUE, Plural.CLUSTER_QUEUES), consequences=True),
    replace(_advice(Kind.LOCAL_QUEUE, Plural.LOCAL_QUEUES), consequences=True),
    _advice(Kind.QUEUE, Plural.QUEUES, names.V1ALPHA1),
    replace(_advice(Kind.COHORT, Plural.COHORTS), consequences=True),
    replace(_advice(Kind.RESOURCE_FLAVOR, Plural.RESOURCE_FLAVORS), consequences=True),
    replace(
        _advice(Kind.WORKLOAD_PRIORITY_CLASS, Plural.WORKLOAD_PRIORITY_CLASSES),
        operations=("UPDATE",),
        handler=advice.admit_class,
        consequences=True,
    ),
    replace(_advice(Kind.TOPOLOGY, Plural.TOPOLOGIES), operations=("CREATE", "UPDATE")),
    *_MISPLACED,
    replace(
        _advice(Kind.WORKLOAD, Plural.WORKLOADS),
        name="workload-deletion-feedback.kb.io",
        path=f"/feedback-{names.GROUP.replace('.', '-')}-{names.STORAGE_VERSION}-workload-deletion",
        operations=("DELETE",),
        reach=Reach.DELETED_BY_HAND,
        handler=strangers.advise_deletion,
    ),
)


def hooks(settings: WebhookSettings, phase: HookPhase) -> tuple[Hook, ...]:
    """The hooks of one configuration that these settings need, in the table's order."""
    return tuple(hook for hook in HOOKS if hook.phase is phase and hook.exists(settings))
