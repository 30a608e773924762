"""The objects of a scenario or of a live cluster, as State and admission know them, under the operator's Configuration.

Separate from ``cli.simulator``, which plays Jobs on it, for ``explain`` asks of the same world.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from api import names
from api.configuration import ConfigurationError, load
from api.kinds import KINDS
from app.setup import admission_settings
from cli.manifests import Document, Mistakes, Raw, ScenarioError
from cli.scenario import LIVE, NAMESPACED
from controller.settings import Settings as ControllerSettings
from controller.settings import from_configuration
from controller.usage import consumed_of
from core.feedback import catalog
from core.jobs import meta
from core.jobs import workload as workloads
from core.jobs.kinds import BATCH_JOB
from core.matching.namespaces import managed
from core.model import Workload
from core.state.lookup import Lookup
from core.state.state import State
from core.wire import decode, pod_requests, resource_quotas
from core.workload import priority
from webhook import patch
from webhook.hooks import HOOKS, Phase, Reach
from webhook.review import Request, Response
from webhook.settings import Context, Settings

RESOURCES = {
    "Job": ("batch", "v1", "jobs"),
    **{kind.kind: (names.GROUP, names.V1BETA2, kind.plural) for kind in KINDS if kind.kind != names.Kind.WORKLOAD},
}
"""Group, version and resource of the kinds that admission looks at."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator's Configuration says, as the controller and as admission read it."""

    controller: ControllerSettings = field(default_factory=ControllerSettings)
    admission: Settings = field(default_factory=Settings)


