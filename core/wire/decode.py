"""Decodes stored API objects (v1beta2, absent fields have the API's defaults) into the values with which core decides.

Only this module knows the JSON of Seiretsu's kinds for reading; the rules that patch know it for writing. There may be
100,000 pending Workloads, so their pod sets are interned: equal ones are one value, computed once (see
``WorkloadContext``).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from api import names, quantity
from api.convert import topology_assignment as topology
from api.errors import FieldError
from api.objects import key_of
from api.topology_spreading import REQUIRED, SpreadingValue
from api.topology_spreading import errors as spreading_errors
from api.topology_spreading import parsed as parsed_spreading
from core import model
from core.devices.inventory import Inventory
from core.model import (
    ANYWHERE,
    NODE_NAME,
    Admission,
    CheckRule,
    CheckState,
    Condition,
    FlavorResource,
    Fungibility,
    GateState,
    Key,
    Migration,
    Placement,
    PodSet,
    PodSetAssignment,
    Preemption,
    Quota,
    Raw,
    Requirement,
    ResourceGroup,
    Selector,
    Spreading,
    SpreadRule,
    Taint,
    Toleration,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)
from core.model.owner import owner
from core.model.topology import NEVER_READY
from core.model.workload import COARSE, COMMON, Rare
from core.wire import devices
from core.wire.pod_requests import Effective, RequestRules, effective
from core.wire.timestamps import maybe_epoch

_MOST_CACHED = 20_000
_PodSets: TypeAlias = tuple[tuple[PodSet, ...], tuple[str, ...]]
_encode: Final = msgspec.json.Encoder().encode
_NO_TOPOLOGY: Final = TopologyRequest()


@dataclass(frozen=True, slots=True)
class WorkloadContext:
    """The context in which Workloads of one namespace are decoded; a new one is needed when LimitRanges, RuntimeClasses
    or settings change.

    ``pod_sets`` caches pod sets decoded with these rules, and is not part of the value. ``priority_boost``,
    ``admission_gates``, ``reclaimable_pods`` and ``elastic_jobs`` are the feature gates PriorityBoost,
    AdmissionGatedBy, ReclaimablePods and ElasticJobsViaWorkloadSlices; ``preemption_gates`` is whether
    ConcurrentAdmission or MultiKueueOrchestratedPreemption is on, ``concurrent_admission`` whether the former is;
    ``spreading`` is TASTopologySpreading, ``coarse_reasons`` whether UnadmittedWorkloadsObservability is off.
    """

    rules: RequestRules = field(default_factory=RequestRules)
    priority_boost: bool = False
    admission_gates: bool = True
    reclaimable_pods: bool = True
    elastic_jobs: bool = True
    preemption_gates: bool = False
    concurrent_admission: bool = False
    spreading: bool = False
    coarse_reasons: bool = False
    pod_sets: dict[bytes, _PodSets] = field(default_factory=dict, compare=False, repr=False)
    spread: dict[Hashable, tuple[tuple[PodSet, ...], tuple[PodSet, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Pod sets, and the same with how they are spread, by identity."""


def selector(raw: Raw | None) -> Selector | None:
    """Decodes a label selector; None if there is none (for a namespaceSelector that matches no namespace)."""
    if raw is None:
        return None
    labels = [Requirement(name, "In", (value,)) for name, value in sorted((raw.get("matchLabels") or {}).items())]
    return Selector((*labels, *_requirements(raw.get("matchExpressions"))))


def resource_flavor(raw: Raw) -> model.ResourceFlavor:
    """A ResourceFlavor."""
    spec = raw.get("spec") or {}
    return model.ResourceFlavor(
        name=raw["metadata"]["name"],
        node_labels=spec.get("nodeLabels") or {},
        node_taints=tuple(
            Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in spec.get("nodeTaints") or []
        ),
        tolerations=_tolerations(spec.get("tolerations")),
        topology_name=spec.get("topologyName"),
    )


