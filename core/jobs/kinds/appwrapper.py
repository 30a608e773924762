"""AppWrapper (workload.codeflare.dev/v1beta2): objects of other kinds that are created, and deleted, together.

Where the pod templates of these objects are is in the status. Until its operator has written that, the same follows
from the components: their ``podSets``, or else the templates of the kinds that the operator knows. A start adds
``podSetInfos`` to the components, a stop removes them; the objects themselves are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from api.builtin import BOOLEAN, INTEGER, METADATA, POD_TEMPLATE, TEXT, fields, list_of, map_of
from api.errors import FieldError, invalid, required
from api.feature_gates import Enabled
from api.objects import Resource
from api.structural import Form
from core.jobs import meta, template
from core.jobs.admission.literals import integer
from core.jobs.fields import Path, at, changed, dotted
from core.jobs.job_reader import Outcome, Slot, count, holds
from core.jobs.kind import ANY_KIND, JobKind
from core.jobs.kinds.job import BATCH_JOB
from core.jobs.kinds.jobset import JOB_SET
from core.jobs.kinds.kubeflow import PY_TORCH_JOB
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.rayjob import RAY_JOB
from core.jobs.template import ConflictError, Injection
from core.jobs.topology_request import NOT_INDEXED, PodIndex
from core.model import Raw

_KNOWN: Final[tuple[JobKind, ...]] = (BATCH_JOB, JOB_SET, PY_TORCH_JOB, RAY_CLUSTER, RAY_JOB)
_REPLICATED: Final = Form(fields(spec=fields(replicas=INTEGER, template=POD_TEMPLATE)))
_TEMPLATE: Final = Form(POD_TEMPLATE)
_POD_SETS: Final = list_of(fields(replicas=INTEGER, path=TEXT, annotations=map_of(TEXT)))
_INDEX: Final = "workload.codeflare.dev.appwrapper/tas-"
_INDEX_PARTS: Final = ("pod-index-label", "sub-group-index-label", "sub-group-count")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]", re.ASCII)
_OF_CONTAINERS: Final = ("name", "image", "command", "args", "resources", "restartPolicy", "securityContext")
_OF_PODS: Final = (
    *("restartPolicy", "nodeSelector", "affinity", "tolerations", "priorityClassName", "overhead", "runtimeClassName"),
    *("schedulerName", "topologySpreadConstraints", "preemptionPolicy"),
)
"""The fields that decide about quota and nodes: those of the other fields may have defaults in a Workload alone."""


@dataclass(frozen=True, slots=True)
class Wrapped(Slot):
    """A pod template in a component; ``info`` is the field for what it is started with."""

    info: Path = ()


class AppWrapper(JobKind):
    """The ``workload.codeflare.dev/appwrapper`` framework."""

    framework = "workload.codeflare.dev/appwrapper"
    counted = "NAME-0, NAME-1, ...: those in `status.componentStatus`"
    makes = (ANY_KIND,)
    resource = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper")
    pods_path = ("spec", "components")
    pods_field = "pods of its components"
    topology_groups = False
    managed_by = ("spec", "managedBy")
    own_controller = "workload.codeflare.dev/appwrapper-controller"
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(
                suspend=BOOLEAN,
                managedBy=TEXT,
                components=list_of(
                    fields(
                        template={"type": "object"},
                        podSets=_POD_SETS,
                        podSetInfos=list_of(
                            fields(labels=map_of(TEXT), annotations=map_of(TEXT), nodeSelector=map_of(TEXT))
                        ),
                    )
                ),
            ),
            status=fields(componentStatus=list_of(fields(podSets=_POD_SETS))),
        )
    )

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set for each template of its components, numbered; none where one of them is no template."""
        components = at(job, self.pods_path) or []
        statuses = at(job, ("status", "componentStatus")) or []
        known = len(statuses) == len(components)
        name = str((job.get("metadata") or {}).get("name") or "").lower()
        found: list[Slot] = []
        for place, component in enumerate(components):
            here, called = (*self.pods_path, place), f"component {place}"
            parts = _named(statuses[place] if known else component)
            runs = {path: (pods, index) for pods, path, index in _inferred(component.get("template") or {})}
            if not known and not parts:
                parts = [(pods, path, index) for path, (pods, index) in runs.items()]
            if runs.keys() - {path for _, path, _ in parts}:
                return []  # pods that nobody counts
            for number, (pods, path, index) in enumerate(parts):
                info = (*here, "podSetInfos", number)
                set_name = f"{name}-{len(found)}"
                most = max(pods, runs[path][0]) if path in runs else pods
                found.append(Wrapped(set_name, most, (*here, *path), called=called, index=index, info=info))
        return found if all(_is_template(at(job, slot.path)) for slot in found) else []

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Refuses components with pods that their ``podSets`` do not count: they would run without quota."""
        return _uncounted(job) + super().validate_create(job, enabled)

    def validate_update(self, old: Raw, new: Raw, enabled: Enabled) -> list[FieldError]:
        """As for a new one; what the components counted before is not judged again."""
        before = _uncounted(old)
        new_errors = [error for error in _uncounted(new) if error not in before]
        return new_errors + super().validate_create(new, enabled)

    def template_of(self, job: Raw, slot: Slot, related: Sequence[Raw] = ()) -> Raw | None:
        """The pod template of a pod set, with what it is started with."""
        found = _reduced(at(job, slot.path))
        info = at(job, slot.info) if isinstance(slot, Wrapped) else None
        if not info:
            return found
        parts: Raw = {part: info.get(part) or {} for part in ("labels", "annotations", "nodeSelector")}
        given = Injection(
            name=slot.name,
            count=slot.count,
            labels=parts["labels"],
            annotations=parts["annotations"],
            node_selector=parts["nodeSelector"],
            tolerations=info.get("tolerations") or [],
        )
        try:
            return template.inject(found, given)
        except ConflictError:  # somebody else's: the operator will report it
            return found

    def injected(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Raw:
        """Returns the AppWrapper with the injection of each pod set beside its component."""
        slots = self.slots(job, related)
        if len(slots) != len(injections):
            raise ConflictError(f"the job has {len(slots)} pod sets, its workload {len(injections)}")
        infos: dict[int, list[Raw]] = {}
        for slot, injection in zip(slots, injections, strict=True):
            template.inject(_reduced(at(job, slot.path)), injection)  # raises where the template has another value
            marked = replace(injection, labels={**injection.labels, self.uid_label: meta.uid(job)})
            infos.setdefault(int(slot.path[2]), []).append(_info(marked))
        for component, found in infos.items():
            job = changed(job, (*self.pods_path, component, "podSetInfos"), found)
        return job

    def restored(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """The AppWrapper with its components as they were before the start."""
        components = at(job, self.pods_path) or []
        without = [{part: value for part, value in each.items() if part != "podSetInfos"} for each in components]
        return changed(job, self.pods_path, without)

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether its operator has not deleted its components."""
        return holds(job, "QuotaReserved")

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Succeeded, or Failed with all of its components deleted."""
        phase = at(job, ("status", "phase"))
        if phase == "Succeeded":
            return Outcome(True, "AppWrapper finished successfully")
        failed = phase == "Failed" and not holds(job, "ResourcesDeployed")
        return Outcome(False, "AppWrapper failed") if failed else None

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether its operator reports its pods as ready."""
        return holds(job, "PodsReady")


