"""SparkApplication (sparkoperator.k8s.io/v1beta2): a driver and its executors, described by fields without templates.

The pod templates of the Workload are built from these fields. What a start writes into them cannot be restored from a
template (a label of a role and one of its template look the same there), so the start keeps the fields as they were in
an annotation. Counted is what the operator (v2.5.2) and Spark make of these fields, defaults and memory overhead
included; Kueue counts ``coreRequest`` and ``memory`` alone. ``sparkConf`` may not say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import orjson

from api import quantity
from api.builtin import BOOLEAN, INTEGER, METADATA, POD_TEMPLATE, QUANTITY, TEXT, fields, list_of, map_of, pod_spec
from api.errors import FieldError, forbidden, invalid
from api.feature_gates import Enabled
from api.names import SchedulingGate
from api.objects import Resource
from api.structural import Form
from core.jobs import meta, template
from core.jobs.admission.metadata import elastic
from core.jobs.fields import Path, at, changed, dotted, without
from core.jobs.job_reader import Outcome, Slot, count
from core.jobs.kind import JobKind
from core.jobs.template import Injection
from core.model import Raw

BEFORE: Final = "seiretsu.dev/spark-before-start"
"""The node selector of the application, and the fields of both roles that a start changes, as they were before it."""
_TOLERATION: Final = fields(key=TEXT, operator=TEXT, value=TEXT, effect=TEXT, tolerationSeconds=INTEGER)
_BEFORE: Final = Form(
    fields(
        nodeSelector=map_of(TEXT),
        **dict.fromkeys(
            ("driver", "executor"),
            fields(
                labels=map_of(TEXT),
                annotations=map_of(TEXT),
                nodeSelector=map_of(TEXT),
                tolerations=list_of(_TOLERATION),
            ),
        ),
    )
)
"""The types that the definition of SparkApplications has for what a stop restores: with others it would be refused."""
_ROLES: Final = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_CHANGED: Final = ("labels", "annotations", "nodeSelector", "tolerations")
_GATES: Final = ("template", "spec", "schedulingGates")
"""Where a role has the scheduling gates of its pods."""
_UNITS: Final = {"k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti", "p": "Pi"}
_CORES, _MEMORY = 1, "1g"
"""What the operator gives a role that asks for nothing."""
_LEAST_OVERHEAD: Final = 384 * 2**20
_OVERHEAD: Final = {"Python": Fraction(2, 5), "R": Fraction(2, 5)}
_OVERHEAD_OF_JVM: Final = Fraction(1, 10)
"""Spark's share of memory beside the heap, by ``spec.type``, and the least number of bytes of it."""
_SIZES: Final = {
    "spark.executor.instances": "spec.executor.instances",
    "spark.dynamicAllocation.enabled": "spec.dynamicAllocation",
    "spark.streaming.dynamicAllocation.enabled": "spec.dynamicAllocation",
    "spark.memory.offHeap.size": "memoryOverhead of both roles",
    "spark.executor.pyspark.memory": "spec.executor.memoryOverhead",
    "spark.kubernetes.memoryOverheadFactor": "spec.memoryOverheadFactor",
    **{
        f"spark.{before}{role}.{name}": f"spec.{role}.{field}"
        for role in ("driver", "executor")
        for before, name, field in (
            ("", "cores", "cores"),
            ("", "memory", "memory"),
            ("", "memoryOverhead", "memoryOverhead"),
            ("", "memoryOverheadFactor", "memoryOverhead"),
            ("", "minMemoryOverhead", "memoryOverhead"),
            ("kubernetes.", "request.cores", "coreRequest"),
            ("kubernetes.", "podTemplateFile", "template"),
        )
    },
}
"""Keys of ``sparkConf`` that change how many pods there are or what they request, with the field that is counted."""
_NAMESPACE: Final = "spark.kubernetes.namespace"
_DEVICES: Final = {f"spark.{role}.resource.": f"spec.{role}.gpu" for role in ("driver", "executor")}
"""What keys begin with that add devices to the pods of a role, with the field that is counted."""
_WITHOUT_PODS: Final = ("", "SUSPENDED", "COMPLETED", "FAILED", "SUBMISSION_FAILED")

_POD: Final[Raw] = pod_spec()["properties"]
_ROLE: Final = fields(
    labels=map_of(TEXT),
    annotations=map_of(TEXT),
    nodeSelector=map_of(TEXT),
    tolerations=_POD["tolerations"],
    affinity=_POD["affinity"],
    priorityClassName=TEXT,
    initContainers=_POD["initContainers"],
    sidecars=_POD["containers"],
    cores=INTEGER,
    coreRequest=QUANTITY,
    coreLimit=QUANTITY,
    memory=TEXT,
    memoryOverhead=TEXT,
    memoryLimit=TEXT,
    gpu=fields(name=TEXT, quantity=INTEGER),
    instances=INTEGER,
    template=POD_TEMPLATE,
)


