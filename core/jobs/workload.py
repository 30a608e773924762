"""The Workload of a job: its name, its content, and whether it still matches.

The same for every kind of job. Names and labels are Kueue's, so either program finds the other's Workloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api import names, quantity
from api.objects import Resource
from api.syntax import label_value
from core.jobs import meta, template
from core.jobs.kind import JobKind
from core.jobs.template import Injection
from core.model import Key, Raw
from core.wire.guard import guarded

_HASH_LENGTH = 5
LONG_NAME: Final = 253
SHORT_NAME: Final = 63
"""So long may a name be with the feature gate ShortWorkloadNames: it is then the value of a label."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a Workload gets from its job in addition to its pod sets: labels and annotations with these keys, the
    topology requests of its pod templates (feature gate TopologyAwareScheduling), and a name of at most so many
    characters. ``queue_labels`` is whether its pods get the labels of its queues (AssignQueueLabelsForPods).
    """

    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    topology_requests: bool = False
    longest_name: int = LONG_NAME
    queue_labels: bool = True


NOTHING_COPIED: Final = Copied()


def max_execution_seconds(job: Raw) -> int | None:
    """How long the job may run in all; None without limit or where the label is no positive number."""
    text = meta.labels(job).get(names.Label.MAX_EXEC_TIME_SECONDS, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def name(
    kind: JobKind, job: Raw, *, elastic: bool = False, related: Sequence[Raw] = (), longest: int = LONG_NAME
) -> str:
    """``kind-name-hash``: five hex digits over kind, group, name and uid distinguish names that would otherwise
    collide, and for an elastic job its size. Of a name longer than ``longest`` the end before the hash is left out.
    """
    metadata = job["metadata"]
    more = [kind.slice_of(job, related)] if elastic else []
    return name_of(kind.resource, metadata["name"], metadata["uid"], *more, longest=longest)


def name_of(resource: Resource, job: str, uid: str, *more: str, longest: int = LONG_NAME) -> str:
    """The name of the Workload of an object with this name and uid."""
    return _hashed(f"{resource.kind.lower()}-{job}", resource.kind, resource.group, job, uid, *more, longest=longest)


def variant_name(parent: str, uid: str, flavor: str, *, longest: int = LONG_NAME) -> str:
    """The name of the variant for a flavor of the Workload with this name and uid: its name without the hash, with
    another one.
    """
    base = f"{parent.rpartition('-')[0] or parent}-variant-{flavor}"
    return _hashed(base, names.Kind.WORKLOAD, names.GROUP, parent, uid, flavor, longest=longest)


def _hashed(prefix: str, *of: str, longest: int) -> str:
    digest = hashlib.sha1("\n".join(of).encode()).hexdigest()
    return f"{prefix[: longest - 1 - _HASH_LENGTH]}-{digest[:_HASH_LENGTH]}"


def manifest(
    kind: JobKind,
    job: Raw,
    priority: Raw,
    copied: Copied = NOTHING_COPIED,
    *,
    related: Sequence[Raw] = (),
    elastic: bool = False,
    replaces: Raw | None = None,
) -> Raw:
    """Returns the Workload to create for a job; ``priority`` is the result of ``core.workload.priority.of_job``. That
    of an elastic job may replace another one.
    """
    metadata, own = job["metadata"], name(kind, job, elastic=elastic, related=related, longest=copied.longest_name)
    parts = kind.parts(job)
    labels = _chosen(map(meta.labels, parts), copied.labels)
    if not label_value(metadata["uid"]):
        labels[names.Label.JOB_UID] = metadata["uid"]
    annotations = _chosen(map(meta.annotations, parts), copied.annotations) | {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(names.Annotation.PROVISIONING_PARAMETER_PREFIX)
        or (key == names.Annotation.ADMISSION_GATED_BY and value)
    }
    annotations |= priority.get("metadata", {}).get("annotations", {})
    annotations |= _of_slice(own, replaces) if elastic else {}
    made = {
        "apiVersion": names.API_VERSION,
        "kind": names.Kind.WORKLOAD,
        "metadata": {
            "name": own,
            "namespace": metadata["namespace"],
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "finalizers": [names.Finalizer.RESOURCE_IN_USE],
            "ownerReferences": [meta.owner_reference(kind.api_version, kind.kind, job)],
        },
        "spec": {**_spec(kind, job, related, copied), **priority["spec"]},
    }
    return kind.own(job, made)


def _of_slice(own: str, replaces: Raw | None) -> dict[str, str]:
    """Returns the annotations of a slice: all slices of a job have the name of the first one."""
    found = {names.Annotation.ELASTIC_JOB: "true", names.Annotation.WORKLOAD_SLICE_NAME: own}
    if replaces is not None:
        found[names.Annotation.WORKLOAD_SLICE_NAME] = slice_name(replaces) or replaces["metadata"]["name"]
        found[names.Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR] = str(key(replaces))
    return found


def slice_name(raw: Raw) -> str:
    """The name that all slices of an elastic job share, '' for the Workload of another job."""
    return str(meta.annotations(raw).get(names.Annotation.WORKLOAD_SLICE_NAME) or "")


def _chosen(found: Iterable[Mapping[str, str]], keys: Collection[str]) -> dict[str, str]:
    """Returns the values of these keys, each from the first object that has it."""
    chosen: dict[str, str] = {}
    for each in found:
        chosen |= {key: each[key] for key in sorted(keys) if key in each and key not in chosen}
    return chosen


def matching_patch(
    kind: JobKind,
    job: Raw,
    workload: Raw,
    priority: Raw | None,
    copied: Copied = NOTHING_COPIED,
    *,
    related: Sequence[Raw] = (),
) -> Raw:
    """Returns the patch with which a Workload without reservation matches its changed job; ``priority`` is the result
    of ``core.workload.priority.followed``.
    """
    followed = priority or {}
    spec = {"queueName": None, "maximumExecutionTimeSeconds": None, **_spec(kind, job, related, copied)}
    patch = {"metadata": followed.get("metadata", {}), "spec": {**spec, **followed.get("spec", {})}}
    return guarded(patch, workload)


def stands_for(
    workload: Raw,
    kind: JobKind,
    job: Raw,
    *,
    admitted: bool,
    running: Sequence[Injection] | None,
    related: Sequence[Raw] = (),
    elastic: bool = False,
) -> bool:
    """Whether the Workload matches the job; that of an elastic job may have other counts.

    While quota is reserved the job may look as started (``running`` are those pod sets) or, suspended, as before.
    Tolerations are compared until admission, as in Kueue. Node selector and affinity are compared while no quota is
    reserved: they decide which flavors fit. Kueue does not compare them; there a waiting job whose node selector is
    changed is admitted with the old one, and then cannot start.
    """
    if not kind.owns(job, workload):
        return False
    spec = workload.get("spec") or {}
    if spec.get("maximumExecutionTimeSeconds") != max_execution_seconds(job):
        return False
    found = kind.matches(job, workload)
    if found is not None:
        return found
    wanted = kind.pod_sets(job, related)
    if not wanted:
        return True  # the templates are those of a related object, which is not there at the moment
    wanted, before = kind.compared(job, wanted), kind.compared(job, spec.get("podSets") or [])
    wanted = _resized(wanted, before) if elastic else wanted
    if running is not None:
        started = _started(before, running)
        if started is not None and _equal_pod_sets(wanted, started, tolerations=not admitted):
            return True
        if not kind.suspended(job):
            return False
    if not _equal_pod_sets(wanted, before, tolerations=not admitted):
        return False
    return running is not None or as_started(workload, kind, job, related) or _equal_placement(wanted, before)


def as_started(workload: Raw, kind: JobKind, job: Raw, related: Sequence[Raw] = ()) -> bool:
    """Whether the job's pod templates still are as a start with this Workload, or with a slice before it, left them:
    they have its name.
    """
    return any(_marked(each, workload) for each in kind.pod_sets(job, related)) and not any(
        _marked(each, workload) for each in (workload.get("spec") or {}).get("podSets") or ()
    )


def _marked(pod_set: Raw, workload: Raw) -> bool:
    found = meta.annotations(pod_set["template"])
    common = slice_name(workload)
    if common and found.get(names.Annotation.WORKLOAD_SLICE_NAME) == common:
        return True
    return bool(found.get(names.Annotation.WORKLOAD) == workload["metadata"]["name"])


def _resized(pod_sets: Sequence[Raw], before: Sequence[Raw]) -> list[Raw]:
    """The pod sets with the counts of others that have the same names."""
    if [each["name"] for each in pod_sets] != [each["name"] for each in before]:
        return list(pod_sets)
    return [{**this, "count": that["count"]} for this, that in zip(pod_sets, before, strict=True)]


def key(raw: Raw) -> Key:
    """Namespace and name."""
    return Key(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _spec(kind: JobKind, job: Raw, related: Sequence[Raw], copied: Copied) -> Raw:
    queue, seconds = meta.queue_name(job), max_execution_seconds(job)
    asked = kind.topology_requests(job, related) if copied.topology_requests else {}
    return {
        **({"queueName": queue} if queue else {}),
        "podSets": [
            {**each, "topologyRequest": asked[each["name"]]} if each["name"] in asked else each
            for each in kind.pod_sets(job, related)
        ],
        **({"maximumExecutionTimeSeconds": seconds} if seconds is not None else {}),
    }


def _started(pod_sets: Sequence[Raw], running: Sequence[Injection]) -> list[Raw] | None:
    by_name = {injection.name: injection for injection in running}
    partial = any(pod_set.get("minCount", pod_set["count"]) < pod_set["count"] for pod_set in pod_sets)
    started = []
    for found in pod_sets:
        injection = by_name.get(found["name"])
        if injection is None:
            return None
        try:
            injected = template.inject(found["template"], injection)
        except template.ConflictError:  # the flavor was changed since: its additions are not those of the start
            injected = found["template"]
        count = injection.count if partial and found.get("minCount") is not None else found["count"]
        started.append({**found, "template": injected, "count": count})
    return started


def _equal_pod_sets(these: Sequence[Raw], those: Sequence[Raw], *, tolerations: bool) -> bool:
    return len(these) == len(those) and all(
        _equal_pod_set(this, that, tolerations=tolerations) for this, that in zip(these, those, strict=True)
    )


def _equal_pod_set(this: Raw, that: Raw, *, tolerations: bool) -> bool:
    if (this["count"], this.get("minCount")) != (that["count"], that.get("minCount")):
        return False
    mine, theirs = this["template"].get("spec") or {}, that["template"].get("spec") or {}
    parts = ("containers", "initContainers", "tolerations") if tolerations else ("containers", "initContainers")
    return all(
        mine.get(part) == theirs.get(part) or _semantic(mine.get(part)) == _semantic(theirs.get(part)) for part in parts
    )


def _equal_placement(these: Sequence[Raw], those: Sequence[Raw]) -> bool:
    """Whether pod sets that are equal otherwise ask for the same nodes."""

    def nodes(pod_set: Raw) -> list[Any]:
        spec = pod_set["template"].get("spec") or {}
        return [_semantic(spec.get(part) or {}) for part in ("nodeSelector", "affinity")]

    return [nodes(each) for each in these] == [nodes(each) for each in those]


def _semantic(value: Any) -> Any:
    """Returns the value in a normal form: empty values are removed, quantities are numbers."""
    if isinstance(value, Mapping):
        found = {
            key: _amounts(part) if key in ("requests", "limits") else _semantic(part) for key, part in value.items()
        }
        return {key: part for key, part in found.items() if part not in (None, {}, [])}
    if isinstance(value, list):
        return [_semantic(part) for part in value]
    return value


def _amounts(value: Any) -> Any:
    try:
        return {res: quantity.exact(amount) for res, amount in value.items()} if isinstance(value, Mapping) else value
    except ValueError:
        return value