APP_WRAPPER: Final = AppWrapper()


def _named(holder: Raw) -> list[tuple[int, Path, PodIndex]]:
    """The pod sets that a component, or its status, names: number of pods, path of the template, index of a pod."""
    return [(count(each), _path(each.get("path") or ""), _index(each)) for each in holder.get("podSets") or ()]


def _uncounted(job: Raw) -> list[FieldError]:
    """Returns the errors of components whose ``podSets`` count fewer pods, or fewer templates, than they run."""
    errors: list[FieldError] = []
    for place, component in enumerate(at(job, ("spec", "components")) or ()):
        wrapped, field = component.get("template") or {}, f"spec.components[{place}].podSets"
        runs = {path: pods for pods, path, _ in _inferred(wrapped)}
        named = component.get("podSets") or ()
        given = {_path(each.get("path") or ""): (number, count(each)) for number, each in enumerate(named)}
        if named:
            errors += [
                invalid(f"{field}[{given[path][0]}].replicas", given[path][1], _RUNS.format(_called(wrapped), pods))
                for path, pods in runs.items()
                if path in given and given[path][1] < pods
            ]
        covered = given.keys() if named else runs.keys()
        missing = [path for path in _templates(wrapped) if path not in covered and path != _OF_SUBMITTER]
        errors += [required(field, _MISSING.format(dotted(path), _called(wrapped))) for path in missing]
        if _has_submitter(wrapped):
            mode = f"spec.components[{place}].template.spec.submissionMode"
            errors.append(invalid(mode, at(wrapped, ("spec", "submissionMode")) or "", _SUBMITS))
    return errors


