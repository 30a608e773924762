"""The changes of pod templates at admission, and their removal: node labels, tolerations, marks, scheduling gates.

They are the same for every kind of job. Templates are copied, changed, and compared: the patch is the difference
(``merge_diff``), so other fields of a template are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from api import names
from api.syntax import label_value
from core.model import PodSetAssignment, Raw, TopologyRequest, Workload

_OURS = frozenset(
    {
        *(
            names.Label.POD_SET,
            names.Label.CLUSTER_QUEUE,
            names.Label.LOCAL_QUEUE,
            names.Label.JOB_UID,
            names.Label.MULTIKUEUE_WORKER_WORKLOAD_POD,
            names.JobControllerLabel.CONTROLLER_UID,
        ),
        names.Annotation.WORKLOAD,
        names.Annotation.WORKLOAD_SLICE_NAME,
        names.Annotation.UNCONSTRAINED_TOPOLOGY,
    }
)
"""Keys that Seiretsu sets: an old value in a job, for example from a copied manifest, is no conflict."""


class ConflictError(ValueError):
    """A pod template has another value where admission must write; retrying cannot help."""


class FlavorMissingError(LookupError):
    """A flavor of the admission does not exist (yet): to be tried again when it does."""


@dataclass(frozen=True, slots=True)
class Injection:
    """The injection for one pod set; ``count`` is the number of admitted pods. ``checks`` has the admission check that
    added a key to a part, for messages. ``gates`` are names of scheduling gates.
    """

    name: str
    count: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Raw] = ()
    gates: Sequence[str] = ()
    checks: Mapping[tuple[str, str], str] = field(default_factory=dict)


def injections(
    workload: Workload, flavors: Mapping[str, Raw], *, by_topology: bool = True, queue_labels: bool = True
) -> list[Injection]:
    """Returns the injections of an admitted Workload, from its flavors and its admission checks. Pods that have domains
    wait for those with a scheduling gate, unless nothing is placed ``by_topology`` any more (feature gate
    TopologyAwareScheduling). With ``queue_labels`` they get the labels of their queues (AssignQueueLabelsForPods).
    """
    assert workload.admission is not None, f"Workload {workload.key} is started without an admission"
    asked = {pod_set.name: pod_set.topology for pod_set in workload.pod_sets}
    found = []
    for given in workload.admission.pod_sets:
        placed = by_topology and given.topology is not None
        marked = replace(
            of_flavors(given, flavors),
            labels=_labels(workload, given.name, of_queues=queue_labels),
            annotations={**_annotations(workload), **(_implied(asked.get(given.name)) if placed else {})},
            gates=(names.SchedulingGate.TOPOLOGY,) if placed else (),
        )
        found.append(_with_updates(marked, workload))
    return found


def _implied(asked: TopologyRequest | None) -> dict[str, str]:
    """The annotation of pods that are placed by topology although their template names no level: without it they would
    count as pods of others on their nodes.
    """
    if asked is not None and (asked.required or asked.preferred or asked.unconstrained):
        return {}
    return {names.Annotation.UNCONSTRAINED_TOPOLOGY: "true"}


def of_flavors(given: PodSetAssignment, flavors: Mapping[str, Raw]) -> Injection:
    """Returns what the flavors of a pod set add to its pods."""
    selector: dict[str, str] = {}
    tolerations: list[Raw] = []
    for name in dict.fromkeys(given.flavors.values()):
        if name not in flavors:
            raise FlavorMissingError(f'ResourceFlavor "{name}" not found')
        spec = flavors[name].get("spec") or {}
        selector |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or []
    return Injection(given.name, given.count, node_selector=selector, tolerations=tolerations)


def _annotations(workload: Workload) -> dict[str, str]:
    found = {names.Annotation.WORKLOAD: workload.key.name}
    return {**found, names.Annotation.WORKLOAD_SLICE_NAME: workload.slice_name} if workload.slice_name else found


def pod_set(pod_template: Raw, *, name: str, count: int, drop_labels: frozenset[str], min_count: int | None) -> Raw:
    """Returns a pod set of a job: its template, without the parts that belong to one run and without duplicate
    variables.
    """
    metadata = {key: value for key, value in (pod_template.get("metadata") or {}).items() if key != "creationTimestamp"}
    if labels := metadata.get("labels"):
        metadata["labels"] = {key: value for key, value in labels.items() if key not in drop_labels}
    spec = dict(pod_template.get("spec") or {})
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_without_doubles(container) for container in spec[part]]
    found: Raw = {"name": name, "count": count, "template": {"metadata": metadata, "spec": spec}}
    return found if min_count is None else {**found, "minCount": min_count}


def is_gated(gates: Iterable[Raw]) -> bool:
    """Whether the gate of elastic jobs is among these scheduling gates."""
    return any(gate.get("name") == names.SchedulingGate.ELASTIC_JOB for gate in gates)


def with_gates(gates: Sequence[Raw], added: Sequence[str]) -> list[Raw]:
    """Returns these scheduling gates with those that are added, each once."""
    known = {gate.get("name") for gate in gates}
    return [*gates, *({"name": name} for name in added if name not in known)]


def inject(template: Raw, injection: Injection) -> Raw:
    """Returns the template with the injection; raises ConflictError if it has another value already."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    by = injection.checks
    labels = _united("labels", metadata.get("labels"), injection.labels, by, _OURS)
    annotations = _united("annotations", metadata.get("annotations"), injection.annotations, by, _OURS)
    selector = _united("nodeSelector", spec.get("nodeSelector"), injection.node_selector, by)
    tolerations = _appended(spec.get("tolerations") or [], injection.tolerations)
    gates = with_gates(spec.get("schedulingGates") or [], injection.gates)
    return {
        **template,
        "metadata": _with(metadata, labels=labels or None, annotations=annotations or None),
        "spec": _with(
            spec, nodeSelector=selector or None, tolerations=tolerations or None, schedulingGates=gates or None
        ),
    }


