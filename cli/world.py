"""The objects of a scenario or of a live cluster, in State and for admission, with the operator's Configuration.

Separate from ``cli.simulator``, which runs Jobs on it, because ``explain`` uses the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from api import names
from api.configuration import ConfigurationError, load
from api.kinds import KINDS
from api.objects import Raw
from api.resources import ADMISSION_CHECKS, MULTIKUEUE_CONFIGS
from app.setup import admission_settings
from cli.cluster_state import ClusterState, without_mapping
from cli.manifests import Document, Mistakes, ScenarioError
from cli.scenario import LIVE, NAMESPACED, READY_AFTER, duration
from controller.cache.lookup import cache_lookup
from controller.cache.owners import Owners
from controller.settings import ControllerSettings, from_configuration
from core.feedback import catalog
from core.jobs import meta, template
from core.jobs import workload as workloads
from core.jobs.actions import Problem
from core.jobs.fields import at
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, supported
from core.jobs.pod_owner_groups import created
from core.jobs.pod_owners import POD_OWNERS, PodOwner
from core.matching.namespaces import managed
from core.multikueue import conditions
from core.simulation.simulation import Check
from core.state.lookup import Lookup
from core.workload import priority
from webhook import patch
from webhook.hooks import HOOKS, HookPhase, Reach
from webhook.review import Request, Response
from webhook.settings import Context, WebhookSettings

RESOURCES = {
    **{kind.kind: (kind.group, kind.version, kind.plural) for kind in ALL},
    **{kind.kind: (kind.group, kind.version, kind.plural) for kind in (each.resource for each in POD_OWNERS)},
    **{kind.kind: (names.GROUP, names.V1BETA2, kind.plural) for kind in KINDS if kind.kind != names.Kind.WORKLOAD},
}
"""Group, version and resource of the kinds that pass admission."""
VERDICT = "seiretsu.dev/verdict"
RETRY_AFTER = "seiretsu.dev/retry-after"
_VERDICTS = (names.CheckState.READY, names.CheckState.RETRY, names.CheckState.REJECTED)


@dataclass(frozen=True, slots=True)
class ConfiguredRules:
    """The operator's Configuration as the controller and admission read it."""

    controller: ControllerSettings = field(default_factory=ControllerSettings)
    admission: WebhookSettings = field(default_factory=WebhookSettings)