def rules(config: Path | None = None) -> Rules:
    """The rules of a Configuration file, those of an empty one without; ScenarioError with all its mistakes."""
    try:
        loaded = load(
            config.read_text() if config is not None else "",
            feedback_rules=catalog.NAMES,
            cluster_rules=catalog.OF_NO_NAMESPACE,
        )
    except ConfigurationError as error:
        raise ScenarioError(*(f"{config}: {mistake}" for mistake in error.errors)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{config}: {getattr(error, 'strerror', None) or error}") from None
    return Rules(from_configuration(loaded.configuration, elect=False), admission_settings(loaded))


class World:
    """The objects, in State. What is wrong with those of files is told all at once, as ScenarioError."""

    def __init__(self, objects: Iterable[Document], rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.state = State(self.rules.controller.policy)
        self.classes = priority.PriorityClasses({}, {})
        self.limit_ranges: dict[str, list[Raw]] = defaultdict(list)
        self.resource_quotas: dict[str, list[resource_quotas.ResourceQuota]] = defaultdict(list)
        self.runtime_classes: list[Raw] = []
        self.contexts: dict[str, decode.WorkloadContext] = {}
        self.workloads: list[Workload] = []
        self.warnings: list[str] = []
        self._workload_classes: dict[str, int] = {}
        self._pod_classes: dict[str, Raw] = {}
        lookup = Lookup(
            self.state,
            classes=lambda: self.classes,
            rules=lambda namespace: self.context(namespace).rules,
            quotas=lambda namespace: self.resource_quotas.get(namespace, ()),
        )
        self.admission = Context(self.rules.admission, lookup)
        self._fill(sorted(objects, key=lambda document: document.raw["kind"] == names.Kind.WORKLOAD))

    def _fill(self, objects: list[Document]) -> None:
        mistakes = Mistakes()
        for document in objects:
            try:
                self._add(document)
                self._settle_in(document.raw)
            except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
                mistakes.add(document.place, f"cannot be read: {type(error).__name__}: {error}")
        pod = {name: raw["value"] for name, raw in self._pod_classes.items()}
        default = next((name for name, raw in sorted(self._pod_classes.items()) if raw.get("globalDefault")), None)
        self.classes = priority.PriorityClasses(self._workload_classes, pod, default)
        for document in objects:
            if document.origin != LIVE and document.raw["kind"] in RESOURCES:
                self._judge(document, mistakes)
        mistakes.raise_any()

    def _add(self, document: Document) -> None:
        """Take in one object; kinds that mean nothing here are passed over."""
        raw = document.raw
        kind, name = raw["kind"], raw["metadata"]["name"]
        takers: dict[str, Callable[[Raw], object]] = {
            names.Kind.CLUSTER_QUEUE: lambda r: self.state.set_cluster_queue(name, decode.cluster_queue(r)),
            names.Kind.COHORT: lambda r: self.state.set_cohort(name, decode.cohort(r)),
            names.Kind.RESOURCE_FLAVOR: lambda r: self.state.set_flavor(name, decode.resource_flavor(r)),
            names.Kind.ADMISSION_CHECK: lambda r: self._check(r, alive=document.origin == LIVE),
            names.Kind.LOCAL_QUEUE: self._local_queue,
            names.Kind.WORKLOAD_PRIORITY_CLASS: lambda r: self._workload_classes.update({name: int(r["value"])}),
            "PriorityClass": lambda r: self._pod_classes.update({name: r | {"value": int(r["value"])}}),
            "Namespace": lambda r: self.namespace(name, r["metadata"].get("labels") or {}),
            "LimitRange": self._limit_range,
            "ResourceQuota": self._resource_quota,
            "RuntimeClass": self._runtime_class,
            names.Kind.WORKLOAD: lambda r: self.workloads.append(self.read(_named(r))),
        }
        if kind in takers:
            takers[kind](raw)

    def _settle_in(self, raw: Raw) -> None:
        """A namespace that no file has is there all the same."""
        if raw["kind"] in NAMESPACED:
            namespace = raw["metadata"].get("namespace", "default")
            if namespace not in self.state.namespaces:
                self.namespace(namespace)

    def _judge(self, document: Document, mistakes: Mistakes) -> None:
        """What admission says of an object of a file, once all of them are there."""
        _, response = admitted(document.raw, self.admission)
        if not response.allowed:
            mistakes.add(document.place, *(response.causes or (response.message,)))
        self.warnings += [f"{document.place}: {warning}" for warning in response.warnings]

    def _check(self, raw: Raw, *, alive: bool) -> None:
        """A check of a file has nobody who could say that it is looked after: it is taken to be."""
        check = decode.admission_check(raw)
        self.state.set_admission_check(check.name, check if alive else replace(check, active=True))

    def _local_queue(self, raw: Raw) -> None:
        raw = _named(raw)
        queue = decode.local_queue(raw)
        self.state.set_local_queue(queue.key, queue)
        consumed = consumed_of(raw)
        if consumed is not None:
            self.state.local_queue_usage.set_consumed(queue.key, consumed)

    def _limit_range(self, raw: Raw) -> None:
        pod_requests.limits([raw])
        self.limit_ranges[raw["metadata"].get("namespace", "default")].append(raw)

    def _resource_quota(self, raw: Raw) -> None:
        quota = resource_quotas.read(_named(raw))
        self.resource_quotas[quota.namespace].append(quota)

    def _runtime_class(self, raw: Raw) -> None:
        pod_requests.overheads([raw])
        self.runtime_classes.append(raw)

    def namespace(self, name: str, labels: Raw | None = None) -> None:
        """A namespace; it bears the label that every one has."""
        self.state.set_namespace(name, {names.NAMESPACE_NAME_LABEL: name, **(labels or {})})

    def manages(self, namespace: str) -> bool:
        """Whether jobs of a namespace are ours at all."""
        selector = self.rules.controller.managed_namespaces
        return managed(
            namespace, self.state.namespaces.get(namespace, {}), selector, own=self.rules.controller.namespace
        )

    def context(self, namespace: str) -> decode.WorkloadContext:
        """What the Workloads of a namespace are read with."""
        found = self.contexts.get(namespace)
        if found is None:
            reading = self.rules.controller.reading
            rules = pod_requests.RequestRules(
                limits=pod_requests.limits(self.limit_ranges.get(namespace, [])),
                overheads=pod_requests.overheads(self.runtime_classes),
                transformations=reading.transformations,
                excluded_prefixes=reading.excluded_prefixes,
            )
            found = self.contexts[namespace] = reading.context(rules)
        return found

    def workload(self, job: Raw) -> Workload | priority.Missing:
        """The Workload that the controller would make of a Job, or the class without which it makes none."""
        asked = priority.of_job(meta.priority_class(job), BATCH_JOB.pod_sets(job), self.classes)
        if isinstance(asked, priority.Missing):
            return asked
        raw = workloads.manifest(BATCH_JOB, job, asked, labels_to_copy=self.rules.controller.labels_to_copy)
        raw["metadata"] |= {key: job["metadata"][key] for key in ("uid", "creationTimestamp")}
        return self.read(raw)

    def read(self, raw: Raw) -> Workload:
        """A Workload object."""
        return decode.workload(raw, self.context(raw["metadata"]["namespace"]))


def admitted(raw: Raw, context: Context) -> tuple[Raw, Response]:
    """An object as our webhooks leave it on create, and their verdict: mutating hooks first, then validating ones."""
    group, version, resource = RESOURCES[raw["kind"]]
    warnings: tuple[str, ...] = ()
    for phase in (Phase.MUTATING, Phase.VALIDATING):
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


def _named(raw: Raw) -> Raw:
    """With the namespace that kubectl would give it."""
    return raw | {"metadata": {"namespace": "default"} | raw["metadata"]}