class SparkApplication(JobKind):
    """The ``sparkoperator.k8s.io/sparkapplication`` framework."""

    framework = "sparkoperator.k8s.io/sparkapplication"
    counted = "`driver`; `executor`: instances"
    gate = "SparkApplicationIntegration"
    makes = ("Pod",)  # drivers own executors
    resource = Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication")
    pods_label = "sparkoperator.k8s.io/app-name"
    pods_path = ("spec",)
    pods_field = "spec.executor.instances"
    prebuilt = False
    updates_checked_by_queue = True
    topology_groups = False
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(
                suspend=BOOLEAN,
                mode=TEXT,
                type=TEXT,
                sparkConf=map_of(TEXT),
                memoryOverheadFactor=TEXT,
                dynamicAllocation=fields(enabled=BOOLEAN),
                nodeSelector=map_of(TEXT),
                driver=_ROLE,
                executor=_ROLE,
            ),
        )
    )

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns the pod sets ``driver`` and ``executor``."""
        instances = count(at(job, ("spec", "executor")) or {}, "instances")
        return [
            Slot("driver", 1, ("spec", "driver"), called="the driver"),
            Slot("executor", instances, ("spec", "executor"), called="the executors"),
        ]

    def template_of(self, job: Raw, slot: Slot, related: Sequence[Raw] = ()) -> Raw | None:
        """The pod template that the operator makes of the fields of a role, as far as it decides about quota."""
        role = at(job, slot.path)
        if role is None:
            return None
        base = at(role, ("template", "metadata")) or {}
        metadata = {part: {**(base.get(part) or {}), **(role.get(part) or {})} for part in ("labels", "annotations")}
        container = {"name": _ROLES[slot.name], "resources": _resources(role, _share_of_overhead(job))}
        _, *others = at(role, ("template", "spec", "containers")) or [{}]
        selector = {**(at(job, ("spec", "nodeSelector")) or {}), **(role.get("nodeSelector") or {})}
        spec = {
            "initContainers": [
                *(at(role, ("template", "spec", "initContainers")) or ()),
                *(role.get("initContainers") or ()),
            ],
            "containers": [container, *others, *(role.get("sidecars") or ())],
            "nodeSelector": selector,
            **{part: role.get(part) for part in ("affinity", "tolerations", "priorityClassName")},
        }
        return {"metadata": _given(metadata), "spec": _given(spec)}

    def metadata_of(self, slot: Slot) -> str:
        """A role has the labels and annotations of its pods itself."""
        return dotted(slot.path)

    def injected(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Raw:
        """Returns the application with the injections in its roles, and with what they replace in an annotation.

        The operator accepts a node selector of the application or of its roles, not both: it is moved into the roles.
        """
        before: Raw = {role: _given({part: at(job, ("spec", role, part)) for part in _CHANGED}) for role in _ROLES}
        if selector := at(job, ("spec", "nodeSelector")):
            before["nodeSelector"] = selector
        found = super().injected(job, injections, related)
        if at(found, ("metadata", "annotations", BEFORE)) is None:
            path = ("metadata", "annotations", BEFORE)
            found = changed(found, path, orjson.dumps(before, option=orjson.OPT_SORT_KEYS).decode())
        return changed(found, ("spec", "nodeSelector"), None) if selector else found

    def with_injection(self, job: Raw, slot: Slot, injection: Injection, related: Sequence[Raw] = ()) -> Raw:
        """Returns the application with the injection in one role."""
        role = at(job, slot.path) or {}
        selector = {**(at(job, ("spec", "nodeSelector")) or {}), **(role.get("nodeSelector") or {})}
        pod = {
            "metadata": {part: role.get(part) or {} for part in ("labels", "annotations")},
            "spec": {"nodeSelector": selector, "tolerations": role.get("tolerations") or []},
        }
        found = template.inject(pod, injection)
        gates = found["spec"].pop("schedulingGates", [])
        given = {**found["metadata"], **found["spec"]}
        rest = {part: value for part, value in role.items() if part not in _CHANGED}
        job = changed(job, slot.path, {**rest, **given})
        path = (*slot.path, *_GATES)
        return changed(job, path, template.with_gates(at(job, path) or [], injection.gates)) if gates else job

    def restored(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """The application as it was before its start, by the annotation of that start."""
        text = meta.annotations(job).get(BEFORE)
        if text is None:
            return job
        before = _parsed(text)
        for role in _ROLES:
            if at(job, ("spec", role)) is not None:
                for part in _CHANGED:
                    job = changed(job, ("spec", role, part), at(before, (role, part)))
                job = _without_gate(job, role)
        if before.get("nodeSelector"):
            job = changed(job, ("spec", "nodeSelector"), before["nodeSelector"])
        return changed(job, ("metadata", "annotations", BEFORE), None)

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether it was submitted and has neither ended nor been stopped completely."""
        return _state(job) not in _WITHOUT_PODS

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Completed or failed; after its end the status goes on counting executors."""
        if _state(job) not in ("COMPLETED", "FAILED", "SUBMISSION_FAILED"):
            return None
        return Outcome(_state(job) == "COMPLETED", at(job, ("status", "applicationState", "errorMessage")) or "")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether the driver runs, and as many executors as are wanted run or have completed."""
        states = (at(job, ("status", "executorState")) or {}).values()
        ready = sum(each in ("RUNNING", "COMPLETED") for each in states)
        return _state(job) == "RUNNING" and bool(ready >= count(at(job, ("spec", "executor")) or {}, "instances"))

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Only applications whose driver and executors are pods of a fixed number are queued."""
        errors = []
        mode = at(job, ("spec", "mode"))
        if mode != "cluster":
            detail = "only Cluster mode is supported for a kueue managed job"
            errors.append(invalid("spec.mode", mode or "", detail))
        if at(job, ("spec", "dynamicAllocation", "enabled")) and not elastic(job, enabled):
            detail = (
                "a kueue managed job can use dynamicAllocation only when the ElasticJobsViaWorkloadSlices feature gate"
                " is on and the job is an elastic job"
            )
            errors.append(invalid("spec.dynamicAllocation.enabled", True, detail))
        conf = at(job, ("spec", "sparkConf")) or {}
        errors += [
            forbidden(
                f"spec.sparkConf[{key}]", f"the size of a queued application is counted by its fields: set {field}"
            )
            for key in conf
            if (field := _counted_by(key))
        ]
        if _NAMESPACE in conf:
            detail = "the pods of a queued application run in its namespace, where they are counted: leave it out"
            errors.append(forbidden(f"spec.sparkConf[{_NAMESPACE}]", detail))
        return errors + super().validate_create(job, enabled)


SPARK_APPLICATION: Final = SparkApplication()


def _counted_by(key: str) -> str:
    """The field that is counted instead of a key of ``sparkConf``, '' for keys that change no size."""
    return _SIZES.get(key) or next((field for start, field in _DEVICES.items() if key.startswith(start)), "")


def _state(job: Raw) -> str:
    return str(at(job, ("status", "applicationState", "state")) or "")


def _given(parts: Raw) -> Raw:
    return {name: part for name, part in parts.items() if part}


def _resources(role: Raw, share: Fraction) -> Raw:
    """The resources of a role's main container; ``share`` is the overhead of its memory."""
    gpu = role.get("gpu") or {}
    limits = {"cpu": role.get("coreLimit"), "memory": _memory(role.get("memoryLimit"))}
    if gpu.get("name") and (gpu.get("quantity") or 0) > 0:
        limits[gpu["name"]] = gpu["quantity"]
    cores = role.get("cores")
    requests = {
        "cpu": role.get("coreRequest") or str(_CORES if cores is None else cores),
        "memory": _with_overhead(role.get("memory") or _MEMORY, role.get("memoryOverhead"), share),
    }
    return _given({"requests": requests, "limits": _given(limits)})


