"""What `seiretsu migrate` knows of Kueue and Seiretsu in one cluster, what prevents a migration, and what it changes.

Everything here is decided on objects as they were read; `operations.migrate` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import yaml

from api import configuration
from api.configuration import ConfigurationError, Loaded
from api.kinds import KINDS
from api.names import GROUP, Kind, Plural
from api.objects import Raw
from api.schema import structural
from api.structural import unknown_fields
from core.diagnosis.finding import DiagnosisFinding
from core.feedback import catalog
from core.jobs.kinds import supported

DEPLOYERS: Final = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
"""Labels and annotations of programs that undo changes of what they have installed."""
HELM_OWNER: Final = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
INJECTORS: Final = "cert-manager.io/inject-"
KEEP: Final = "helm.sh/resource-policy"


class Lease(NamedTuple):
    """Where replicas elect their leader."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """Kueue or Seiretsu in a cluster: what its webhook configurations call, and what runs there.

    ``text`` is its Configuration. ``ready``: the number of addresses behind the Service that take calls.
    """

    namespace: str
    service: str
    configurations: Sequence[Raw] = ()
    deployment: Raw | None = None
    text: str = ""
    ready: int = 0

    @property
    def replicas(self) -> int:
        """The number of replicas that are asked for; 0 without a Deployment."""
        found = ((self.deployment or {}).get("spec") or {}).get("replicas")
        return int(found if found is not None else 1) if self.deployment else 0

    def loaded(self) -> Loaded:
        """The Configuration with the feature gates of the command line. Raises `ConfigurationError`."""
        text, gates = self.text, gates_of(self.deployment or {})
        if gates:
            raw = yaml.safe_load(text) or {}
            text = yaml.safe_dump({**raw, "featureGates": {**(raw.get("featureGates") or {}), **gates}})
        return configuration.load(
            text,
            namespace=self.namespace,
            frameworks=supported(),
            feedback_rules=catalog.NAMES,
            cluster_rules=catalog.OF_NO_NAMESPACE,
        )

    def lease(self) -> Lease | None:
        """Where it elects its leader; None if it elects none, or its Configuration cannot be read."""
        try:
            election = self.loaded().configuration.leader_election
        except (ConfigurationError, yaml.YAMLError):
            return None
        namespace = election.resource_namespace or self.namespace
        return Lease(namespace, election.resource_name) if election.leader_elect else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A cluster before, in the middle of, or after a migration.

    ``record`` is what a migration has stored of Kueue (`record`); None if there is none. ``objects`` of Seiretsu's
    kinds, by plural. ``api_services`` and ``releases`` (Helm's Secrets) are those of Kueue.
    """

    kueue: Installation | None = None
    seiretsu: Installation | None = None
    record: Raw | None = None
    definitions: Sequence[Raw] = ()
    objects: Mapping[str, Sequence[Raw]] = field(default_factory=dict)
    api_services: Sequence[Raw] = ()
    releases: Sequence[Raw] = ()


def is_seiretsus(raw: Raw) -> bool:
    """Whether an object is of Seiretsu: of its chart, or a webhook configuration of ``serve --install``."""
    metadata = raw["metadata"]
    marks = ((metadata.get("labels") or {}).get("helm.sh/chart", ""), metadata["name"])
    return any(mark.startswith("seiretsu-") for mark in marks)


def serves_for(kueue: Installation, api_service: Raw) -> bool:
    """Whether an APIService is Kueue's: one of its groups, served in its namespace, where Seiretsu's may be, too."""
    spec = api_service["spec"]
    here = (spec.get("service") or {}).get("namespace") == kueue.namespace
    return here and spec.get("group", "").endswith(GROUP) and not is_seiretsus(api_service)


def called(webhooks: Raw) -> tuple[str, str] | None:
    """Returns namespace and name of the Service that a webhook configuration calls; None if it calls none."""
    for webhook in webhooks.get("webhooks") or ():
        service = webhook["clientConfig"].get("service")
        if service:
            return service["namespace"], service["name"]
    return None


