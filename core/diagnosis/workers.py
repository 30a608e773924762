"""What a worker cluster of MultiKueue lacks, and how to fix it: rules of ``seiretsu doctor``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from api.names import Condition, Kind, Plural
from api.quantity import exact
from core.diagnosis.facts import Facts, WorkerFacts, condition
from core.diagnosis.finding import DiagnosisFinding
from core.model import Raw
from core.multikueue.conditions import clusters_of, is_ours
from core.multikueue.kubeconfig import source
from core.wire.active import check_names, parameters_name

ROLE = "grant it with the ClusterRole in docs/multikueue.md"
VERSION = "install Seiretsu there, or Kueue v0.14 or newer"


def worker_clusters(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Worker clusters that cannot be used, or cannot take the jobs of a LocalQueue."""
    queues = _queues(facts)
    here = {_key(raw): _resources(raw, facts) for raw in facts.of(Plural.LOCAL_QUEUES)}
    known = {each.name: each for each in facts.workers}
    for raw in facts.of(Plural.MULTIKUEUE_CLUSTERS):
        name = raw["metadata"]["name"]
        worker, active = known.get(name), condition(raw, Condition.ACTIVE)
        if worker is not None and worker.trouble:
            yield DiagnosisFinding("error", _called(name), worker.trouble, _connect(raw))
        elif worker is not None:
            yield from _lacking(worker, queues.get(name, ()), here)
        elif _in_secret(raw):  # others are known to Seiretsu's pods only, which report in the condition Active
            yield DiagnosisFinding("warning", _called(name), "it could not be checked", _connect(raw))
        if active.get("status") == "False" and not (worker is not None and worker.trouble):
            message = f"is not active: {active.get('message') or active.get('reason')}"
            yield DiagnosisFinding("error", _called(name), message, _connect(raw))
    missing = sorted(queues.keys() - {raw["metadata"]["name"] for raw in facts.of(Plural.MULTIKUEUE_CLUSTERS)})
    for name in missing:
        fix = "create the MultiKueueCluster, or remove it from spec.clusters"
        yield DiagnosisFinding("error", _called(name), "does not exist, and a MultiKueueConfig names it", fix)


def _lacking(
    worker: WorkerFacts, queues: Sequence[tuple[str, str]], here: Mapping[tuple[str, str], Collection[str]]
) -> Iterator[DiagnosisFinding]:
    subject = _called(worker.name)
    for resource in worker.not_served:
        required = resource.startswith(Plural.WORKLOADS)
        fix = VERSION if required else "install the operator of this kind there, if its jobs are to run there"
        yield DiagnosisFinding("error" if required else "warning", subject, f"does not serve {resource}", fix)
    for right in worker.denied:
        yield DiagnosisFinding("error", subject, f"its kubeconfig may not {right}", ROLE)
    if worker.unseen:
        text = (
            f"its kubeconfig may not list {', '.join(worker.unseen)}: its queues are not checked, and no warning says"
        )
        yield DiagnosisFinding("warning", subject, f"{text} that it could never take a job", ROLE)
        return
    for namespace, name in queues:
        if (why := _misses(worker, namespace, name)) is not None:
            yield DiagnosisFinding(
                "error", subject, f"{why[0]}: jobs of LocalQueue {namespace}/{name} cannot run there", why[1]
            )
        elif lacks := sorted(set(here.get((namespace, name), ())) - _with_quota(worker, namespace, name)):
            queue = _target(worker, namespace, name)
            text = f"ClusterQueue {queue} has no quota for {', '.join(lacks)}"
            fix = "add it to spec.resourceGroups there, unless no such job is to run there"
            yield DiagnosisFinding(
                "warning",
                subject,
                f"{text}: jobs of LocalQueue {namespace}/{name} that ask for it cannot run there",
                fix,
            )