def node(raw: Raw) -> model.Node:
    """A Node with what placement, failures and warnings need of it; a quantity that cannot be read is left out. Texts
    are shared: nodes have most labels in common.
    """
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    amounts: dict[str, int] = {}
    for resource, amount in (status.get("allocatable") or {}).items():
        with contextlib.suppress(ValueError):
            amounts[sys.intern(resource)] = quantity.amount(resource, amount)
    ready: Raw = next((each for each in status.get("conditions") or () if each.get("type") == "Ready"), {})
    since = (maybe_epoch(ready.get("lastTransitionTime")) or NEVER_READY) if ready.get("status") != "True" else None
    return model.Node(
        name=raw["metadata"]["name"],
        labels={sys.intern(key): sys.intern(value) for key, value in (raw["metadata"].get("labels") or {}).items()},
        taints=tuple(Taint(each["key"], each.get("value", ""), each["effect"]) for each in spec.get("taints") or ()),
        allocatable=amounts,
        usable=since is None and not spec.get("unschedulable"),
        unready_since=since,
    )


def topology_object(raw: Raw) -> model.Topology:
    """A Topology."""
    levels = tuple(level["nodeLabel"] for level in (raw.get("spec") or {}).get("levels") or ())
    return model.Topology(raw["metadata"]["name"], levels)


def admission_check(raw: Raw) -> model.AdmissionCheck:
    """Decodes an AdmissionCheck; it is active if its condition Active is True."""
    spec = raw.get("spec") or {}
    active = _conditions(raw.get("status") or {}, (names.Condition.ACTIVE,))
    parameters = spec.get("parameters")
    return model.AdmissionCheck(
        name=raw["metadata"]["name"],
        controller_name=spec.get("controllerName", ""),
        active=any(condition.status for condition in active),
        parameters=model.Parameters(parameters["apiGroup"], parameters["kind"], parameters["name"])
        if parameters
        else None,
    )


def cohort(raw: Raw) -> model.Cohort:
    """A Cohort object."""
    spec = raw.get("spec") or {}
    return model.Cohort(
        name=raw["metadata"]["name"],
        parent=spec.get("parentName") or "",
        quotas=_quotas(spec),
        weight=_weight(spec),
    )


def cluster_queue(raw: Raw) -> model.ClusterQueue:
    """A ClusterQueue."""
    spec, metadata = raw.get("spec") or {}, raw["metadata"]
    fungibility = spec.get("flavorFungibility") or {}
    return model.ClusterQueue(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        cohort=spec.get("cohortName") or "",
        groups=tuple(
            ResourceGroup(
                resources=tuple(group.get("coveredResources") or []),
                flavors=tuple(flavor["name"] for flavor in group.get("flavors") or []),
            )
            for group in spec.get("resourceGroups") or []
        ),
        quotas=_quotas(spec),
        strategy=model.QueueingStrategy(spec.get("queueingStrategy") or names.QueueingStrategy.BEST_EFFORT_FIFO),
        namespace_selector=selector(spec.get("namespaceSelector")),
        fungibility=Fungibility(
            when_can_borrow=fungibility.get("whenCanBorrow") or names.Fungibility.MAY_STOP_SEARCH,
            when_can_preempt=fungibility.get("whenCanPreempt") or names.Fungibility.TRY_NEXT_FLAVOR,
            preference=fungibility.get("preference") or "",
        ),
        preemption=_preemption(spec.get("preemption") or {}),
        checks=check_rules(raw),
        stop_policy=model.StopPolicy(spec.get("stopPolicy") or names.StopPolicy.NONE),
        weight=_weight(spec),
        admission_mode=(spec.get("admissionScope") or {}).get("admissionMode") or "",
        migration=_migration(spec),
        deleting="deletionTimestamp" in metadata,
        generation=metadata.get("generation", 0),
    )