def selects(service: Raw, deployment: Raw) -> bool:
    """Whether the pods of a Deployment are behind a Service."""
    selector = (service.get("spec") or {}).get("selector") or {}
    labels: Raw = deployment["spec"]["template"]["metadata"].get("labels") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def gates_of(deployment: Raw) -> dict[str, bool]:
    """Returns the feature gates on the command line of a Deployment's containers."""
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    words = [word for each in pod.get("containers") or () for word in each.get("args") or ()]
    prefix = "--feature-gates="
    pairs = (pair for word in words if word.startswith(prefix) for pair in word.removeprefix(prefix).split(","))
    return {name: value.lower() == "true" for name, _, value in (pair.partition("=") for pair in pairs) if value}


def converts_at(definition: Raw, installation: Installation) -> bool:
    """Whether a CRD is converted by this installation."""
    service = _conversion(definition).get("service") or {}
    return (service.get("namespace"), service.get("name")) == (installation.namespace, installation.service)


def _conversion(definition: Raw) -> Raw:
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    found: Raw = webhook.get("clientConfig") or {}
    return found


def problems(found: Found) -> list[tuple[str, DiagnosisFinding]]:
    """Returns what prevents a migration from Kueue (errors), and what will be different after it (warnings)."""
    kueue = found.kueue
    if kueue is None:
        there = found.seiretsu is not None
        fix = "seiretsu doctor checks the installation of Seiretsu" if there else "helm install seiretsu"
        message = "is not installed, so nothing is to be migrated" + (
            ": Seiretsu is installed already" if there else ""
        )
        return [("kueue", DiagnosisFinding("warning" if there else "error", "Kueue", message, fix))]
    every: tuple[tuple[str, Iterable[DiagnosisFinding]], ...] = (
        ("kueue", _deployment(kueue)),
        ("configuration", _configuration(kueue)),
        ("lease", _lease(kueue, found.seiretsu)),
        ("versions", _versions(found.definitions)),
        ("kinds", _kinds(found.definitions)),
        ("objects", _objects(found.objects)),
        ("visibility", _visibility(found.api_services)),
        ("deployer", _deployers(kueue)),
    )
    rows = [(rule, finding) for rule, findings in every for finding in findings]
    return sorted(rows, key=lambda each: each[1].severity != "error")


def _deployment(kueue: Installation) -> Iterator[DiagnosisFinding]:
    if kueue.deployment is None:
        subject = f"Service {kueue.namespace}/{kueue.service}"
        fix = "only Kueue in the cluster, as its manifests or its chart install it, can be migrated"
        yield DiagnosisFinding("error", subject, "no Deployment is behind it", fix)


def _configuration(kueue: Installation) -> Iterator[DiagnosisFinding]:
    subject = f"Configuration of Kueue in {kueue.namespace}"
    try:
        loaded = kueue.loaded()
    except ConfigurationError as error:
        for each in error.errors:
            yield DiagnosisFinding(
                "error", subject, str(each), "change it in managerConfig of Seiretsu's values, or in Kueue"
            )
    except yaml.YAMLError as error:
        yield DiagnosisFinding("error", subject, f"is not YAML: {error}", "correct it")
    else:
        for warning in loaded.warnings:
            yield DiagnosisFinding("warning", subject, warning, "remove it from the values for Seiretsu, or accept it")


def _lease(kueue: Installation, seiretsu: Installation | None) -> Iterator[DiagnosisFinding]:
    """One Lease for both: Seiretsu's replicas wait for it while Kueue leads, so there are never two leaders."""
    place = kueue.lease()
    if place is None:
        message = "runs without leader election: both would admit jobs at the same time"
        fix = "set leaderElection.leaderElect: true in Kueue's Configuration, and restart it"
        yield DiagnosisFinding("error", f"Deployment in {kueue.namespace}", message, fix)
    elif seiretsu is not None and seiretsu.lease() != place:
        fix = (
            f"install Seiretsu in namespace {place.namespace}, or with leaderElection: {{resourceNamespace:"
            f" {place.namespace}, resourceName: {place.name}}} in its Configuration"
        )
        message = f"uses the Lease {seiretsu.lease()}, and Kueue {place}: both would admit jobs at the same time"
        yield DiagnosisFinding("error", f"Seiretsu in {seiretsu.namespace}", message, fix)


