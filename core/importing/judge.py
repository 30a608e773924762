"""Decides what importing means for each job that runs: it is taken in with a Workload and quota, left alone, or cannot
be taken in, with the reason.

The state of a job is that of the API alone: which of Workload, quota and queue name it has. So an import that ended at
any write goes on with the next one, and one of jobs that were taken in changes nothing.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api.feature_gates import DEFAULTS, Enabled
from api.names import MULTIKUEUE_CONTROLLER, Annotation, Condition, Label
from core.importing.flavors import chosen
from core.importing.mapping import NO_MAPPING, MappingRule, rule_for
from core.importing.running import RunningJob, imported_kinds
from core.jobs import meta, owners
from core.jobs.admission.metadata import elastic
from core.jobs.fields import at
from core.jobs.imported import GATE, being_imported, has_imported_quota, naming
from core.jobs.kind import JobKind
from core.jobs.kinds import POD
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.workload import stands_for
from core.matching.placement import matches
from core.model import (
    Admission,
    ClusterQueue,
    FlavorResource,
    Key,
    Labels,
    PodSet,
    PodSetAssignment,
    Raw,
    Workload,
)
from core.model.owner import reference
from core.quota.checks import required_checks
from core.quota.usage import PodSetTotal, counted, totals
from core.state.lookup import Lookup
from core.state.queue_status import reservations, used
from core.workload import transitions
from core.workload.priority import Missing

MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that a kubelet runs from a file: nothing in the API starts or stops it."""


class MissingStep(enum.Enum):
    """The first write that is missing; all after it are missing, too."""

    WORKLOAD = "create its Workload"
    QUOTA = "admit its Workload"
    LABELS = "set its queue name"


@dataclass(frozen=True, slots=True)
class ImportRules:
    """What is asked for, and what is in the cluster. ``compose`` returns the Workload that a job gets, ``read`` the
    value of a Workload; ``nodes`` are the labels of the nodes by name. ``manages`` is whether jobs of a namespace are
    managed, and ``frameworks`` the integrations that are enabled; None if the Configuration is not known.
    """

    mapping: tuple[MappingRule, ...]
    lookup: Lookup
    nodes: Mapping[str, Labels]
    compose: Callable[[JobKind, Raw, Sequence[Raw]], Raw | Missing]
    read: Callable[[Raw], Workload]
    manages: Callable[[str], bool] = lambda namespace: True
    frameworks: Collection[str] | None = None
    labels: Labels = field(default_factory=dict)
    """Labels that each job and Workload gets in addition."""
    enabled: Enabled = DEFAULTS.__getitem__
    """Whether a feature gate is on."""

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        """The kinds that are taken in."""
        return imported_kinds(self.frameworks)