def _with_overhead(memory: str, overhead: str | None, share: Fraction) -> str | None:
    """The memory that a pod requests: the heap and what is beside it; as it is where it is no amount."""
    try:
        heap = quantity.amount("memory", _memory(memory))
        beside = quantity.amount("memory", _memory(overhead)) if overhead else max(int(heap * share), _LEAST_OVERHEAD)
    except ValueError:
        return _memory(memory)
    return quantity.text("memory", heap + beside)


def _share_of_overhead(job: Raw) -> Fraction:
    """The share of its memory that a pod has beside the heap, by default."""
    kind, given = str(at(job, ("spec", "type")) or ""), at(job, ("spec", "memoryOverheadFactor"))
    try:
        found = quantity.exact(given) if given else _OVERHEAD.get(kind, _OVERHEAD_OF_JVM)
    except ValueError:
        found = _OVERHEAD.get(kind, _OVERHEAD_OF_JVM)
    return max(found, Fraction(0))


def _memory(text: str | None) -> str | None:
    """An amount of memory as Kubernetes spells it: ``512m``, and Spark's ``512``, are ``512Mi``."""
    number = (text or "").removesuffix("b").removesuffix("B")
    if number.isdecimal() and number.isascii():
        return f"{number}Mi" if number == text else number
    unit = _UNITS.get(number[-1:].lower())
    return f"{number[:-1]}{unit}" if unit else text


def _without_gate(job: Raw, role: str) -> Raw:
    """The application without the gate for topologies in a role, and without the objects that only hold this gate."""
    path: Path = ("spec", role, *_GATES)
    gates = at(job, path) or []
    left = [each for each in gates if each.get("name") != SchedulingGate.TOPOLOGY]
    if len(left) == len(gates):
        return job
    job = changed(job, path, left)
    for end in range(len(path), len(path) - len(_GATES), -1):
        if not at(job, path[:end]):
            job = without(job, path[:end])
    return job


def _parsed(text: str) -> Any:
    """What the annotation of a start says; nothing if somebody changed it into something else."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if not _BEFORE.errors(found) else {}