def _versions(definitions: Sequence[Raw]) -> Iterator[DiagnosisFinding]:
    known = {kind.crd_name: {version.name for version in kind.versions} for kind in KINDS}
    for definition in definitions:
        name = definition["metadata"]["name"]
        stored = set((definition.get("status") or {}).get("storedVersions") or ())
        if name in known and (left := sorted(stored - known[name])):
            message = f"has objects that are stored as {', '.join(left)}, which Seiretsu does not serve"
            yield DiagnosisFinding(
                "error",
                f"CRD {name}",
                message,
                "upgrade Kueue to 0.16 or newer, and migrate the stored version as its release notes describe",
            )


def _kinds(definitions: Sequence[Raw]) -> Iterator[DiagnosisFinding]:
    known = {kind.crd_name for kind in KINDS}
    for definition in definitions:
        name = definition["metadata"]["name"]
        if name not in known:
            message = "is a kind that Seiretsu does not have: its CRD and objects stay, and have no effect"
            yield DiagnosisFinding("warning", f"CRD {name}", message, "keep them for the way back, or delete the CRD")


def _objects(objects: Mapping[str, Sequence[Raw]]) -> Iterator[DiagnosisFinding]:
    """Fields that the API server would drop at the next write, because Seiretsu's schema does not have them."""
    for kind in KINDS:
        found = objects.get(kind.plural, ())
        schema = structural(kind.stored.model) if found else {}
        for raw in found:
            for path in unknown_fields(schema, {**raw, "metadata": {}}):
                place = f"{raw['metadata']['namespace']}/" if raw["metadata"].get("namespace") else ""
                subject = f"{kind.kind} {place}{raw['metadata']['name']}"
                message = f"{path}: Seiretsu does not have this field, and the next write would remove it"
                yield DiagnosisFinding("error", subject, message, "remove the field, or wait for a release that has it")


def _visibility(api_services: Sequence[Raw]) -> Iterator[DiagnosisFinding]:
    if api_services:
        names = ", ".join(sorted(each["metadata"]["name"] for each in api_services))
        message = (
            "Seiretsu serves the visibility API only if its values say so: else nothing shows pending Workloads by it"
        )
        yield DiagnosisFinding(
            "warning", f"APIService {names}", message, "after take-over: helm upgrade with visibility.enabled"
        )


def _deployers(kueue: Installation) -> Iterator[DiagnosisFinding]:
    for raw in (*kueue.configurations, *([kueue.deployment] if kueue.deployment else ())):
        marks = {**(raw["metadata"].get("labels") or {}), **(raw["metadata"].get("annotations") or {})}
        for program in sorted({program for mark, program in DEPLOYERS.items() if mark in marks}):
            subject = f"{raw.get('kind', 'object')} {raw['metadata']['name']}"
            message = f"is installed by {program}, which would undo the migration"
            yield DiagnosisFinding("error", subject, message, f"stop the synchronization of Kueue in {program} first")


def record(found: Found) -> Raw | None:
    """Returns what is stored before anything is changed, with which Kueue can be given everything back. None if it is
    stored already, and Kueue is no longer, or not yet again, complete.
    """
    kueue = found.kueue
    if kueue is None or kueue.deployment is None or (found.record is not None and not _complete(found, found.record)):
        return None
    return {
        "namespace": kueue.namespace,
        "service": kueue.service,
        "deployment": kueue.deployment["metadata"]["name"],
        "replicas": kueue.replicas,
        "configurations": [bare(each) for each in kueue.configurations],
        "definitions": [bare(each) for each in found.definitions],
        "apiServices": [bare(each) for each in found.api_services],
    }