def check_rules(queue: Raw) -> tuple[CheckRule, ...]:
    """The AdmissionChecks that a ClusterQueue asks for."""
    found = ((queue.get("spec") or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return tuple(CheckRule(check["name"], frozenset(check.get("onFlavors") or [])) for check in found)


def local_queue(raw: Raw) -> model.LocalQueue:
    """A LocalQueue."""
    spec, metadata = raw.get("spec") or {}, raw["metadata"]
    return model.LocalQueue(
        key=key_of(raw),
        cluster_queue=spec.get("clusterQueue") or "",
        uid=metadata.get("uid", ""),
        stop_policy=model.StopPolicy(spec.get("stopPolicy") or names.StopPolicy.NONE),
        weight=_weight(spec),
        deleting="deletionTimestamp" in metadata,
        generation=metadata.get("generation", 0),
    )


def workload(raw: Raw, context: WorkloadContext, before: model.Workload | None = None) -> model.Workload:
    """A Workload, its requests effective under the context's rules.

    Counts and usages are those of spec and status.admission; ``reclaimable`` is not yet taken off them. ``invalid`` is
    one text, as Kueue puts it, and empty in the normal case. Shares its key and uid with the version ``before``, which
    other structures refer to.
    """
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    pod_sets, invalid = _pod_sets(spec.get("podSets") or (), context)
    uncounted = ""
    counts = context.rules.devices
    claims = counts is not None and (bool(counts.extended) or _has_claims(spec.get("podSets") or ()))
    if claims:
        pod_sets, uncounted = _with_devices(metadata.get("namespace", ""), spec.get("podSets") or (), pod_sets, context)
    if context.spreading:
        pod_sets = _with_spreading(metadata, spec.get("podSets") or (), pod_sets, context)
    controller = owner(raw)
    key = Key(sys.intern(metadata.get("namespace", "")), metadata["name"])
    uid = metadata.get("uid", "")
    if before is not None and before.uid == uid and before.key == key:
        key, uid = before.key, before.uid
    found = model.Workload(
        key=key,
        uid=uid,
        created=maybe_epoch(metadata.get("creationTimestamp")) or 0.0,
        queue=sys.intern(spec.get("queueName") or ""),
        priority=_priority(spec, annotations, context),
        pod_sets=pod_sets,
        conditions=_shared_conditions(status.get("conditions") or ()),
        admission=admission(status.get("admission"), spec),
        job_uid=labels.get(names.Label.JOB_UID, ""),
        owner=controller,
        priority_class=sys.intern((spec.get("priorityClassRef") or {}).get("name", "")),
        generation=metadata.get("generation", 0),
        resource_version=metadata.get("resourceVersion", ""),
        rare=COMMON
        if not annotations
        and not context.coarse_reasons
        and not invalid
        and not uncounted
        and (controller is not None or not metadata.get("ownerReferences"))
        and _PLAIN_METADATA.issuperset(metadata)
        and _PLAIN_SPEC.issuperset(spec)
        and _PLAIN_STATUS.issuperset(status)
        and spec.get("active") is not False
        and _RARE_LABELS.isdisjoint(labels)
        and not (context.spreading and labels)
        else _rare(metadata, spec, status, invalid, uncounted, context),
    )
    if not claims or found.admission is None:
        return found
    if uncounted and isinstance(counts, Inventory):
        found = model.workload.replace(found, pod_sets=devices.as_admitted(pod_sets, found.admission, counts))
    more = devices.outgrown(key.namespace, _templates(pod_sets, spec.get("podSets") or ()), found, context.rules)
    return model.workload.replace(found, outgrown=more) if more else found


_PLAIN_METADATA: Final = frozenset(
    [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ]
)
"""With a controller, and no other field than these, a Workload has nothing of ``Rare``; nor by these of its spec and
status.
"""
_PLAIN_SPEC: Final = frozenset(["queueName", "priority", "priorityClassRef", "podSets", "active"])
_PLAIN_STATUS: Final = frozenset(["conditions", "admission"])
_RARE_LABELS: Final = frozenset({names.Label.CONCURRENT_ADMISSION_PARENT, names.Label.MULTIKUEUE_ORIGIN})


def _rare(
    metadata: Raw, spec: Raw, status: Raw, invalid: tuple[str, ...], uncounted: str, context: WorkloadContext
) -> Rare:
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    requeue, gated = status.get("requeueState") or {}, context.preemption_gates
    controlled = any(each.get("controller") for each in metadata.get("ownerReferences") or ())
    group = annotations.get(names.Annotation.IS_GROUP_WORKLOAD) == "true"
    found = Rare(
        active=spec.get("active") is not False,
        deleting="deletionTimestamp" in metadata,
        co_owned=bool(metadata.get("ownerReferences")) and not controlled and not group,
        made_for=annotations.get(names.Annotation.JOB_OWNER_NAME, ""),
        invalid=invalid,
        uncounted=uncounted,
        checks=tuple(_check_state(check) for check in status.get("admissionChecks") or []),
        reclaimable=_reclaimable(status, context),
        requeue_count=requeue.get("count") or 0,
        requeue_at=maybe_epoch(requeue.get("requeueAt")),
        past_execution=status.get("accumulatedPastExecutionTimeSeconds"),
        max_execution=spec.get("maximumExecutionTimeSeconds"),
        evictions=tuple(
            (each["reason"], each.get("underlyingCause", ""), each.get("count", 0))
            for each in (status.get("schedulingStats") or {}).get("evictions") or ()
        ),
        replaces=_replaces(metadata) if context.elastic_jobs else None,
        slice_name=_slice_name(metadata) if context.elastic_jobs else "",
        gates=_gates(annotations) if context.admission_gates else (),
        preemption_gates=tuple(gate["name"] for gate in spec.get("preemptionGates") or ()) if gated else (),
        gate_states=gate_states(status.get("preemptionGates") or ()) if gated else (),
        cluster_name=status.get("clusterName") or "",
        nominated=tuple(status.get("nominatedClusterNames") or ()),
        from_manager=names.Label.MULTIKUEUE_ORIGIN in labels,
        unhealthy_nodes=tuple(each["name"] for each in status.get("unhealthyNodes") or ()),
        labels=_counting_labels(labels) if context.spreading else (),
        coarse_reasons=context.coarse_reasons,
        **_family(metadata, context),
    )
    return next((common for common in (COMMON, COARSE) if found == common), found)


MOST_LABELS: Final = 16
"""By so many labels a Workload counts for others that are spread: each costs an update of its domains, and whoever
makes Workloads may write thousands.
"""


def _counting_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels by which a Workload may be selected: that of its job, and the first others by name."""
    first = sorted(labels.items(), key=lambda each: (each[0] != names.Label.JOB_UID, each))
    return tuple(sorted(first[:MOST_LABELS]))


def variant_of(metadata: Raw) -> str:
    """Returns the uid of the Workload of which a Workload with this metadata is a variant; '' if it is none.

    A variant is controlled by a Workload, and its annotation names the flavor. Other owner references to a Workload,
    e.g. of an operator that groups Workloads, have no effect.
    """
    above = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if above is None or (above["apiVersion"], above["kind"]) != (names.API_VERSION, names.Kind.WORKLOAD):
        return ""
    return str(above["uid"]) if _allowed_flavors(metadata) else ""


def _family(metadata: Raw, context: WorkloadContext) -> Raw:
    """The fields of a Workload that is admitted through variants, or of a variant. Variants that are left from when
    the feature gate was on are known as such without it, too.
    """
    parent = variant_of(metadata)
    if not context.concurrent_admission:
        return {"variant_of": parent} if parent else {}
    return {
        "parent": (metadata.get("labels") or {}).get(names.Label.CONCURRENT_ADMISSION_PARENT) == "true",
        "variant_of": parent,
        "allowed_flavors": _allowed_flavors(metadata),
    }


def _allowed_flavors(metadata: Raw) -> tuple[str, ...]:
    allowed = (metadata.get("annotations") or {}).get(names.Annotation.ALLOWED_RESOURCE_FLAVORS, "")
    return tuple(filter(None, (each.strip() for each in allowed.split(","))))


def _migration(spec: Raw) -> Migration | None:
    policy = spec.get("concurrentAdmissionPolicy")
    if policy is None:
        return None
    found = policy.get("migration") or {}
    last = (found.get("constraints") or {}).get("lastAcceptableFlavorName") or ""
    return Migration(found.get("mode") or names.MigrationMode.TRY_PREFERRED_FLAVORS, last)


def admission(raw: Raw | None, spec: Raw) -> Admission | None:
    """``status.admission``; a pod set assignment without a count has all the pods that the spec asks for."""
    if not raw:
        return None
    counts = {pod_set["name"]: pod_set.get("count", 1) for pod_set in spec.get("podSets") or []}
    return Admission(
        cluster_queue=raw["clusterQueue"],
        pod_sets=tuple(
            PodSetAssignment(
                name=given["name"],
                flavors=given.get("flavors") or {},
                usage={res: quantity.amount(res, value) for res, value in (given.get("resourceUsage") or {}).items()},
                count=given["count"] if given.get("count") is not None else counts.get(given["name"], 0),
                topology=topology_assignment(given.get("topologyAssignment")),
                delayed=given.get("delayedTopologyRequest") or "",
            )
            for given in raw.get("podSetAssignments") or []
        ),
    )


def topology_assignment(raw: Raw | None) -> TopologyAssignment | None:
    """Decodes ``topologyAssignment`` of a pod set: its domains, written out."""
    if not raw:
        return None
    plain = topology.domains(raw)
    found = tuple(TopologyDomain(tuple(each["values"]), each["count"]) for each in plain["domains"])
    return TopologyAssignment(tuple(plain["levels"]), found)


def placement(spec: Raw) -> Placement:
    """Decodes the node requirements of a pod spec."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    if required is None and not preferred and not spec.get("nodeSelector") and not spec.get("tolerations"):
        return ANYWHERE
    terms = None
    if required is not None:
        terms = tuple(_node_term(term) for term in required.get("nodeSelectorTerms") or [])
    weighted = tuple((each.get("weight") or 0, _node_term(each.get("preference") or {})) for each in preferred)
    return Placement(spec.get("nodeSelector") or {}, terms, _tolerations(spec.get("tolerations")), weighted)


def _node_term(raw: Raw) -> tuple[Requirement, ...]:
    """A term of node affinity. The only field of a node that it may name is ``metadata.name``."""
    fields = (Requirement(NODE_NAME, each.operator, each.values) for each in _requirements(raw.get("matchFields")))
    return (*_requirements(raw.get("matchExpressions")), *fields)


def complaints(found: Iterable[Effective]) -> tuple[str, ...]:
    """Returns why pod sets with these requests may not be admitted, in order and with Kueue's text: at most one.

    LimitRanges are checked only if Kubernetes' own rules are met.
    """
    found = tuple(found)
    for what, errors in (
        ("resources validation failed", [each.above_limits for each in found]),
        ("resources didn't satisfy LimitRange constraints", [each.outside_range for each in found]),
    ):
        texts = [str(_located(error, index)) for index, group in enumerate(errors) for error in group]
        if texts:
            return (f"{what}: {texts[0]}" if len(texts) == 1 else f"{what}: [{', '.join(texts)}]",)
    return ()


_NOTHING: Mapping[str, int] = {}


def _located(error: FieldError, index: int) -> FieldError:
    path = f"spec.podSets[{index}].template.spec"
    return replace(error, field=f"{path}.{error.field}" if error.field else path)


def _pod_sets(raws: Sequence[Raw], context: WorkloadContext) -> _PodSets:
    """Returns pod sets, and why they may not be admitted; from the cache if equal ones were decoded before."""
    serialised = _encode([_shape(raw) for raw in raws])
    known = context.pod_sets.get(serialised)
    if known is None:
        decoded = [_pod_set(raw, context) for raw in raws]
        if len(context.pod_sets) >= _MOST_CACHED:  # bounds memory; pod sets that are still in use are cached again
            context.pod_sets.clear()
        known = tuple(pod_set for pod_set, _ in decoded), complaints([found for _, found in decoded])
        context.pod_sets[serialised] = known
    return known


def _has_claims(raws: Iterable[Raw]) -> bool:
    for raw in raws:  # for every Workload that is read: any() would take twice as long
        template = raw.get("template")
        if template and "resourceClaims" in (template.get("spec") or ()):
            return True
    return False


def _with_devices(
    namespace: str, raws: Sequence[Raw], pod_sets: tuple[PodSet, ...], context: WorkloadContext
) -> tuple[tuple[PodSet, ...], str]:
    """Returns pod sets with what their devices count for; or, if that is not known, unchanged and the reason."""
    pods = _templates(pod_sets, raws)
    charge = devices.charge(namespace, pods, pod_sets, context.rules)
    if charge is None or charge.problem or not any((*charge.amounts, *charge.replaced)):
        return pod_sets, charge.problem if charge is not None else ""
    shape = [
        (sorted(more.items()), sorted(less), sorted(whole.items()) if whole is not None else None)
        for more, less, whole in zip(charge.amounts, charge.replaced, charge.whole, strict=True)
    ]
    name = _encode([[_shape(raw) for raw in raws], shape])
    known = context.pod_sets.get(name)
    if known is None:
        known = context.pod_sets[name] = devices.counted(pod_sets, charge), ()
    return known[0], ""


def _with_spreading(
    metadata: Raw, raws: Sequence[Raw], pod_sets: tuple[PodSet, ...], context: WorkloadContext
) -> tuple[PodSet, ...]:
    """Returns pod sets with how they are spread beside other workloads. Those that are equal are one value."""
    found = tuple(_spreading(metadata, each, raw) for each, raw in zip(pod_sets, raws, strict=True))
    if not any(found):
        return pod_sets
    name = id(pod_sets), found
    known = context.spread.get(name)
    if known is None:
        if len(context.spread) >= _MOST_CACHED:
            context.spread.clear()
        spread = tuple(
            msgspec.structs.replace(each, topology=msgspec.structs.replace(each.topology, spreading=rule))
            if rule is not None and each.topology is not None
            else each
            for each, rule in zip(pod_sets, found, strict=True)
        )
        known = context.spread[name] = pod_sets, spread
    return known[1]


def _spreading(metadata: Raw, pod_set: PodSet, raw: Raw) -> Spreading | None:
    """How a pod set is spread; None without a required topology, with which alone it is on one domain of a level."""
    text = (((raw.get("template") or {}).get("metadata") or {}).get("annotations") or {}).get(_SPREADING)
    if not text or pod_set.topology is None or not pod_set.topology.required:
        return None
    value = _spreading_value(text)
    if value is None:
        return None
    uid = (metadata.get("labels") or {}).get(names.Label.JOB_UID)
    selected: tuple[str, tuple[str, ...]] = (names.Label.JOB_UID, (uid,) if uid else ())
    for each in value.selectors:
        selected = each["key"], tuple(sorted(set(each["values"])))
    rules = tuple(SpreadRule(level, share, mode == REQUIRED) for level, share, mode, _ in value.rules)
    return Spreading(metadata.get("namespace", ""), *selected, rules)


@lru_cache(maxsize=1024)
def _spreading_value(text: str) -> SpreadingValue | None:
    """The annotation; None for one that is wrong: it was written while the feature gate was off."""
    return None if spreading_errors("", text) else parsed_spreading(text)


_SPREADING: Final = names.Annotation.TOPOLOGY_SPREADING


def _templates(pod_sets: Sequence[PodSet], raws: Sequence[Raw]) -> list[devices.PodTemplate]:
    return [
        devices.PodTemplate(each.name, (raw.get("template") or {}).get("spec") or {})
        for each, raw in zip(pod_sets, raws, strict=True)
    ]


def _pod_set(raw: Raw, context: WorkloadContext) -> tuple[PodSet, Effective]:
    """The pod set and its effective requests."""
    spec = (raw.get("template") or {}).get("spec") or {}
    asked = effective(spec, context.rules)
    pod_set = PodSet(
        raw.get("name") or names.DEFAULT_POD_SET,
        raw["count"] if raw.get("count") is not None else 1,
        asked.requests,
        raw.get("minCount"),
        placement(spec),
        topology_request(raw.get("topologyRequest") or {}),
        asked.own if asked.own != asked.requests else None,
    )
    return pod_set, asked


def _shape(raw: Raw) -> tuple[object, ...]:
    """All of a pod set that a PodSet is made of."""
    spec = (raw.get("template") or {}).get("spec") or {}
    return (
        raw.get("name"),
        raw.get("count"),
        raw.get("minCount"),
        [(c.get("resources"), c.get("restartPolicy")) for c in spec.get("initContainers") or ()],
        [c.get("resources") for c in spec.get("containers") or ()],
        spec.get("resources"),
        spec.get("overhead"),
        spec.get("runtimeClassName"),
        spec.get("nodeSelector"),
        (spec.get("affinity") or {}).get("nodeAffinity"),
        spec.get("tolerations"),
        raw.get("topologyRequest"),
    )


def topology_request(raw: Raw) -> TopologyRequest | None:
    """The topology request of a pod set; None if it asks nothing: labels with the index of a pod do not."""
    level, size = raw.get("podSetSliceRequiredTopology"), raw.get("podSetSliceSize")
    layers = raw.get("podsetSliceRequiredTopologyConstraints") or ()
    found = TopologyRequest(
        required=raw.get("required") or "",
        preferred=raw.get("preferred") or "",
        unconstrained=bool(raw.get("unconstrained")),
        group=raw.get("podSetGroupName") or "",
        slices=((level, size or 0),) if level else tuple((layer["topology"], layer["size"]) for layer in layers),
    )
    return found if found != _NO_TOPOLOGY else None


def _quotas(spec: Raw) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor["name"], res["name"]): Quota(
            nominal=quantity.amount(res["name"], res.get("nominalQuota", 0)),
            borrowing_limit=_limit(res, "borrowingLimit"),
            lending_limit=_limit(res, "lendingLimit"),
        )
        for group in spec.get("resourceGroups") or []
        for flavor in group.get("flavors") or []
        for res in flavor.get("resources") or []
    }