def rules(config: Path | None = None) -> ConfiguredRules:
    """The rules of a Configuration file, those of an empty one without; ScenarioError with all its mistakes."""
    try:
        loaded = load(
            config.read_text() if config is not None else "",
            frameworks=supported(),
            feedback_rules=catalog.NAMES,
            cluster_rules=catalog.OF_NO_NAMESPACE,
        )
    except ConfigurationError as error:
        raise ScenarioError(*(f"{config}: {mistake}" for mistake in error.errors)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{config}: {getattr(error, 'strerror', None) or error}") from None
    return ConfiguredRules(from_configuration(loaded.configuration, elect=False), admission_settings(loaded))


def rules_of_cluster(config: Path | None) -> ConfiguredRules:
    """As ``rules`` for the objects of a cluster: without the Configuration of its controller no devices are counted."""
    found = rules(config)
    return found if config is not None else replace(found, controller=without_mapping(found.controller))


def without_variants(chosen: ConfiguredRules) -> ConfiguredRules:
    """The rules with the feature gate ConcurrentAdmission off: nobody creates variants where no controller runs."""
    policy = replace(chosen.controller.policy, concurrent_admission=False)
    reading = replace(chosen.controller.reading, concurrent_admission=False)
    return replace(chosen, controller=replace(chosen.controller, policy=policy, reading=reading))


class World(ClusterState):
    """The objects, in State. All mistakes in those of files are raised together, as ScenarioError."""

    def __init__(
        self,
        objects: Iterable[Document],
        rules: ConfiguredRules | None = None,
        workers: Mapping[str, Lookup] | None = None,
    ) -> None:
        """``workers`` are the queues of the worker clusters of MultiKueue by name."""
        self.rules = rules or ConfiguredRules()
        super().__init__(self.rules.controller)
        self.warnings: list[str] = []
        self.checks: dict[str, Check] = {}
        """How AdmissionChecks decide, by name."""
        known = workers or {}

        def workers_of(check: str) -> dict[str, Lookup | None]:
            return {name: known.get(name) for name in self.dispatched.get(check, ())}

        # All nodes are among the objects; in a cluster they are known when they were listed once.
        self.lookup = replace(
            cache_lookup(self.caches, Owners(self.caches), workers_of),
            nodes=lambda: tuple(self.caches.nodes),
            labelled=None,
        )
        self.admission = Context(self.rules.admission, self.lookup)
        self._fill(sorted(objects, key=lambda document: document.raw["kind"] == names.Kind.WORKLOAD))

    def _fill(self, objects: list[Document]) -> None:
        mistakes = Mistakes()
        for document in objects:
            if document.raw["kind"] == names.Kind.ADMISSION_CHECK:
                self._decides(document, mistakes)
            try:
                self._add(document)
            except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
                mistakes.add(document.place, f"cannot be read: {type(error).__name__}: {error}")
        for document in objects:
            if document.origin != LIVE and document.raw["kind"] in RESOURCES:
                self._judge(document, mistakes)
        mistakes.raise_any()

    def _add(self, document: Document) -> None:
        """Enters one object; an AdmissionCheck of a file is active, because no controller of it runs here."""
        raw, kind = document.raw, document.raw["kind"]
        if kind == names.Kind.ADMISSION_CHECK and document.origin != LIVE:
            raw = _active(raw)
        self.add(_named(raw) if kind in NAMESPACED else raw)

    def _decides(self, document: Document, mistakes: Mistakes) -> None:
        """How an AdmissionCheck decides, by its annotations."""
        metadata = document.raw["metadata"]
        given = metadata.get("annotations") or {}
        verdict = given.get(VERDICT, names.CheckState.READY)
        if verdict not in _VERDICTS:
            allowed = ", ".join(_VERDICTS)
            mistakes.add(document.place, f"metadata.annotations[{VERDICT}]: {verdict!r} is not one of {allowed}")
        times = []
        for name, default in ((READY_AFTER, "0"), (RETRY_AFTER, "60s")):
            try:
                times.append(duration(given.get(name, default)))
            except ValueError as error:
                mistakes.add(document.place, f"metadata.annotations[{name}]: {error}")
                times.append(0.0)
        self.checks[metadata["name"]] = Check(times[0], verdict, times[1])

    def _judge(self, document: Document, mistakes: Mistakes) -> None:
        """Returns the findings of admission about an object of a file, when all objects are loaded."""
        _, response = admitted(document.raw, self.admission)
        if not response.allowed:
            mistakes.add(document.place, *(response.causes or (response.message,)))
        self.warnings += [f"{document.place}: {warning}" for warning in response.warnings]

    def manages(self, namespace: str) -> bool:
        """Whether jobs of a namespace are managed."""
        selector = self.rules.controller.managed_namespaces
        return managed(
            namespace, self.state.namespaces.get(namespace, {}), selector, own=self.rules.controller.namespace
        )

    @property
    def dispatched(self) -> dict[str, tuple[str, ...]]:
        """The worker clusters of each AdmissionCheck of MultiKueue, in the order of its MultiKueueConfig."""
        found = {}
        for raw in self.caches.stores[ADMISSION_CHECKS] if self.rules.controller.multikueue.enabled else ():
            if conditions.is_ours(raw):
                config = self.caches.parameters(raw, MULTIKUEUE_CONFIGS)
                found[raw["metadata"]["name"]] = conditions.clusters_of(config)
        return found

    def workload(self, kind: JobKind, job: Raw) -> Raw | priority.Missing:
        """The Workload that a job has when the controller has made it, or the class without which it makes none."""
        made = self.manifest(kind, job)
        if not isinstance(made, priority.Missing):
            made["metadata"] |= {key: job["metadata"][key] for key in ("uid", "creationTimestamp")}
        return made

    def manifest(self, kind: JobKind, job: Raw, related: Sequence[Raw] = ()) -> Raw | priority.Missing:
        """The Workload to create for a job, or the class that is missing."""
        pod_sets, of_pods = kind.pod_sets(job, related), kind.priority_class(job)
        namespace = job["metadata"].get("namespace") or ""
        asked = priority.of_job(
            meta.priority_class(job), pod_sets, self.caches.classes, namespace=namespace, of_pods=of_pods
        )
        if isinstance(asked, priority.Missing):
            return asked
        return workloads.manifest(kind, job, asked, self.rules.controller.copied, related=related)

    def workload_of_pods(self, kind: PodOwner, owner: Raw) -> Raw | Problem:
        """A Workload of the pods of an object, or why there is none."""
        templates = [({"spec": at(owner, (*slot.path, "spec")) or {}}, slot) for slot in kind.slots(owner)]
        pod_sets = [
            template.pod_set(found, name=slot.name, count=slot.count, drop_labels=frozenset(), min_count=None)
            for found, slot in templates
        ]
        metadata = owner["metadata"]
        made = created(kind, owner, metadata["name"], pod_sets, self.caches.classes)
        if isinstance(made, Problem):
            return made
        made.manifest["metadata"] |= {key: metadata[key] for key in ("uid", "creationTimestamp")}
        return made.manifest


def admitted(raw: Raw, context: Context) -> tuple[Raw, Response]:
    """Returns an object after Seiretsu's webhooks on create, and their verdict: mutating hooks first, then validating
    ones.
    """
    group, version, resource = RESOURCES[raw["kind"]]
    warnings: tuple[str, ...] = ()
    for phase in (HookPhase.MUTATING, HookPhase.VALIDATING):
        reach = (Reach.QUEUED_JOBS if meta.queue_name(raw) else Reach.UNQUEUED_JOBS, Reach.OUR_KINDS)
        for hook in HOOKS:
            here = hook.phase is phase and (hook.group, hook.version) == (group, version)
            if not here or resource not in hook.resources or hook.reach not in reach:
                continue
            if not hook.exists(context.settings):
                continue
            response = hook.handler(_request(raw, group, version, resource), context)
            warnings += response.warnings
            if not response.allowed:
                return raw, response
            raw = patch.apply(raw, response.patch)
    return raw, Response(allowed=True, warnings=tuple(dict.fromkeys(warnings)))


def _request(raw: Raw, group: str, version: str, resource: str) -> Request:
    metadata = raw["metadata"]
    return Request(
        uid="simulated",
        operation="CREATE",
        group=group,
        version=version,
        resource=resource,
        sub_resource="",
        kind=raw["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        object=raw,
        old_object=None,
        dry_run=False,
        username="",
        options={},
    )


def _active(raw: Raw) -> Raw:
    """Returns an AdmissionCheck of a file as active: no controller of it runs here."""
    condition = {"type": names.Condition.ACTIVE, "status": "True"}
    return raw | {"status": {"conditions": [condition]}}


def _named(raw: Raw) -> Raw:
    """With the namespace that kubectl would give it."""
    return raw | {"metadata": {"namespace": "default"} | raw["metadata"]}