def _complete(found: Found, stored: Raw) -> bool:
    """Whether Kueue has everything that was stored of it. A migration that was interrupted in either direction leaves
    out objects, replicas or conversions, or webhooks that refuse nothing yet.
    """
    kueue = found.kueue
    assert kueue is not None
    kinds = {each["kind"] for each in kueue.configurations}
    refuse = {
        each["name"]: "Fail"
        for raw in stored["configurations"]
        for each in raw["webhooks"]
        if each["failurePolicy"] == "Fail"
    }
    return (
        kinds == {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
        and kueue.replicas > 0
        and all(with_policy(raw, refuse) is None for raw in kueue.configurations)
        and not (found.seiretsu and any(converts_at(each, found.seiretsu) for each in found.definitions))
        and _names(stored["apiServices"]) <= _names(found.api_services)
    )


def _names(objects: Iterable[Raw]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def bare(raw: Raw) -> Raw:
    """Returns an object as it can be created again: without status and what the API server adds."""
    metadata = {key: raw["metadata"][key] for key in ("name", "labels", "annotations") if raw["metadata"].get(key)}
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def with_policy(webhooks: Raw, policies: Mapping[str, str]) -> list[Raw] | None:
    """Returns the webhooks of a configuration with these failure policies by name; None if they have them."""
    before = webhooks.get("webhooks") or []
    after = [{**each, "failurePolicy": policies.get(each["name"], each["failurePolicy"])} for each in before]
    return after if after != before else None


def adopted(definition: Raw, deployment: Raw) -> Raw:
    """Returns the metadata with which helm accepts a CRD as part of the release that installed a Deployment, for an
    apply in the name of helm: its labels too, or others that have set them would conflict.
    """
    metadata = deployment["metadata"]
    owner = {key: value for key, value in (metadata.get("annotations") or {}).items() if key in HELM_OWNER}
    return {
        "name": definition["metadata"]["name"],
        "labels": {**(metadata.get("labels") or {}), MANAGED_BY: "Helm"},
        "annotations": {**owner, KEEP: "keep"},
    }


def restored(live: Raw, recorded: Raw) -> Raw | None:
    """Returns a CRD as Kueue had it, to replace the one that is there; None if it is the same."""
    metadata = {**live["metadata"]}
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
        if recorded["metadata"].get(name):
            metadata[name] = recorded["metadata"][name]
    wanted = {**live, "metadata": metadata, "spec": recorded["spec"]}
    return wanted if wanted != live else None


def changes(found: Found) -> list[str]:
    """Returns what `take-over` changes, in its order, for a person."""
    kueue = found.kueue
    if kueue is None:
        return []
    place = f"{kueue.namespace}/{kueue.deployment['metadata']['name']}" if kueue.deployment else kueue.namespace
    running = sum(
        1
        for each in found.objects.get(Plural.WORKLOADS, ())
        if (each.get("status") or {}).get("admission") and not _finished(each)
    )
    waiting = sum(
        1
        for each in found.objects.get(Plural.WORKLOADS, ())
        if not (each.get("status") or {}).get("admission") and not _finished(each)
    )
    theirs = [each for each in found.definitions if each["metadata"]["name"] in {kind.crd_name for kind in KINDS}]
    return [
        f"{len(kueue.configurations)} webhook configurations of Kueue are stored and removed",
        *([f"{len(found.api_services)} APIServices of Kueue are stored and removed"] if found.api_services else ()),
        f"Deployment {place} is scaled from {kueue.replicas} to 0; nothing of it is deleted",
        f"{len(theirs)} CRDs become those of Seiretsu; all objects stay",
        *([f"Helm no longer knows the release {', '.join(names)}"] if (names := release_names(found.releases)) else ()),
        f"{running} admitted and {waiting} waiting Workloads stay as they are",
    ]


def release_names(secrets: Sequence[Raw]) -> list[str]:
    """Returns the names of the Helm releases that these Secrets store."""
    return sorted({(each["metadata"].get("labels") or {}).get("name", "") for each in secrets})


def _finished(workload: Raw) -> bool:
    found = (workload.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Finished" and each["status"] == "True" for each in found)


LISTED: Final = tuple(kind for kind in KINDS if kind.kind != Kind.QUEUE)
"""The kinds whose objects are checked: `Queue` is v0.1's name, which Kueue no longer has."""
