"""Pods that belong to no job: each has a Workload and waits behind a scheduling gate.

A pod cannot be suspended again. A stop marks it with the reason and deletes it; its controller may create another one.
The finalizer keeps a pod until its Workload has its result. A pod that runs in another cluster keeps its gate here, and
has the status of the pod there. Only pods with the label ``kueue.x-k8s.io/managed`` are watched: admission sets it on
pods that are to be queued, and pods of a queued job do not have it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from api import syntax
from api.builtin import METADATA, TEXT, fields, list_of, pod_spec
from api.errors import FieldError, forbidden, invalid, required
from api.feature_gates import Enabled
from api.names import DEFAULT_POD_SET, Annotation, Finalizer, Label, SchedulingGate
from api.objects import Resource
from api.structural import Form
from core.actions import Delete, Patch, Target, Write
from core.jobs import meta, template
from core.jobs.admission.literals import integer
from core.jobs.fields import Setting, at, changed
from core.jobs.job_reader import Interning, Outcome, Slot
from core.jobs.job_starter import Right, StopCause
from core.jobs.kind import JobKind
from core.jobs.pod_owners import GROUP_OWNERS, POD_OWNERS
from core.jobs.pod_shape import computed_role
from core.jobs.template import Injection
from core.jobs.topology_request import PodIndex
from core.model import Key, Raw
from core.model.owner import GROUP
from core.wire.guard import guarded
from core.wire.timestamps import epoch, stamp

TERMINATION_TARGET: Final = "TerminationTarget"
WORKLOAD_DELETED: Final = "WorkloadDeleted"
"""The cause with which a pod is stopped whose Workload is deleted."""
_RESOURCE: Final = Resource("", "v1", "pods", "Pod")
_OURS: Final = frozenset({SchedulingGate.ADMISSION, SchedulingGate.TOPOLOGY})
_TOKEN: Final = "kube-api-access-"
"""The volume with a pod's token: its name differs for each pod, and admission does not depend on it."""
_OF_THIS_CLUSTER: Final = ("qosClass", "resourceClaimStatuses")
"""The fields of a pod's status that the API server of its cluster sets."""
_READ: Final = ("Ready", "ContainersReady", TERMINATION_TARGET)
_ALIKE: Final = ("ownerReferences", "finalizers")
"""Fields of the metadata that many pods have in common."""
MANAGED_LABEL: Final = f"metadata.labels[{Label.MANAGED}]"
TOTAL_COUNT: Final = f"metadata.annotations[{Annotation.POD_GROUP_TOTAL_COUNT}]"
RETRIABLE: Final = f"metadata.annotations[{Annotation.RETRIABLE_IN_GROUP}]"
MOST_PODS: Final = 2_000
"""The largest group. Its Workload has an owner reference for each pod, as in Kueue, which the API server sends with
each change of its status: 300 KB. A JobSet or a Job with as many pods has one.
"""
INDEX: Final = PodIndex(Label.POD_GROUP_POD_INDEX)