def restore(template: Raw, original: Raw, *, keep_labels: frozenset[str] = frozenset()) -> Raw:
    """The template with all that ``inject`` may have changed as in the original; some labels are kept as they are."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    old_metadata, old_spec = original.get("metadata") or {}, original.get("spec") or {}
    kept = {key: value for key, value in (metadata.get("labels") or {}).items() if key in keep_labels}
    labels = {**(old_metadata.get("labels") or {}), **kept} or old_metadata.get("labels")
    found = _with(metadata, labels=labels, annotations=old_metadata.get("annotations"))
    pod = _with(spec, **{part: old_spec.get(part) for part in _INJECTED})
    return _with(template, metadata=found or None, spec=pod)


_INJECTED: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _with(holder: Raw, **parts: Any) -> Raw:
    """Returns the object with these parts, and without those that are None."""
    rest = {key: value for key, value in holder.items() if key not in parts}
    return rest | {key: value for key, value in parts.items() if value is not None}


def merge_diff(old: Raw, new: Raw) -> Raw:
    """The JSON merge patch (RFC 7386) that turns ``old`` into ``new``; absent and empty are the same."""
    patch: Raw = {}
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if same(before, after):
            continue
        if isinstance(after, dict) and after and (isinstance(before, dict) or before is None):
            patch[key] = merge_diff(before or {}, after)
        else:
            patch[key] = None if _empty(after) else after
    return patch


def _without_doubles(container: Raw) -> Raw:
    """Of several environment variables of one name the last one counts; the Workload's API refuses doubles."""
    variables = container.get("env") or []
    last = {variable["name"]: variable for variable in variables}
    return container if len(last) == len(variables) else {**container, "env": list(last.values())}


def same(before: Any, after: Any) -> bool:
    """Whether two values are equal where absent and empty are the same; a list is patched as a whole or not at all."""
    if before == after or (_empty(before) and _empty(after)):
        return True
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return all(same(before.get(key), after.get(key)) for key in before.keys() | after.keys())
    return False


def _empty(value: Any) -> bool:
    return value is None or value == {} or value == []


def _labels(workload: Workload, pod_set: str, *, of_queues: bool) -> dict[str, str]:
    assert workload.admission is not None
    labels = {names.Label.POD_SET: pod_set}
    if of_queues:
        labels[names.Label.LOCAL_QUEUE] = workload.queue
        labels[names.Label.CLUSTER_QUEUE] = workload.admission.cluster_queue
    if workload.from_manager:
        labels[names.Label.MULTIKUEUE_WORKER_WORKLOAD_POD] = "true"
    return {key: value for key, value in labels.items() if not label_value(value)}  # names may be longer than labels


def _with_updates(injection: Injection, workload: Workload) -> Injection:
    """Returns the injection with the additions of the admission checks for this pod set."""
    parts: dict[str, Mapping[str, str]] = {
        "labels": injection.labels,
        "annotations": injection.annotations,
        "nodeSelector": injection.node_selector,
    }
    tolerations, by = injection.tolerations, dict(injection.checks)
    for check in workload.checks:
        for update in check.pod_set_updates:
            if update.get("name") != injection.name:
                continue
            for part in parts:
                added = update.get(part) or {}
                by |= {(part, key): check.name for key in added}
                parts[part] = _united(part, parts[part], added, by)
            tolerations = _appended(tolerations, update.get("tolerations") or [])
    return replace(
        injection,
        labels=parts["labels"],
        annotations=parts["annotations"],
        node_selector=parts["nodeSelector"],
        tolerations=tolerations,
        checks=by,
    )


def _united(
    part: str,
    these: Mapping[str, str] | None,
    those: Mapping[str, str],
    checks: Mapping[tuple[str, str], str],
    replaced: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Returns both; ConflictError for a key with two values, except those that are ``replaced``."""
    united = dict(these or {})
    for key in sorted(those):
        if key in united and united[key] != those[key] and key not in replaced:
            check = checks.get((part, key))
            raise ConflictError(
                (f'in admission check "{check}": ' if check else "")
                + f"invalid admission check PodSetUpdate: conflict for {part}: conflict for key={key}, "
                f"value1={united[key]}, value2={those[key]}"
            )
        united[key] = those[key]
    return united


def _appended(these: Sequence[Raw], those: Sequence[Raw]) -> list[Raw]:
    return [*these, *(toleration for toleration in those if toleration not in these)]
