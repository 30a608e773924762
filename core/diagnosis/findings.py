"""The rules of ``seiretsu doctor``: each returns what is wrong in one respect, and how to fix it.

A rule reports nothing if the resources that it reads could not be read: ``unread`` reports that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from api.kinds import KINDS
from api.names import GROUP, LEADER_ELECTION_ID, Condition, Finalizer, Kind, Label, Plural
from core.diagnosis.facts import Facts, condition, moment
from core.diagnosis.finding import DiagnosisFinding
from core.diagnosis.topologies import topologies
from core.diagnosis.workers import worker_clusters
from core.jobs.kinds import BATCH_JOB
from core.model import Raw
from core.model.owner import owner
from core.wire.decode import variant_of
from core.workload.lifecycle import OF_A_QUEUE

DEFINITIONS: Final = "customresourcedefinitions"
CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
REQUIRED: Final = (Kind.WORKLOAD, Kind.CLUSTER_QUEUE, Kind.LOCAL_QUEUE, Kind.RESOURCE_FLAVOR)
SOON: Final = timedelta(days=7)
MANY: Final = 5
"""More findings of a rule than this are summed up."""
NAMED: Final = 10
"""So many of them are named."""


class DiagnosisRule(NamedTuple):
    """A rule: its name, and the resources without which it cannot judge."""

    name: str
    check: Callable[[Facts], Iterable[DiagnosisFinding]]
    reads: tuple[str, ...] = ()


def findings(facts: Facts) -> list[tuple[str, DiagnosisFinding]]:
    """Returns all findings with the names of their rules, errors first."""
    found = [
        (rule.name, finding)
        for rule in RULES
        if not any(plural in facts.unseen for plural in rule.reads)
        for finding in _few(rule.check(facts))
    ]
    return sorted(found, key=lambda each: each[1].severity != "error")


def unchecked(facts: Facts) -> list[str]:
    """Returns the names of the rules that could not be checked, because what they read could not be."""
    return [rule.name for rule in RULES if any(plural in facts.unseen for plural in rule.reads)]


def _few(found: Iterable[DiagnosisFinding]) -> Iterator[DiagnosisFinding]:
    every = list(found)
    yield from every[:MANY]
    if len(every) > MANY:
        worst = min(each.severity for each in every[MANY:])
        subjects = [each.subject for each in every[MANY:]]
        shown = ", ".join(subjects[:NAMED]) + (f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else "")
        yield DiagnosisFinding(worst, f"{len(subjects)} more like {every[0].subject}", shown, every[MANY].fix)


def unread(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Resources that could not be read."""
    for plural, why in sorted(facts.unseen.items()):
        skipped = ", ".join(rule.name for rule in RULES if plural in rule.reads)
        yield DiagnosisFinding(
            "warning",
            plural,
            f"could not be read ({why}){f'; not checked: {skipped}' if skipped else ''}",
            "run it with the right to list them",
        )


def definitions(facts: Facts) -> Iterator[DiagnosisFinding]:
    """CRDs that are absent or not served."""
    for kind in KINDS:
        found = facts.named(DEFINITIONS, kind.crd_name)
        install = "install the chart, or run seiretsu serve --install"
        if found is None and kind.kind in REQUIRED:
            yield DiagnosisFinding("error", f"CRD {kind.crd_name}", "does not exist", install)
        elif found is not None and condition(found, "Established").get("status") != "True":
            why = condition(found, "NamesAccepted").get("message") or "the API server has not accepted it"
            yield DiagnosisFinding(
                "error", f"CRD {kind.crd_name}", f"is not served: {why}", f"kubectl describe crd {kind.crd_name}"
            )