def _has_submitter(wrapped: Any) -> bool:
    """Whether it is a RayJob with a pod that submits it, which the AppWrapper's operator counts nowhere."""
    if not isinstance(wrapped, dict) or wrapped.get("kind") != RAY_JOB.kind or RAY_JOB.form.errors(wrapped):
        return False
    return any(("template", *slot.path) == _OF_SUBMITTER for slot in RAY_JOB.slots(wrapped))


_RUNS: Final = "the {} in this component runs {} pods: set that number, or leave out podSets"
_MISSING: Final = (
    "add an element with path {} and the number of its pods: the {} in this component has this pod template"
)
_SUBMITS: Final = (
    "an AppWrapper does not count the pod that submits this RayJob: set SidecarMode or HTTPMode, or queue the RayJob"
    " itself"
)
_OF_SUBMITTER: Final[Path] = ("template", "spec", "submitterPodTemplate")
_DEEPEST: Final = 12
"""How many levels of an object are searched for pod templates: those of the kinds known here have at most nine."""


def _called(wrapped: Raw) -> str:
    return str(wrapped.get("kind") or "object")


def _templates(wrapped: Raw) -> list[Path]:
    """The paths of all pod templates of an object: what has a ``spec`` with ``containers``."""
    found: list[Path] = []
    waiting: list[tuple[Path, Any]] = [(("template",), wrapped)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > _DEEPEST:
            continue
        if isinstance(value, dict):
            spec = value.get("spec")
            if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                found.append(path)
                continue
            waiting += [((*path, key), each) for key, each in value.items() if isinstance(each, dict | list)]
        elif isinstance(value, list):
            waiting += [((*path, place), each) for place, each in enumerate(value) if isinstance(each, dict | list)]
    return sorted(found, key=dotted)


def _index(pod_set: Raw) -> PodIndex:
    """The index that the annotations of a pod set define; a number that cannot be parsed is left out."""
    given = pod_set.get("annotations") or {}
    pod, replica, count = (given.get(f"{_INDEX}{part}") or "" for part in _INDEX_PARTS)
    try:
        return PodIndex(pod, replica, integer(count))
    except ValueError:
        return PodIndex(pod, replica)


def _inferred(wrapped: Any) -> list[tuple[int, Path, PodIndex]]:
    """The pod sets of an object of a kind that the operator knows; none of any other."""
    if not isinstance(wrapped, dict):
        return []
    named = (wrapped.get("apiVersion"), wrapped.get("kind"))
    if named == ("v1", "Pod"):
        return [(1, ("template",), NOT_INDEXED)]
    if named in (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet")) and not _REPLICATED.errors(wrapped):
        return [(count(wrapped.get("spec") or {}), ("template", "spec", "template"), NOT_INDEXED)]
    kind = next((each for each in _KNOWN if (each.api_version, each.kind) == named), None)
    if kind is None or kind.form.errors(wrapped):
        return []
    # Its operator does not count the submitter of a RayJob, which is outside of the cluster.
    slots = [slot for slot in kind.slots(wrapped) if slot.path[: len(kind.pods_path)] == kind.pods_path]
    return [(slot.count, ("template", *slot.path), slot.index) for slot in slots]


def _path(text: str) -> Path:
    """A path as the status has it, for example ``template.spec.template``; one that cannot be read leads nowhere."""
    first, rest = text[: len("template")], text[len("template") :]
    steps = [*_STEP.finditer(rest)]
    if first != "template" or "".join(step[0] for step in steps) != rest:
        return ("",)
    return ("template", *(step[1] if step[1] is not None else int(step[2]) for step in steps))


def _is_template(found: Any) -> bool:
    return isinstance(found, dict) and bool(found.get("spec")) and not _TEMPLATE.errors(found)


def _reduced(found: Raw) -> Raw:
    """The template without fields that decide nothing here."""
    spec = found.get("spec") or {}
    metadata = {part: (found.get("metadata") or {}).get(part) for part in ("labels", "annotations")}
    kept: Raw = {part: spec[part] for part in _OF_PODS if spec.get(part)}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            kept[part] = [{name: each[name] for name in _OF_CONTAINERS if name in each} for each in spec[part]]
    return {"metadata": {part: value for part, value in metadata.items() if value}, "spec": kept}


def _info(injection: Injection) -> Raw:
    parts = {
        "labels": dict(injection.labels),
        "annotations": dict(injection.annotations),
        "nodeSelector": dict(injection.node_selector),
        "tolerations": list(injection.tolerations),
        "schedulingGates": template.with_gates((), injection.gates),
    }
    return {part: value for part, value in parts.items() if value}