@dataclass(frozen=True, slots=True)
class JobImport:
    """A job to be taken in: its LocalQueue, its Workload with the quota, the first write that is missing, and what is
    to be known about it. ``manifest`` is the Workload to create, or that is there; ``replaces`` is the one of an
    earlier import that has to be deleted before, because the job has changed since, and ``freed`` its quota.
    """

    job: RunningJob
    queue: str
    admission: Admission
    checks: tuple[str, ...]
    manifest: Raw
    step: MissingStep
    notes: tuple[str, ...] = ()
    replaces: Raw | None = None
    freed: Admission | None = None

    def patch(self, labels: Labels) -> Raw:
        """The patch that gives the job its queue name, and these labels."""
        return naming(self.job.kind, meta.uid(self.job.raw), self.queue, labels)

    def admitted(self, workload: Workload, now: float) -> Workload:
        """The Workload with its quota."""
        return transitions.imported(workload, self.admission, self.checks, now)


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A job that is not taken in, as it should be."""

    job: RunningJob
    text: str


@dataclass(frozen=True, slots=True)
class NotPossible:
    """A job that cannot be taken in; ``text`` has the reason and the fix."""

    job: RunningJob
    text: str


ImportJudgement = JobImport | LeftAlone | NotPossible


def judge(job: RunningJob, rules: ImportRules) -> ImportJudgement:
    """Returns what importing means for a job."""
    if (why := _not_for_import(job, rules)) or (why := _queued_already(job, rules)):
        return LeftAlone(job, why)
    rule = rule_for(rules.mapping, _priority_class(job), _labels(job))
    if rule is None:
        return NotPossible(job, f"{NO_MAPPING}: add a rule for its labels, or one with skip: true")
    if rule.skip:
        return LeftAlone(job, "the mapping skips it")
    named = meta.queue_name(job.raw)
    if named and named != rule.queue:
        return NotPossible(job, f'another local queue name is set "{named}" expecting "{rule.queue}"')
    queue = rules.lookup.local_queue(Key(job.key.namespace, rule.queue))
    if queue is None:
        return NotPossible(job, f'there is no LocalQueue "{rule.queue}" in namespace {job.key.namespace}')
    cluster_queue = rules.lookup.cluster_queue(queue.cluster_queue)
    if cluster_queue is None:
        return NotPossible(job, f'LocalQueue "{rule.queue}" names ClusterQueue "{queue.cluster_queue}": there is none')
    return _with_workload(job, rule.queue, cluster_queue, rules)


def _not_for_import(job: RunningJob, rules: ImportRules) -> str:
    """Why a job is none that could be taken in; '' if it is."""
    raw, kind = job.raw, job.kind
    if meta.deleting(raw):
        return "it is being deleted"
    if kind.finished(raw) is not None:
        return "it has ended"
    if kind is not POD and kind.suspended(raw):
        return "it is suspended: it is queued when it names a queue, without an import"
    if kind is POD and at(raw, ("spec", "schedulingGates")):
        return "it waits behind a scheduling gate"
    if MIRROR in meta.annotations(raw):
        return "its kubelet runs it from a file"
    if kind.skip(raw) or kind.manager(raw) not in (None, "", kind.own_controller):
        return "another controller manages it"
    above = owners.kind_above(raw)
    if above is not None and above in rules.kinds:
        return f"it is a part of a {above.kind}"
    if above is not None:
        why = "" if above is APP_WRAPPER else f" without {above.framework} in the integrations of --config"
        return f"it belongs to a {above.kind}, a kind that is not imported{why}"
    if named := meta.prebuilt_workloads(raw):
        return f"it names Workload {named[0].name}, with which it is queued without an import"
    return ""


def _queued_already(job: RunningJob, rules: ImportRules) -> str:
    """Which Workload the job has, if it names a queue; '' if an import may have ended between its writes."""
    if not meta.queue_name(job.raw):
        return ""
    if job.kind is POD and meta.labels(job.raw).get(Label.MANAGED) != "true":
        return ""
    found = _unfinished(job, rules)
    if found is None or (found.value.admission is None and being_imported(found.raw)):
        return ""
    return f"it is queued already, with Workload {found.value.key.name}"


def _with_workload(job: RunningJob, queue: str, cluster_queue: ClusterQueue, rules: ImportRules) -> ImportJudgement:
    """A job with a queue: the flavors of its pods, and how far an earlier import came."""
    if why := _unfit(job, cluster_queue, rules):
        return NotPossible(job, why)
    labels = {**rules.labels, Label.QUEUE_NAME: queue}
    metadata = job.raw["metadata"]
    labelled = {**job.raw, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}
    made = rules.compose(job.kind, labelled, job.related)
    if isinstance(made, Missing):
        return NotPossible(job, f"{made}: create it, or change the job")
    if errors := job.kind.validate_create(labelled, rules.enabled):
        return NotPossible(job, f"a queued {job.kind.kind} may not be so: {'; '.join(map(str, errors))}")
    manifest = _gated(made, rules.labels)
    step, replaces, freed = MissingStep.WORKLOAD, None, None
    found = _unfinished(job, rules)
    fits = found is not None and stands_for(
        found.raw, job.kind, job.raw, admitted=False, running=None, related=job.related
    )
    if found is not None and not fits and (being_imported(found.raw) or has_imported_quota(found.value)):
        replaces, freed = found.raw, found.value.admission
    elif found is not None:
        (manifest, there), step = found, MissingStep.QUOTA
        if there.queue != queue:
            return NotPossible(
                job,
                f'its Workload {there.key.name} is for LocalQueue "{there.queue}", and it is mapped to "{queue}":'
                " map it to that one, or delete the Workload",
            )
        if there.holds(Condition.QUOTA_RESERVED) and fits:
            step = MissingStep.LABELS
        elif not being_imported(manifest):
            state = "waits for quota" if fits else "has other pods"
            return NotPossible(job, f"its Workload {there.key.name} {state}: delete it, and import again")
    value = rules.read(manifest)
    if value.invalid or value.uncounted:
        return NotPossible(job, value.uncounted or value.invalid[0])
    if step is MissingStep.LABELS and value.admission is not None:
        return JobImport(job, queue, value.admission, (), manifest, step)
    notes = list(_unnamed_later(job))
    problems: list[str] = []
    placed = zip(value.pod_sets, totals(value), strict=True)
    pod_sets = [_assigned(job, *each, cluster_queue, rules, notes, problems) for each in placed]
    if problems:
        return NotPossible(job, "; ".join(problems))
    admission = Admission(cluster_queue.name, tuple(pod_sets))
    checks = tuple(required_checks(cluster_queue, admission))
    return JobImport(job, queue, admission, checks, manifest, step, tuple(notes), replaces, freed)


def _unfit(job: RunningJob, queue: ClusterQueue, rules: ImportRules) -> str:
    """Why no running job can be taken into a ClusterQueue, or not this one; '' if it can. A job that the controller
    does not know would never give its quota back.
    """
    kind = job.kind.framework
    if rules.frameworks is not None and kind not in rules.frameworks:
        return f"the integration {kind} is not enabled: add it to integrations.frameworks of the Configuration"
    if not rules.manages(job.key.namespace):
        return f"namespace {job.key.namespace} is not managed (managedJobsNamespaceSelector)"
    if not queue.groups:
        return f'"{queue.name}" has no resource groups: clusterqueue invalid'
    flavors = dict.fromkeys(flavor for group in queue.groups for flavor in group.flavors)
    missing = [flavor for flavor in flavors if rules.lookup.flavor(flavor) is None]
    if missing:
        return f'"{queue.name}" missing flavors [{" ".join(missing)}]: clusterqueue invalid'
    found = (rules.lookup.admission_check(check.name) for check in queue.checks)
    if any(check is not None and check.controller_name == MULTIKUEUE_CONTROLLER for check in found):
        return f'ClusterQueue "{queue.name}" sends its jobs to other clusters, and this one runs here'
    selector, labels = queue.namespace_selector, rules.lookup.namespace_labels(job.key.namespace) or {}
    if selector is None or not matches(selector, labels):
        return f'ClusterQueue "{queue.name}" is not for namespace {job.key.namespace} (namespaceSelector)'
    if queue.migration is not None:
        return f'ClusterQueue "{queue.name}" admits its jobs through variants (concurrentAdmissionPolicy)'
    if meta.pod_group(job.raw) or Annotation.POD_GROUP_TOTAL_COUNT in meta.annotations(job.raw):
        return "it belongs to a group of pods: groups are not imported"
    if job.kind.elastic and elastic(job.raw, rules.enabled):
        return "it is an elastic job: its pods would need a scheduling gate, which they get only before they run"
    if not job.pod_sets():
        return "its pod templates do not exist yet: import again when its controller has made them"
    return ""


def _assigned(
    job: RunningJob,
    pod_set: PodSet,
    total: PodSetTotal,
    queue: ClusterQueue,
    rules: ImportRules,
    notes: list[str],
    problems: list[str],
) -> PodSetAssignment:
    """The flavors of a pod set; what is to be known of them, or what is wrong, is added."""
    usage = counted(total, {resource for group in queue.groups for resource in group.resources})
    flavors: dict[str, str] = {}
    for group in queue.groups:
        asked = [resource for resource in usage if resource in group.resources]
        if not asked:
            continue
        known = [each for each in map(rules.lookup.flavor, group.flavors) if each is not None]
        choice = chosen(known, pod_set.placement, job.nodes(pod_set.name), rules.nodes)
        if choice.text:
            (notes if choice.flavor else problems).append(choice.text)
        flavors |= dict.fromkeys(asked, choice.flavor)
    uncovered = [resource for resource, amount in usage.items() if amount and resource not in flavors]
    if not rules.lookup.ignores_undeclared:
        problems += [f'resource "{each}" is not covered by ClusterQueue "{queue.name}"' for each in uncovered]
    used = {resource: usage[resource] for resource in flavors}
    return PodSetAssignment(total.name, flavors, used, total.count)


def _unnamed_later(job: RunningJob) -> Iterator[str]:
    """What to know of a job that another object has made: it makes others, from its own template."""
    above = reference(job.raw)
    if above is not None:
        yield f"{above.kind} {above.name} creates others without a queue name: set the label in its template, too"


def _gated(manifest: Raw, labels: Labels) -> Raw:
    """The Workload to create: with the gate that keeps it out of its queue until it has quota, and more labels."""
    metadata = manifest["metadata"]
    own = str((metadata.get("annotations") or {}).get(Annotation.ADMISSION_GATED_BY) or "")
    gates = dict.fromkeys([*filter(None, map(str.strip, own.split(","))), GATE])
    annotations = {**(metadata.get("annotations") or {}), Annotation.ADMISSION_GATED_BY: ",".join(gates)}
    return {
        **manifest,
        "metadata": {**metadata, "annotations": annotations, "labels": {**(metadata.get("labels") or {}), **labels}},
    }


class _Found(NamedTuple):
    """A Workload as an object and as it is read."""

    raw: Raw
    value: Workload


def _unfinished(job: RunningJob, rules: ImportRules) -> _Found | None:
    """The Workload of a job that has not finished: of several the one with quota."""
    found = [_Found(raw, value) for raw in job.workloads if not (value := rules.read(raw)).holds(Condition.FINISHED)]
    return max(found, key=lambda each: each.value.holds(Condition.QUOTA_RESERVED), default=None)


def _labels(job: RunningJob) -> Labels:
    """The labels by which a job is mapped: its own, and those of its pods that it does not have itself."""
    slots = [] if job.kind is POD else job.kind.slots(job.raw, job.related)
    templates = [job.kind.template_of(job.raw, each, job.related) for each in slots]
    found: dict[str, str] = {}
    for each in (*reversed(templates), job.raw):
        found |= meta.labels(each or {})
    return found


def _priority_class(job: RunningJob) -> str:
    """The PriorityClass of its pods."""
    specs = (each["template"].get("spec") or {} for each in job.pod_sets())
    return next((str(spec["priorityClassName"]) for spec in specs if spec.get("priorityClassName")), "")


# What an import adds to queues, for whoever decides about it.


@dataclass(frozen=True, slots=True)
class QueueTotal:
    """How much of a flavor's resource a ClusterQueue uses before and after an import, and its nominal quota."""

    cluster_queue: str
    flavor: str
    resource: str
    before: int
    added: int
    nominal: int

    @property
    def exceeds(self) -> bool:
        """Whether more is used than the nominal quota."""
        return self.before + self.added > self.nominal


def queue_totals(imports: Iterable[JobImport], lookup: Lookup) -> list[QueueTotal]:
    """Returns what the jobs add that have no quota yet, by ClusterQueue, flavor and resource."""
    added: Counter[tuple[str, str, str]] = Counter()
    for each in imports:
        if each.step is MissingStep.LABELS:
            continue
        for admission, sign in ((each.admission, 1), (each.freed, -1)):
            if admission is None:
                continue
            for pod_set in admission.pod_sets:
                for resource, flavor in pod_set.flavors.items():
                    added[admission.cluster_queue, flavor, resource] += sign * pod_set.usage[resource]
    return [_total(*name, amount, lookup) for name, amount in sorted(added.items())]


def _total(cluster_queue: str, flavor: str, resource: str, added: int, lookup: Lookup) -> QueueTotal:
    queue, name = lookup.cluster_queue(cluster_queue), FlavorResource(flavor, resource)
    quota = queue.quotas.get(name) if queue is not None else None
    before = used(reservations(lookup.state, cluster_queue)).get(name, 0)
    return QueueTotal(cluster_queue, flavor, resource, before, added, quota.nominal if quota is not None else 0)