def _limit(res: Raw, name: str) -> int | None:
    value = res.get(name)
    return None if value is None else quantity.amount(res["name"], value)


def _weight(spec: Raw) -> float:
    weight = (spec.get("fairSharing") or {}).get("weight")
    return float(quantity.exact(weight)) if weight is not None else 1.0


def _preemption(raw: Raw) -> Preemption:
    borrow = raw.get("borrowWithinCohort") or {}
    never = names.PreemptionPolicy.NEVER
    return Preemption(
        within_cluster_queue=raw.get("withinClusterQueue") or never,
        reclaim_within_cohort=raw.get("reclaimWithinCohort") or never,
        borrow_within_cohort=borrow.get("policy") or never,
        max_priority_threshold=borrow.get("maxPriorityThreshold"),
    )


def _requirements(raw: Iterable[Raw] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(_text(each.get("key")), _text(each.get("operator")), tuple(map(_text, each.get("values") or ())))
        for each in raw or ()
    )


def _tolerations(raw: Iterable[Raw] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            _text(each.get("key")),
            _text(each.get("operator")) or "Equal",
            _text(each.get("value")),
            _text(each.get("effect")),
            each.get("tolerationSeconds") is not None,
        )
        for each in raw or ()
    )


def _text(value: object) -> str:
    """Pod templates are stored unchanged, so a Workload that a user created may have a number where a string is
    required.
    """
    return value if isinstance(value, str) else "" if value is None else str(value)