def _misses(worker: WorkerFacts, namespace: str, name: str) -> tuple[str, str] | None:
    """What a worker lacks for a LocalQueue, and the fix."""
    if not any(raw["metadata"]["name"] == namespace for raw in worker.objects["namespaces"]):
        return f"has no namespace {namespace}", f"kubectl create namespace {namespace}"
    if _named(worker, Plural.LOCAL_QUEUES, name, namespace) is None:
        return f"has no LocalQueue {namespace}/{name}", "create it there with the same name"
    queue = _target(worker, namespace, name)
    found = _named(worker, Plural.CLUSTER_QUEUES, queue)
    if found is None:
        return f"has no ClusterQueue {queue}", "create it there, or change the LocalQueue there"
    active = condition(found, Condition.ACTIVE)
    if active.get("status") != "True":
        why = active.get("message") or "no controller has looked at it: does Seiretsu run there?"
        return f"has an inactive ClusterQueue {queue} ({why})", f"kubectl describe clusterqueue {queue}, there"
    return None


def _target(worker: WorkerFacts, namespace: str, name: str) -> str:
    """The ClusterQueue of a LocalQueue in a worker."""
    local = _named(worker, Plural.LOCAL_QUEUES, name, namespace)
    return str(((local or {}).get("spec") or {}).get("clusterQueue") or "")


def _with_quota(worker: WorkerFacts, namespace: str, name: str) -> set[str]:
    """The resources of which a job of a LocalQueue may get any in a worker: in a cohort it may borrow all that is
    covered.
    """
    spec = (_named(worker, Plural.CLUSTER_QUEUES, _target(worker, namespace, name)) or {}).get("spec") or {}
    return {
        each["name"]
        for group in spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for each in flavor.get("resources") or ()
        if spec.get("cohortName") or exact(each.get("nominalQuota", 0)) > 0
    }


def _resources(local: Raw, facts: Facts) -> list[str]:
    """The resources that the ClusterQueue of a LocalQueue covers here."""
    queue = facts.named(Plural.CLUSTER_QUEUES, (local.get("spec") or {}).get("clusterQueue", ""))
    groups = ((queue or {}).get("spec") or {}).get("resourceGroups") or ()
    return [str(name) for group in groups for name in group.get("coveredResources") or ()]


def _key(raw: Raw) -> tuple[str, str]:
    return raw["metadata"]["namespace"], raw["metadata"]["name"]


def _queues(facts: Facts) -> Mapping[str, list[tuple[str, str]]]:
    """The LocalQueues whose jobs run in other clusters, by the clusters that their checks name."""
    configs = {raw["metadata"]["name"]: clusters_of(raw) for raw in facts.of(Plural.MULTIKUEUE_CONFIGS)}
    clusters = {
        raw["metadata"]["name"]: configs.get(parameters_name(raw, Kind.MULTIKUEUE_CONFIG)[0], ())
        for raw in facts.of(Plural.ADMISSION_CHECKS)
        if is_ours(raw)
    }
    of_queue = {raw["metadata"]["name"]: check_names(raw) for raw in facts.of(Plural.CLUSTER_QUEUES)}
    found: dict[str, list[tuple[str, str]]] = {name: [] for names in configs.values() for name in names}
    for raw in facts.of(Plural.LOCAL_QUEUES):
        checks = of_queue.get((raw.get("spec") or {}).get("clusterQueue", ""), ())
        for name in dict.fromkeys(name for check in checks for name in clusters.get(check, ())):
            found[name].append(_key(raw))
    return found


def _named(worker: WorkerFacts, plural: str, name: str, namespace: str = "") -> Raw | None:
    found = (
        raw
        for raw in worker.objects[plural]
        if (raw["metadata"]["name"], raw["metadata"].get("namespace", "")) == (name, namespace)
    )
    return next(found, None)


def _called(name: str) -> str:
    return f"worker cluster {name}"


def _in_secret(raw: Raw) -> bool:
    """Whether the kubeconfig of a cluster is in a Secret, which alone can be read from outside."""
    place = source(raw)
    return not place.get("clusterProfileRef") and (place.get("kubeConfig") or {}).get("locationType") != "Path"


def _connect(raw: Raw) -> str:
    place = source(raw)
    location = (place.get("kubeConfig") or {}).get("location", "")
    if _in_secret(raw):
        return f"write a kubeconfig that works into key kubeconfig of Secret {location}, in Seiretsu's namespace"
    if profile := place.get("clusterProfileRef"):
        return f"see the status of ClusterProfile {profile['name']}, and its access provider in the Configuration"
    return f"see the kubeconfig file {location} in the pods of Seiretsu"
