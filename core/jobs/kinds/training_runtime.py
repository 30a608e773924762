"""The JobSet that the trainer derives from a TrainJob and its runtime: its pods and what they ask for.

It is derived here for a TrainJob that runs in another cluster: the trainer of this cluster makes no JobSet of it. As in
Kueue the variables, ports and volumes of a framework (Torch, MPI, JAX) are left out: no quota depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from api.objects import Resource
from core.jobs import meta
from core.jobs.fields import Path, at, changed
from core.jobs.kinds.jobset import JOB_SET
from core.model import Key, Raw

_GROUP: Final = "trainer.kubeflow.org"
TRAINING_RUNTIMES: Final = Resource(_GROUP, "v1alpha1", "trainingruntimes", "TrainingRuntime")
CLUSTER_TRAINING_RUNTIMES: Final = Resource(
    _GROUP, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
_RUNTIMES: Final = {each.kind: each for each in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)}
_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of the Job of a runtime that a part of the TrainJob configures."""
_INITIALIZERS: Final = {"dataset-initializer": "dataset", "model-initializer": "model"}
_NODE, _LAUNCHER, _TRAINER = "node", "launcher", "trainer"
_POD: Final[Path] = ("template", "spec", "template")
_BY_NAME: Final = ("containers", "initContainers", "env", "volumes", "volumeMounts", "imagePullSecrets")
"""The lists that a patch merges by the names of their elements; it replaces any other."""


def reference(job: Raw) -> tuple[Resource, Key] | None:
    """The runtime that a TrainJob names; None for one of an unknown kind."""
    found = at(job, ("spec", "runtimeRef")) or {}
    resource = _RUNTIMES.get(str(found.get("kind") or CLUSTER_TRAINING_RUNTIMES.kind))
    if resource is None or not found.get("name"):
        return None
    return resource, Key(job["metadata"]["namespace"] if resource.namespaced else "", str(found["name"]))


def is_runtime(raw: Raw) -> bool:
    """Whether an object is a runtime."""
    return raw.get("kind") in _RUNTIMES


def derived(job: Raw, runtime: Raw) -> Raw:
    """Returns the JobSet; the fields that decide nothing here may differ from those that the trainer sets."""
    spec = runtime.get("spec") or {}
    replicated = [
        _configured(job, spec.get("mlPolicy"), _patched(job, each))
        for each in at(spec, ("template", "spec", "replicatedJobs")) or ()
    ]
    metadata = {"name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"]}
    typed = {"apiVersion": JOB_SET.api_version, "kind": JOB_SET.kind}
    return {**typed, "metadata": metadata, "spec": {"replicatedJobs": replicated}}


def _patched(job: Raw, replicated: Raw) -> Raw:
    """A replicated Job of the runtime with the patches of the TrainJob."""
    for patch in at(job, ("spec", "runtimePatches")) or ():
        for each in at(patch, ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")) or ():
            if each.get("name") == replicated.get("name") and each.get("template"):
                replicated = {**replicated, "template": _merged(replicated.get("template") or {}, each["template"])}
    return replicated


def _merged(found: Raw, patch: Raw) -> Raw:
    """Kubernetes' strategic merge, as far as the trainer's patches need it."""
    result = dict(found)
    for key, value in patch.items():
        before = found.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            result[key] = _merged(before, value)
        elif isinstance(value, list) and isinstance(before, list) and key in _BY_NAME:
            result[key] = _united(before, value)
        else:
            result[key] = value
    return result


def _united(found: Sequence[Raw], patches: Sequence[Raw]) -> list[Raw]:
    by_name = {each.get("name"): each for each in patches}
    kept = [_merged(each, by_name.pop(each.get("name"), {})) for each in found]
    return [*kept, *by_name.values()]


def _configured(job: Raw, policy: Raw | None, replicated: Raw) -> Raw:
    """A replicated Job with the number of its pods, and with what the TrainJob says of its containers."""
    step, given = meta.labels(replicated.get("template") or {}).get(_STEP), at(job, ("spec", "trainer")) or {}
    pods = _pods(replicated, step, policy, given)
    for field in ("parallelism", "completions"):
        replicated = changed(replicated, ("template", "spec", field), pods)
    if step == _TRAINER or step in _INITIALIZERS:
        replicated = {**replicated, "replicas": 1}
    part = at(job, ("spec", "initializer", _INITIALIZERS[step])) or {} if step in _INITIALIZERS else {}
    as_node = bool(at(policy or {}, ("mpi", "runLauncherAsNode")))

    def configured(container: Raw) -> Raw:
        name = container.get("name")
        if name == step and part:
            return _merged(container, {"env": part.get("env") or []})
        if step is not None and (name == _NODE or (name == _LAUNCHER and as_node)):
            return _of_trainer(container, given)
        return container

    path = (*_POD, "spec", "containers")
    return changed(replicated, path, [configured(each) for each in at(replicated, path) or ()])


def _pods(replicated: Raw, step: Any, policy: Raw | None, given: Raw) -> int:
    found = at(replicated, ("template", "spec", "parallelism"))
    if step == _TRAINER and policy is not None:
        found = policy.get("numNodes")
    wanted, mpi = given.get("numNodes"), (policy or {}).get("mpi")
    if wanted is not None and mpi is not None and replicated.get("name") == _NODE:
        found = max(wanted - 1, 1) if mpi.get("runLauncherAsNode") else wanted
    elif wanted is not None and mpi is None and step == _TRAINER:
        found = wanted
    return max(1 if found is None else int(found), 1)


def _of_trainer(container: Raw, given: Raw) -> Raw:
    fields = {key: given[key] for key in ("image", "command", "args") if given.get(key) is not None}
    asked = {
        key: value for key, value in (given.get("resourcesPerNode") or {}).items() if key in ("limits", "requests")
    }
    resources = {"resources": asked} if asked else {}
    env = {"env": _united(container.get("env") or [], given["env"])} if given.get("env") else {}
    return {**container, **fields, **resources, **env}