class Pod(JobKind):
    """The ``pod`` framework: pods that are in no group."""

    framework = "pod"
    counted = "`main`: the pod"
    implied_by = tuple(each.framework for each in POD_OWNERS)
    resource = _RESOURCE
    pods_label = Label.POD_GROUP_NAME
    optional = False
    pods_path = ("spec",)
    suspend_path = ("spec", "schedulingGates")
    selector = f"{Label.MANAGED}=true"
    nested = False
    grouped = True
    topology_groups = False  # the other pods of its group are not known here
    marks = (Annotation.POD_SUSPENDING_PARENT,)
    rights = (Right(_RESOURCE, "patch", "status"), Right(_RESOURCE, "delete"))
    uid_label = ""
    form = Form(
        fields(
            metadata=METADATA,
            spec={
                **pod_spec(),
                "properties": {**pod_spec()["properties"], "schedulingGates": list_of(fields(name=TEXT))},
            },
        )
    )

    def lean(self, raw: Raw, share: Interning) -> Raw:
        """Returns the fields that are read, with equal specs and statuses shared between pods."""
        metadata, spec, status = raw["metadata"], dict(raw.get("spec") or {}), raw.get("status") or {}
        node = spec.pop("nodeName", "")
        annotations = metadata.get("annotations") or {}
        if LAST_APPLIED in annotations:
            annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        conditions = [
            {key: value for key, value in each.items() if key in ("type", "status", "reason")}
            | ({"lastTransitionTime": each.get("lastTransitionTime")} if each.get("reason") == "PodFailed" else {})
            for each in status.get("conditions") or ()
            if each.get("type") in _READ
        ]
        read = {
            "phase": status.get("phase", ""),
            **({"message": status["message"]} if status.get("message") else {}),
            "conditions": conditions,
        }
        own = {key: value for key, value in metadata.items() if key not in ("annotations", *_ALIKE)}
        if metadata.get("labels"):
            own["labels"] = share(metadata["labels"])
        if annotations:
            own["annotations"] = annotations
        return {
            "metadata": share({key: metadata[key] for key in _ALIKE if metadata.get(key)}, **own),
            "spec": share(_without_token(spec), **({"nodeName": node} if node else {})),
            "status": status if gated(raw) and has_run(raw) else share(read),
        }

    def covers(self, job: Raw, frameworks: Collection[str]) -> bool:
        """Whether the frameworks enable this pod: with ``deployment`` alone only those of Deployments."""
        return not self.only_marked(frameworks) or bool(parent(job))

    def key(self, raw: Raw) -> Key:
        """Returns the key of the pod, or of its group."""
        group, metadata = meta.pod_group(raw), raw["metadata"]
        return Key(metadata["namespace"], f"{GROUP}{group}" if group else metadata["name"])

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set ``main`` of one pod; none while its owner has not set the group of the pod."""
        awaits_group = parent(job) in OF_GROUPS and not meta.pod_group(job)
        return [] if awaits_group else [Slot(DEFAULT_POD_SET, 1, (), index=INDEX)]

    def pod_sets(self, job: Raw, related: Sequence[Raw] = ()) -> list[Raw]:
        """Returns the pod set: the spec of the pod, without its metadata and its node."""
        if not job.get("metadata"):
            return []
        return [_pod_set(at(job, each.path), each) for each in self.slots(job, related) if at(job, each.path)]

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether it runs in another cluster, or is on a node of this one and has not ended: a pod that was stopped
        runs on in its grace period.
        """
        return runs_in_worker(job) or uses_node(job)

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """How the pod ended, by its phase."""
        if not ended(job):
            return None
        status = job["status"]
        return Outcome(status["phase"] == "Succeeded", status.get("message") or "")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether the pod is ready."""
        return ready(job)

    def hold(self, job: Raw) -> Setting:
        """The gates of the pod with Seiretsu's among them."""
        gates = list(at(job, self.suspend_path) or ())
        return Setting(self.suspend_path, gates if gated(job) else [*gates, {"name": SchedulingGate.ADMISSION}])

    def release(self, job: Raw) -> Setting:
        """The gates of the pod without Seiretsu's."""
        gates = at(job, self.suspend_path) or ()
        return Setting(self.suspend_path, [each for each in gates if each.get("name") not in _OURS])

    def start(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Removes the gates with the nodes of the pod, except for that of a topology where it is placed by one."""
        return self.difference(job, opened(job, self.injected(job, injections), injections[0]))

    def held(self, job: Raw) -> bool:
        """Whether Seiretsu's gate is on the pod."""
        return gated(job)

    def suspended(self, job: Raw) -> bool:
        """Whether the pod waits behind Seiretsu's gate, or has ended."""
        return ended(job) or gated(job)

    def stop(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Deletes the pod without a reason."""
        return self.stop_because(job, pod_sets, StopCause("", "", 0.0), related)

    def stop_because(
        self, job: Raw, pod_sets: Sequence[Raw], cause: StopCause, related: Sequence[Raw] = ()
    ) -> Sequence[Write]:
        """Marks the pod with the cause and deletes it. If its Workload is deleted, also a pod that waits or has ended.

        Nothing if it is being deleted already.
        """
        if meta.deleting(job) or (self.suspended(job) and cause.reason != WORKLOAD_DELETED):
            return ()
        return stopped(job, cause)

    def finalizer_removal(self, job: Raw) -> Sequence[Write]:
        """Removes the finalizer."""
        return without_finalizer(job)

    @property
    def may_run_in_worker(self) -> bool:
        """Whether pods can run in another cluster: yes, although no field of a pod says so."""
        return True

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """Returns the pod with its gates."""
        return job

    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """Returns the status of the pod there as soon as that has a node, with the class of service that the API server
        set here.

        A condition PodScheduled that is not true is left out: an autoscaler of this cluster would add a node for it.
        The end of a pod that was stopped there is left out, because this pod waits again.
        """
        if meta.deleting(job) or not has_run(remote) or (ended(remote) and self.stopped_in_worker(remote)):
            return None
        there, here = remote["status"], job.get("status") or {}
        conditions = [
            each
            for each in there.get("conditions") or ()
            if each.get("type") != "PodScheduled" or each.get("status") == "True"
        ]
        wanted = {**there, "conditions": conditions}
        shown = {key: value for key, value in wanted.items() if key not in _OF_THIS_CLUSTER}
        return shown | {key: here[key] for key in _OF_THIS_CLUSTER if key in here}

    def stopped_in_worker(self, remote: Raw) -> bool:
        """Whether the pod was marked as stopped."""
        return has_condition(remote, TERMINATION_TARGET)

    def shown(self, job: Raw, related: Sequence[Raw] = ()) -> tuple[Raw, Raw] | None:
        """The first pod that shows a node although it waits again."""
        pod = next((each for each in self.parts(job) if runs_in_worker(each)), None)
        if pod is None:
            return None
        removed = dict.fromkeys(key for key in pod["status"] if key not in _OF_THIS_CLUSTER)
        return pod, {**removed, "phase": "Pending"}

    def defaults(self, job: Raw, enabled: Enabled) -> list[Setting]:
        """The role of a pod that is queued; of one whose owner is queued also the gate. Its owner sets queue, group and
        classes.

        Pods of a group are watched from the beginning, because the controller must complete them.
        """
        above = parent(job)
        if not above:
            return [_role(job)] if gated(job) and meta.labels(job).get(Label.MANAGED) == "true" else []
        watched = [Setting(("metadata", "labels", Label.MANAGED), "true")] if above in OF_GROUPS else []
        return [*watched, self._gates(job, enabled), _role(job)]

    def on_queueing(self, job: Raw, enabled: Enabled) -> list[Setting]:
        """The label by which the pod is watched, its finalizer and its gates."""
        if parent(job):
            return []
        finalizers = job["metadata"].get("finalizers") or []
        kept = finalizers if Finalizer.MANAGED in finalizers else [*finalizers, Finalizer.MANAGED]
        return [
            Setting(("metadata", "labels", Label.MANAGED), "true"),
            Setting(("metadata", "finalizers"), kept),
            self._gates(job, enabled),
        ]

    def _gates(self, job: Raw, enabled: Enabled) -> Setting:
        """The gates of a new pod: that for topologies too, because no gate can be added later. The start of a pod that
        is not placed by topology removes both.
        """
        path, gates = self.hold(job)
        known = {each.get("name") for each in gates}
        if enabled("TopologyAwareScheduling") and SchedulingGate.TOPOLOGY not in known:
            gates = [*gates, {"name": SchedulingGate.TOPOLOGY}]
        return Setting(path, gates)

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a new pod: managed label, group, topology."""
        errors: list[FieldError] = []
        if meta.labels(job).get(Label.MANAGED, "true") != "true":
            errors.append(forbidden(MANAGED_LABEL, "managed label value can only be 'true'"))
        return errors + _group_errors(job, enabled) + _size_errors(job) + super().validate_create(job, enabled)

    def validate_update(self, old: Raw, new: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a changed pod: also changes of its group."""
        total, before = (meta.annotations(pod).get(Annotation.POD_GROUP_TOTAL_COUNT) for pod in (new, old))
        errors = self.validate_create(new, enabled)
        if total == before:  # a group that was created before there was a limit
            errors = [each for each in errors if each not in _size_errors(new)]
        by_annotation = enabled("WorkloadIdentifierAnnotations")
        before, after = (meta.pod_group(pod, annotation_first=by_annotation) for pod in (old, new))
        if after and unretriable(old) and not unretriable(new):
            errors.append(forbidden(RETRIABLE, "unretriable pod group can't be converted to retriable"))
        if before and after != before:
            errors.append(invalid(_group_path(new, enabled), after, "field is immutable"))
        watched = meta.labels(old).get(Label.MANAGED) == "true"
        if watched and Label.MANAGED not in meta.labels(new) and not ended(new):
            errors.append(forbidden(MANAGED_LABEL, "cannot be removed: a pod that runs would give its quota back"))
        return errors


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
OF_GROUPS: Final = frozenset(each.framework for each in GROUP_OWNERS)
"""The values of ``pod-suspending-parent`` whose pods form a group."""
POD: Final = Pod()


def parent(pod: Raw) -> str:
    """The framework of the object whose pods are queued instead of it (annotation ``pod-suspending-parent``)."""
    return str(meta.annotations(pod).get(Annotation.POD_SUSPENDING_PARENT) or "")


def gated(pod: Raw) -> bool:
    """Whether Seiretsu's gate is on the pod."""
    return any(each.get("name") == SchedulingGate.ADMISSION for each in at(pod, ("spec", "schedulingGates")) or ())


def opened(pod: Raw, injected: Raw, injection: Injection) -> Raw:
    """Returns a pod with its injection and without Seiretsu's gates, except for those of the injection that it has: the
    API server refuses additional ones. A pod without the gate for topologies was created while these were off, and runs
    on any nodes of its flavor.
    """
    gates = at(pod, POD.suspend_path) or ()
    kept = [each for each in gates if each.get("name") not in _OURS or each.get("name") in injection.gates]
    return changed(injected, POD.suspend_path, kept)


def phase(pod: Raw) -> str:
    """The phase of the pod, '' while it has none."""
    return str((pod.get("status") or {}).get("phase") or "")


def ended(pod: Raw) -> bool:
    """Whether the pod has succeeded or failed."""
    return phase(pod) in ("Succeeded", "Failed")


def has_run(pod: Raw) -> bool:
    """Whether the pod's status shows that it is or was on a node."""
    status = pod.get("status") or {}
    return phase(pod) not in ("", "Pending") or bool(status.get("startTime") or status.get("containerStatuses"))


def runs_in_worker(pod: Raw) -> bool:
    """Whether the status of the pod is that of a pod in another cluster that has not ended: it has its gate here."""
    return gated(pod) and has_run(pod) and not ended(pod)


def uses_node(pod: Raw) -> bool:
    """Whether the pod is on a node and has not ended."""
    return bool(at(pod, ("spec", "nodeName"))) and not ended(pod)


def terminates_for(pod: Raw, now: float, longest: float) -> float:
    """For how many seconds a pod that is being deleted counts as one that uses its node, 0 if it does not: at most
    ``longest`` after its deletion, because its owner chooses its grace period.
    """
    if not uses_node(pod):
        return 0.0
    metadata = pod["metadata"]
    asked = epoch(metadata["deletionTimestamp"]) - (metadata.get("deletionGracePeriodSeconds") or 0)
    return max(0.0, asked + longest - now)


def ready(pod: Raw) -> bool:
    """Whether the pod has the condition Ready."""
    return has_condition(pod, "Ready")


def has_condition(pod: Raw, kind: str) -> bool:
    """Whether a condition of the pod is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def unretriable(pod: Raw) -> bool:
    """Whether the pod may not be replaced in its group."""
    return bool(meta.annotations(pod).get(Annotation.RETRIABLE_IN_GROUP) == "false")


def _role(pod: Raw) -> Setting:
    """The role of a new pod, which nobody gives itself. That of a pod whose owner is queued names its place in the
    Workload of that owner; the controller compares its requests with those of the place.
    """
    given = meta.annotations(pod).get(Annotation.ROLE_HASH) if parent(pod) in OF_GROUPS else None
    return Setting(("metadata", "annotations", Annotation.ROLE_HASH), given or computed_role(pod))


def has_finalizer(pod: Raw) -> bool:
    """Whether Seiretsu's finalizer is on the pod."""
    return Finalizer.MANAGED in (pod["metadata"].get("finalizers") or ())


def without_finalizer(pod: Raw) -> list[Patch]:
    """Returns the patch that removes Seiretsu's finalizer from a pod; none if it has none."""
    if not has_finalizer(pod):
        return []
    left = [each for each in pod["metadata"]["finalizers"] if each != Finalizer.MANAGED]
    return [Patch(guarded({"metadata": {"finalizers": left or None}}, pod), target=target(pod))]


def freed(pod: Raw) -> list[Patch]:
    """Returns the patch that removes Seiretsu's gates and finalizer from a pod; none if it has neither."""
    before, after = at(pod, POD.suspend_path) or [], POD.release(pod).value
    gates = {"spec": {"schedulingGates": after or None}} if before != after else {}
    patches = without_finalizer(pod) or ([Patch(guarded({}, pod), target=target(pod))] if gates else [])
    return [replace(each, body={**each.body, **gates}) for each in patches]


def target(pod: Raw) -> Target:
    """The pod as the object of a write."""
    return Target(_RESOURCE, Key(pod["metadata"]["namespace"], pod["metadata"]["name"]))


def stopped(pod: Raw, cause: StopCause) -> list[Write]:
    """Marks a pod with the cause, and deletes it."""
    metadata = pod["metadata"]
    condition = {
        "type": TERMINATION_TARGET,
        "status": "True",
        "reason": cause.reason,
        "message": cause.message,
        "lastTransitionTime": stamp(cause.now),
    }
    mark = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "status": {"conditions": [condition]},
    }
    marked = [Patch(mark, subresource="status", target=target(pod), apply=True)] if cause.reason else []
    return [*marked, Delete(metadata["uid"], target(pod))]


def _pod_set(pod: Raw, slot: Slot) -> Raw:
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    return template.pod_set({"spec": spec}, name=slot.name, count=slot.count, drop_labels=frozenset(), min_count=None)


def _without_token(spec: Raw) -> Raw:
    """Returns a pod's spec without the volume of its token."""
    volumes = spec.get("volumes") or ()
    left = [each for each in volumes if not str(each.get("name")).startswith(_TOKEN)]
    if len(left) == len(volumes):
        return spec
    spec = {**spec, "volumes": left}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_without_mount(each) for each in spec[field]]
    return spec


def _without_mount(container: Raw) -> Raw:
    mounts = [each for each in container.get("volumeMounts") or () if not str(each.get("name")).startswith(_TOKEN)]
    return {**container, "volumeMounts": mounts} if "volumeMounts" in container else container


def _group_path(pod: Raw, enabled: Enabled) -> str:
    if enabled("WorkloadIdentifierAnnotations") and meta.annotations(pod).get(Annotation.POD_GROUP_NAME):
        return f"metadata.annotations[{Annotation.POD_GROUP_NAME}]"
    return f"metadata.labels[{Label.POD_GROUP_NAME}]"


def _group_errors(pod: Raw, enabled: Enabled) -> list[FieldError]:
    by_annotation = enabled("WorkloadIdentifierAnnotations")
    name = meta.pod_group(pod, annotation_first=by_annotation)
    path, total = _group_path(pod, enabled), meta.annotations(pod).get(Annotation.POD_GROUP_TOTAL_COUNT)
    place = "annotation" if "annotations" in path else "label"
    both = f"both the '{Annotation.POD_GROUP_TOTAL_COUNT}' annotation and the '{Annotation.POD_GROUP_NAME}' {place}"
    errors: list[FieldError] = []
    if name:
        texts = syntax.dns1123_subdomain(name)
        errors += [invalid(path, name, ",".join(texts))] if texts else []
        if total is None:
            errors.append(required(TOTAL_COUNT, f"{both} should be set"))
        prebuilt, at_path = meta.prebuilt_workload(pod, annotation_first=by_annotation)
        if prebuilt and prebuilt != name:
            errors.append(invalid(at_path, prebuilt, "prebuilt workload and pod group should be equal"))
    elif total is not None:
        return [*errors, required(path, f"{both} should be set")]
    if total is not None and (why := _no_total(total)):
        errors.append(invalid(TOTAL_COUNT, total, why))
    return errors


def _size_errors(pod: Raw) -> list[FieldError]:
    total = meta.annotations(pod).get(Annotation.POD_GROUP_TOTAL_COUNT)
    if total is None or _no_total(total) or integer(total) <= MOST_PODS:
        return []
    text = f"a group has at most {MOST_PODS} pods: make several groups of them, or a JobSet"
    return [invalid(TOTAL_COUNT, total, text)]


def _no_total(text: str) -> str:
    try:
        positive = integer(text) > 0
    except ValueError as error:
        return str(error)
    written = f"'{Annotation.POD_GROUP_TOTAL_COUNT}={text}'"
    return "" if positive else f"incorrect annotation value {written}: group total count should be greater than zero"