def _conditions(status: Raw, kinds: tuple[str, ...] = ()) -> tuple[Condition, ...]:
    return _shared_conditions([each for each in status.get("conditions") or () if not kinds or each["type"] in kinds])


def _shared_conditions(raws: Iterable[Raw]) -> tuple[Condition, ...]:
    """Returns conditions: those that a cycle wrote into many Workloads are kept once."""
    return _condition_values(
        tuple(
            [
                (
                    each["type"],
                    each["status"],
                    each.get("reason", ""),
                    each.get("message", ""),
                    each.get("lastTransitionTime"),
                    each.get("observedGeneration", 0),
                )
                for each in raws
            ]
        )
    )


@lru_cache(maxsize=1024)  # a text may have 32 KB
def _condition_values(raws: tuple[tuple[str, str, str, str, str | None, int], ...]) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=sys.intern(kind),
            status=status == "True",
            reason=sys.intern(reason),
            message=sys.intern(message),
            since=maybe_epoch(since) or 0.0,
            generation=generation,
        )
        for kind, status, reason, message, since, generation in raws
    )


def _check_state(raw: Raw) -> CheckState:
    return CheckState(
        name=raw["name"],
        state=raw.get("state") or names.CheckState.PENDING,
        message=raw.get("message", ""),
        since=maybe_epoch(raw.get("lastTransitionTime")) or 0.0,
        retry_count=raw.get("retryCount") or 0,
        requeue_after=raw.get("requeueAfterSeconds"),
        pod_set_updates=tuple(raw.get("podSetUpdates") or ()),
    )