def conversions(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Conversion webhooks that cannot be called."""
    for definition in facts.of(DEFINITIONS):
        if not of_our_group(definition):
            continue
        webhook = ((definition["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig")
        if webhook and (why := _uncallable(facts, webhook)):
            subject = f"conversion of CRD {definition['metadata']['name']}"
            yield DiagnosisFinding("error", subject, f"{why}: clients of older versions fail", _restart(facts))


def webhooks(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Webhook configurations that are absent or cannot be called."""
    for plural in CONFIGURATIONS:
        found = [raw for raw in facts.of(plural) if of_our_kinds(raw)]
        kind = "Mutating" if plural.startswith("mutating") else "Validating"
        if not found:
            what = "does not exist: new jobs start without quota" if kind == "Mutating" else "does not exist"
            fix = "install the chart, or run seiretsu serve --install"
            yield DiagnosisFinding("error", f"{kind}WebhookConfiguration", what, fix)
        for configuration in found:
            subject = f"{kind}WebhookConfiguration {configuration['metadata']['name']}"
            for webhook in configuration["webhooks"]:
                if why := _uncallable(facts, webhook["clientConfig"]):
                    refused = webhook.get("failurePolicy") != "Ignore"
                    what = f"creating or changing {_for(webhook)} {'fails' if refused else 'is not checked'}"
                    message = f"webhook {webhook['name']} {why}: {what}"
                    yield DiagnosisFinding("error", subject, message, _restart(facts))
                    break


def calls(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Webhooks that the API server itself could not call: it was asked to validate an object without storing it."""
    if facts.failed_call:
        message = f"the API server cannot call it: {facts.failed_call}"
        yield DiagnosisFinding("error", "admission webhook", message, _restart(facts))


def api_services(facts: Facts) -> Iterator[DiagnosisFinding]:
    """APIServices of the visibility API that do not answer: they also delay the deletion of every namespace."""
    for raw in facts.of("apiservices"):
        available, name = condition(raw, "Available"), raw["metadata"]["name"]
        if (raw["spec"].get("service") or {}) and available.get("status") == "False":
            message = f"does not answer ({available.get('reason')}): {available.get('message')}"
            fix = f"start Seiretsu with visibilityServer, or kubectl delete apiservice {name}"
            yield DiagnosisFinding("error", f"APIService {name}", message, fix)


def certificates(facts: Facts) -> Iterator[DiagnosisFinding]:
    """CAs in webhook configurations that have expired, or soon do."""
    reported: set[str] = set()
    for plural in CONFIGURATIONS:
        for configuration in facts.of(plural):
            for webhook in configuration.get("webhooks") or () if of_our_kinds(configuration) else ():
                bundle = webhook["clientConfig"].get("caBundle") or ""
                until = facts.expiry.get(bundle)
                if not bundle or bundle in reported:
                    continue
                reported.add(bundle)
                subject = f"caBundle of {configuration['metadata']['name']}"
                fix = "the leader's log has the reason; with cert-manager: kubectl describe certificate"
                if until is None:
                    yield DiagnosisFinding("error", subject, "has no certificate that can be read", fix)
                elif until <= facts.now:
                    yield DiagnosisFinding("error", subject, f"expired on {until:%Y-%m-%d}", fix)
                elif until - facts.now < SOON:
                    yield DiagnosisFinding("warning", subject, f"expires on {until:%Y-%m-%d %H:%M} UTC", fix)


def two_installations(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Kueue and Seiretsu, or two of them, in one cluster."""
    for plural in CONFIGURATIONS:
        names = sorted(raw["metadata"]["name"] for raw in facts.of(plural) if of_our_kinds(raw))
        if len(names) > 1:
            fix = "keep one: seiretsu uninstall, helm uninstall, or kubectl delete the configuration of the other"
            yield DiagnosisFinding(
                "error", ", ".join(names), "are for the same kinds: two controllers decide about one job", fix
            )


def leader(facts: Facts) -> Iterator[DiagnosisFinding]:
    """A Lease that nobody renews."""
    for lease in facts.of("leases"):
        if lease["metadata"]["name"] != LEADER_ELECTION_ID:
            continue
        spec, subject = lease.get("spec") or {}, f"Lease {lease['metadata'].get('namespace')}/{LEADER_ELECTION_ID}"
        renewed = moment(spec.get("renewTime"))
        lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        if not spec.get("holderIdentity"):
            yield DiagnosisFinding("error", subject, "has no holder: no job is admitted", _restart(facts))
        elif renewed is not None and renewed + lasts < facts.now:
            since = f"{renewed:%Y-%m-%d %H:%M:%S}"
            message = f"was last renewed by {spec['holderIdentity']} at {since} UTC: no job is admitted"
            yield DiagnosisFinding("error", subject, message, _restart(facts))


def cluster_queues(facts: Facts) -> Iterator[DiagnosisFinding]:
    """ClusterQueues that admit nothing."""
    for queue in facts.of(Plural.CLUSTER_QUEUES):
        active, name = condition(queue, Condition.ACTIVE), queue["metadata"]["name"]
        if active.get("status") == "False":
            message = f"admits nothing ({active.get('reason')}): {active.get('message')}"
            yield DiagnosisFinding("warning", f"ClusterQueue {name}", message, f"kubectl describe clusterqueue {name}")
    if not facts.of(Plural.CLUSTER_QUEUES):
        yield DiagnosisFinding(
            "warning", "ClusterQueue", "there is none: every queued job waits", "kubectl create -f a ClusterQueue"
        )


def local_queues(facts: Facts) -> Iterator[DiagnosisFinding]:
    """LocalQueues whose jobs wait for ever."""
    for queue in facts.of(Plural.LOCAL_QUEUES):
        metadata, wanted = queue["metadata"], queue["spec"].get("clusterQueue", "")
        subject = f"LocalQueue {metadata['namespace']}/{metadata['name']}"
        if facts.named(Plural.CLUSTER_QUEUES, wanted) is None and Plural.CLUSTER_QUEUES not in facts.unseen:
            yield DiagnosisFinding(
                "warning",
                subject,
                f"names ClusterQueue {wanted!r}, which does not exist",
                "create it, or make a LocalQueue for another one",
            )
        elif condition(queue, Condition.ACTIVE).get("status") == "False":
            active = condition(queue, Condition.ACTIVE)
            message = f"is not active ({active.get('reason')}): {active.get('message')}"
            yield DiagnosisFinding(
                "warning",
                subject,
                message,
                f"kubectl describe localqueue {metadata['name']} -n {metadata['namespace']}",
            )


def jobs_without_queue(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Jobs that name a LocalQueue that does not exist."""
    for job in facts.of("jobs"):
        metadata = job["metadata"]
        queue = (metadata.get("labels") or {}).get(Label.QUEUE_NAME, "")
        if not queue or BATCH_JOB.finished(job) is not None:
            continue
        if facts.named(Plural.LOCAL_QUEUES, queue, metadata["namespace"]) is None:
            subject = f"Job {metadata['namespace']}/{metadata['name']}"
            fix = f"kubectl get localqueues -n {metadata['namespace']} shows those that exist"
            yield DiagnosisFinding(
                "warning", subject, f"names LocalQueue {queue!r}, which does not exist: it waits for ever", fix
            )


def jobs_without_quota(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Jobs with a queue name that run without an admitted Workload."""
    admitted = {
        owner(workload)
        for workload in facts.of(Plural.WORKLOADS)
        if condition(workload, Condition.ADMITTED).get("status") == "True"
    }
    admitted_jobs = {(each.namespace, each.name) for each in admitted if each is not None}
    for job in facts.of("jobs"):
        metadata = job["metadata"]
        named = Label.QUEUE_NAME in (metadata.get("labels") or {}) and not metadata.get("ownerReferences")
        if not named or BATCH_JOB.held(job) or BATCH_JOB.finished(job) is not None:
            continue
        if (metadata["namespace"], metadata["name"]) not in admitted_jobs:
            subject = f"Job {metadata['namespace']}/{metadata['name']}"
            fix = "a running Seiretsu suspends it; otherwise kubectl patch it with spec.suspend: true"
            yield DiagnosisFinding("error", subject, "runs without admission: it uses no quota", fix)


def leftover_variants(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Variants of a Workload that waits or runs, or has ended, without them: the feature gate ConcurrentAdmission was
    switched off.
    """
    variants: dict[str, list[Raw]] = {}
    for raw in facts.of(Plural.WORKLOADS):
        if uid := variant_of(raw["metadata"]):
            variants.setdefault(uid, []).append(raw)
    for parent in facts.of(Plural.WORKLOADS):
        metadata = parent["metadata"]
        mine = variants.get(metadata.get("uid", ""), [])
        left = [each for each in mine if condition(each, Condition.FINISHED).get("status") != "True"]
        if left and _is_alone(parent, left):
            place, names = metadata["namespace"], " ".join(sorted(each["metadata"]["name"] for each in left))
            message = f"does not use its {_counted(len(left), 'variant')}: is the feature gate ConcurrentAdmission off?"
            fix = f"kubectl delete workloads.{GROUP} -n {place} {names}; Kubernetes deletes them with the Workload, too"
            yield DiagnosisFinding("warning", f"Workload {place}/{metadata['name']}", message, fix)


def _is_alone(parent: Raw, variants: Sequence[Raw]) -> bool:
    """Whether a Workload has ended, or waits in a queue itself, or holds quota, which none of its variants does."""

    def holds(raw: Raw, kind: str) -> bool:
        return condition(raw, kind).get("status") == "True"

    if holds(parent, Condition.FINISHED):
        return True
    if condition(parent, Condition.QUOTA_RESERVED).get("reason") in OF_A_QUEUE:
        return True
    runs = holds(parent, Condition.QUOTA_RESERVED) and not holds(parent, Condition.EVICTED)
    return runs and not any(holds(each, Condition.QUOTA_RESERVED) for each in variants)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def stuck_deletions(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Objects whose deletion waits for a controller that does not run."""
    if not any(True for _ in leader(facts)) and _called(facts):
        return
    for plural in (Plural.WORKLOADS, Plural.CLUSTER_QUEUES, Plural.RESOURCE_FLAVORS, Plural.ADMISSION_CHECKS):
        for raw in facts.of(plural):
            metadata = raw["metadata"]
            if "deletionTimestamp" in metadata and Finalizer.RESOURCE_IN_USE in (metadata.get("finalizers") or ()):
                place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
                fix = "start Seiretsu, or remove the finalizers: seiretsu uninstall --release"
                message = "is being deleted, but no controller runs that removes its finalizer"
                yield DiagnosisFinding("error", f"{plural} {place}{metadata['name']}", message, fix)


RULES: Final = (
    DiagnosisRule("rights", unread),
    DiagnosisRule("definitions", definitions, (DEFINITIONS,)),
    DiagnosisRule("webhooks", webhooks, CONFIGURATIONS),
    DiagnosisRule("conversions", conversions, (DEFINITIONS,)),
    DiagnosisRule("calls", calls),
    DiagnosisRule("api-services", api_services, ("apiservices",)),
    DiagnosisRule("certificates", certificates, CONFIGURATIONS),
    DiagnosisRule("two-installations", two_installations, CONFIGURATIONS),
    DiagnosisRule("leader", leader, ("leases",)),
    DiagnosisRule("cluster-queues", cluster_queues, (Plural.CLUSTER_QUEUES,)),
    DiagnosisRule("local-queues", local_queues, (Plural.LOCAL_QUEUES,)),
    DiagnosisRule("jobs-without-queue", jobs_without_queue, ("jobs", Plural.LOCAL_QUEUES)),
    DiagnosisRule("jobs-without-quota", jobs_without_quota, ("jobs", Plural.WORKLOADS)),
    DiagnosisRule("leftover-variants", leftover_variants, (Plural.WORKLOADS,)),
    DiagnosisRule("worker-clusters", worker_clusters, (Plural.MULTIKUEUE_CLUSTERS, Plural.MULTIKUEUE_CONFIGS)),
    DiagnosisRule(
        "topologies",
        topologies,
        (Plural.RESOURCE_FLAVORS, Plural.CLUSTER_QUEUES, Plural.COHORTS, Plural.TOPOLOGIES, "nodes"),
    ),
    DiagnosisRule("stuck-deletions", stuck_deletions, (Plural.WORKLOADS, *CONFIGURATIONS)),
)


def of_our_group(definition: Raw) -> bool:
    """Whether a CRD is one of the group of Seiretsu and Kueue."""
    name: str = definition["metadata"]["name"]
    return name.endswith(f".{GROUP}")


def of_our_kinds(configuration: Raw) -> bool:
    """Whether a configuration is of Seiretsu or Kueue: one of its webhooks is for objects of their group, and has a
    name as theirs have, which those of policy engines for the same objects have not.
    """
    groups = (
        group
        for webhook in configuration.get("webhooks") or ()
        if webhook["name"].endswith(".kb.io")
        for rule in webhook.get("rules") or ()
        for group in rule.get("apiGroups") or ()
    )
    return GROUP in groups


def _called(facts: Facts) -> bool:
    """Whether there is a configuration of which every webhook can be called."""
    found = [raw for plural in CONFIGURATIONS for raw in facts.of(plural) if of_our_kinds(raw)]
    return bool(found) and not any(
        _uncallable(facts, webhook["clientConfig"]) for raw in found for webhook in raw["webhooks"]
    )


def _uncallable(facts: Facts, config: Raw) -> str:
    """Returns why a webhook cannot be called; empty if nothing is known against it."""
    service, url = config.get("service"), config.get("url")
    if not config.get("caBundle"):
        return "has no caBundle"
    untrusted = facts.untrusted.get((called_at(config), config["caBundle"]), "")
    if url:
        if not facts.answers.get(url, True):
            return f"calls {url}, where nothing answers"
        return (
            f"calls {url}, where a program answers that its caBundle does not verify ({untrusted})" if untrusted else ""
        )
    if untrusted:
        return f"calls Service {called_at(config)}, and its caBundle does not verify what answers there ({untrusted})"
    if not service or {"services", "endpointslices"} & facts.unseen.keys():
        return ""
    name, namespace = service["name"], service["namespace"]
    if facts.named("services", name, namespace) is None:
        return f"calls Service {namespace}/{name}, which does not exist"
    slices = (
        each
        for each in facts.of("endpointslices")
        if each["metadata"].get("namespace") == namespace
        and (each["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
    )
    ready = [
        e
        for each in slices
        for e in each.get("endpoints") or ()
        if (e.get("conditions") or {}).get("ready") is not False
    ]
    return "" if ready else f"calls Service {namespace}/{name}, which has no ready pod"


def called_at(config: Raw) -> str:
    """Returns what a ``clientConfig`` calls: its URL, or NAMESPACE/NAME of its Service."""
    service = config.get("service") or {}
    return str(config.get("url") or f"{service.get('namespace')}/{service.get('name')}")


def _for(webhook: Raw) -> str:
    """The objects that a webhook is called for."""
    found = (each for rule in webhook.get("rules") or () for each in rule.get("resources") or ())
    named = list(dict.fromkeys(found))
    return " or ".join(named[:2]) + (f" (and {len(named) - 2} more resources)" if len(named) > 2 else "") or "objects"


def _restart(facts: Facts) -> str:
    for plural in CONFIGURATIONS:
        for configuration in facts.of(plural):
            if of_our_kinds(configuration):
                service = configuration["webhooks"][0]["clientConfig"].get("service")
                if service:
                    return f"read the logs of the pods in {service['namespace']}; helm uninstall removes the webhooks"
                return "start seiretsu serve --install again, or remove what it left: seiretsu uninstall"
    return "start Seiretsu: install the chart, or run seiretsu serve --install"