def _priority(spec: Raw, annotations: Mapping[str, str], context: WorkloadContext) -> int:
    base = spec.get("priority") or names.DEFAULT_PRIORITY
    boost = annotations.get(names.Annotation.PRIORITY_BOOST) if context.priority_boost else None
    try:
        return int(base) + int(boost or 0)
    except ValueError:  # the webhook rejects it; if it was stored without the webhook, it changes nothing
        return int(base)


def _reclaimable(status: Raw, context: WorkloadContext) -> Mapping[str, int]:
    pods = status.get("reclaimablePods") or [] if context.reclaimable_pods else []
    return {each["name"]: each["count"] for each in pods} or _NOTHING


def _slice_name(metadata: Raw) -> str:
    annotations = metadata.get("annotations") or {}
    if annotations.get(names.Annotation.ELASTIC_JOB) != "true":
        return ""
    return str(annotations.get(names.Annotation.WORKLOAD_SLICE_NAME) or metadata["name"])


def _replaces(metadata: Raw) -> Key | None:
    """The slice that a Workload is to replace: of its own namespace, and not itself."""
    named = (metadata.get("annotations") or {}).get(names.Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR) or ""
    namespace, _, name = named.partition("/")
    same = name and namespace == metadata.get("namespace") and name != metadata["name"]
    return Key(namespace, name) if same else None


def gate_states(found: Iterable[Raw]) -> tuple[GateState, ...]:
    """The states of preemption gates."""
    return tuple(
        GateState(
            name=each["name"],
            open=each["position"] == names.GatePosition.OPEN,
            since=maybe_epoch(each["lastTransitionTime"]) or 0.0,
        )
        for each in found
    )


def _gates(annotations: Mapping[str, str]) -> tuple[str, ...]:
    gates = annotations.get(names.Annotation.ADMISSION_GATED_BY)
    return tuple(gate.strip() for gate in gates.split(",") if gate.strip()) if gates else ()
