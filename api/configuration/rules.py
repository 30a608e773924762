"""Which settings of a Configuration can be combined: the rules beyond the form, with Kueue's texts."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from ipaddress import ip_address
from itertools import chain
from typing import Final

from api import duration, quantity, syntax
from api.configuration import devices, expressions, notifications
from api.configuration.model import Configuration, CustomLabel
from api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from api.names import DISPATCHER_INCREMENTAL, NAMESPACE_NAME_LABEL
from api.selector import matches
from api.validate.common import NEGATIVE

_STRATEGIES: Final = (
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
)
_EXTERNAL: Final = re.compile(r"[^.]+\.[^.]+\..+")
_METRIC_LABEL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_MOST_LABELS: Final = 20
_MOST_TRACKED: Final = 16
_MOST_TRACKED_OF_WORKLOADS: Final = 12
_SHORTEST_HISTORY: Final = timedelta(hours=1)
_SMALLEST_HISTORY: Final = 16 * 2**20


def check(
    configuration: Configuration, gates: Mapping[str, bool], frameworks: Mapping[str, str] | None = None
) -> list[FieldError]:
    """Returns everything that does not fit together. `frameworks` are the integrations that exist, each with the
    feature gate that it needs ('' for none); without them any name is accepted.
    """
    found = (rule(configuration) for rule in _RULES)
    mappings = configuration.resources.device_class_mappings
    return [
        *_frameworks(configuration, gates, frameworks),
        *chain.from_iterable(found),
        *devices.check(mappings, gates),
    ]


def _negative(path: str, value: timedelta | None) -> list[FieldError]:
    return [invalid(path, duration.text(value), NEGATIVE)] if value is not None and value < timedelta() else []


def _wait_for_pods_ready(configuration: Configuration) -> Iterator[FieldError]:
    wait = configuration.wait_for_pods_ready
    if wait is None:
        return
    yield from _negative("waitForPodsReady.timeout", wait.timeout)
    yield from _negative("waitForPodsReady.recoveryTimeout", wait.recovery_timeout)
    strategy = wait.requeuing_strategy
    for name, value in (
        ("backoffLimitCount", strategy.backoff_limit_count),
        ("backoffBaseSeconds", strategy.backoff_base_seconds),
        ("backoffMaxSeconds", strategy.backoff_max_seconds),
    ):
        if value is not None and value < 0:
            yield invalid(f"waitForPodsReady.requeuingStrategy.{name}", value, NEGATIVE)


def _frameworks(
    configuration: Configuration, gates: Mapping[str, bool], known: Mapping[str, str] | None
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in enumerate(configuration.integrations.frameworks):
        path = f"integrations.frameworks[{index}]"
        gate = (known or {}).get(name, "")
        if known is not None and name not in known:
            yield not_supported(path, name, sorted(known))
        elif name in seen:
            yield duplicate(path, name)
        elif gate and not gates.get(gate):
            yield invalid(path, name, f"is an alpha feature: enable the feature gate {gate}")
        seen.add(name)


def _external_frameworks(configuration: Configuration) -> Iterator[FieldError]:
    external: set[str] = set()
    for index, name in enumerate(configuration.integrations.external_frameworks):
        path = f"integrations.externalFrameworks[{index}]"
        if not _EXTERNAL.fullmatch(name):
            yield invalid(path, name, "must be format, 'Kind.version.group.com'")
        elif name in external:
            yield duplicate(path, name)
        external.add(name)


def _copied_labels(configuration: Configuration) -> Iterator[FieldError]:
    for index, key in enumerate(configuration.integrations.label_keys_to_copy):
        yield from syntax.checked(f"integrations.labelKeysToCopy[{index}]", key, syntax.qualified_name)


def _managed_namespaces(configuration: Configuration) -> Iterator[FieldError]:
    path = "managedJobsNamespaceSelector"
    selector = configuration.managed_namespaces
    errors = syntax.label_selector(path, selector)
    yield from errors
    if errors:
        return
    for namespace in dict.fromkeys(("kube-system", configuration.namespace)):
        if namespace and matches(selector, {NAMESPACE_NAME_LABEL: namespace}):
            yield invalid(path, selector, f'should not match the "{namespace}" namespace')


def _multi_kueue(configuration: Configuration) -> Iterator[FieldError]:
    multi = configuration.multi_kueue
    yield from _negative("multiKueue.gcInterval", multi.gc_interval)
    yield from _negative("multiKueue.workerLostTimeout", multi.worker_lost_timeout)
    if texts := syntax.label_value(multi.origin):
        yield invalid("multiKueue.origin", multi.origin, ",".join(texts))
    seen: set[str] = set()
    for index, framework in enumerate(multi.external_frameworks):
        path = f"multiKueue.externalFrameworks[{index}].name"
        if not _EXTERNAL.fullmatch(framework.name):
            yield invalid(path, framework.name, "must be in 'kind.version.group' format")
        elif framework.name in seen:
            yield duplicate(path, framework.name)
        seen.add(framework.name)
    profile = multi.cluster_profile
    if profile and profile.access_providers and profile.credentials_providers:
        path = "multiKueue.clusterProfile.credentialsProviders"
        yield forbidden(path, "must not be specified when accessProviders is specified")
    step = multi.incremental_dispatcher_config
    if step is not None and multi.dispatcher_name != DISPATCHER_INCREMENTAL:
        text = "incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher"
        yield invalid("multiKueue.incrementalDispatcherConfig", step.model_dump(by_alias=True), text)


def _fair_sharing(configuration: Configuration) -> Iterator[FieldError]:
    if configuration.fair_sharing is None:
        return
    path, strategies = "fairSharing.preemptionStrategies", configuration.fair_sharing.preemption_strategies
    if not strategies:
        yield required(path, "must be specified")
    elif tuple(strategies) not in _STRATEGIES:
        yield not_supported(path, strategies, (",".join(legal) for legal in _STRATEGIES))


def _admission_fair_sharing(configuration: Configuration) -> Iterator[FieldError]:
    sharing = configuration.admission_fair_sharing
    if sharing is None:
        return
    yield from _negative("admissionFairSharing.usageHalfLifeTime", sharing.usage_half_life_time)
    if sharing.usage_sampling_interval <= timedelta():
        path = "admissionFairSharing.usageSamplingInterval"
        yield invalid(path, duration.text(sharing.usage_sampling_interval), "must be greater than 0")
    for name, weight in sorted(sharing.resource_weights.items()):
        if not weight >= 0:
            yield invalid(f"admissionFairSharing.resourceWeights[{name}]", str(weight), NEGATIVE)


def _resources(configuration: Configuration) -> Iterator[FieldError]:
    resources = configuration.resources
    if resources.exclude_resource_prefixes and resources.quota_check_strategy == "IgnoreUndeclared":
        text = "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared"
        yield invalid("resources.quotaCheckStrategy", resources.quota_check_strategy, text)
    inputs: set[str] = set()
    for index, transformation in enumerate(resources.transformations):
        if transformation.input in inputs:
            yield duplicate(f"resources.transformations[{index}].input", transformation.input)
        inputs.add(transformation.input)


def _certificates(configuration: Configuration) -> Iterator[FieldError]:
    management = configuration.internal_cert_management
    if not management.enable:
        return
    for name, value, check in (
        ("webhookServiceName", management.webhook_service_name, syntax.dns1123_label),
        ("webhookSecretName", management.webhook_secret_name, syntax.dns1123_subdomain),
    ):
        if texts := check(value):
            yield invalid(f"internalCertManagement.{name}", value, ",".join(texts))


def _retention(configuration: Configuration) -> Iterator[FieldError]:
    path, workloads = "objectRetentionPolicies.workloads", configuration.object_retention_policies.workloads
    yield from _negative(f"{path}.afterFinished", workloads.after_finished)
    yield from _negative(f"{path}.afterDeactivatedByKueue", workloads.after_deactivated_by_kueue)


def _servers(configuration: Configuration) -> Iterator[FieldError]:
    tls, address = configuration.tls, configuration.visibility_server.bind_address
    if tls is not None and tls.min_version == "VersionTLS13" and tls.cipher_suites:
        text = "may not be specified when `minVersion` is 'VersionTLS13'"
        yield invalid("tls.cipherSuites", tls.cipher_suites, text)
    try:
        ip_address(address)
    except ValueError:
        yield invalid("visibilityServer.bindAddress", address, "must be a valid IP address")
    election = configuration.leader_election
    if not election.lease_duration > election.renew_deadline > election.retry_period > timedelta():
        text = "must be longer than renewDeadline, and that longer than retryPeriod, and that longer than 0"
        yield invalid("leaderElection.leaseDuration", duration.text(election.lease_duration), text)


def _custom_labels(configuration: Configuration) -> Iterator[FieldError]:
    labels = configuration.metrics.custom_labels
    if len(labels) > _MOST_LABELS:
        yield too_many("metrics.customLabels", len(labels), _MOST_LABELS)
    names = Counter[str]()
    for index, label in enumerate(labels):
        path = f"metrics.customLabels[{index}]"
        names[label.name] += 1
        if names[label.name] > 1:
            yield duplicate(f"{path}.name", label.name)
        yield from _custom_label(path, label)


def _custom_label(path: str, label: CustomLabel) -> Iterator[FieldError]:
    if not _METRIC_LABEL.fullmatch(label.name):
        yield invalid(f"{path}.name", label.name, "must match ^[a-zA-Z][a-zA-Z0-9_]*$")
    if label.source_label_key and label.source_annotation_key:
        text = "sourceLabelKey and sourceAnnotationKey are mutually exclusive"
        yield invalid(path, label.model_dump(by_alias=True, exclude_defaults=True), text)
    for name, key in (
        ("sourceLabelKey", label.source_label_key),
        ("sourceAnnotationKey", label.source_annotation_key),
    ):
        if key:
            yield from syntax.checked(f"{path}.{name}", key, syntax.qualified_name)
    values, of_workload = label.tracked_values, label.source_kind == "Workload"
    at = f"{path}.trackedValues"
    if of_workload and not values:
        yield invalid(at, values, "must not be empty when sourceKind is 'Workload'")
    if of_workload and len(values) > _MOST_TRACKED_OF_WORKLOADS:
        text = f"must not be greater than {_MOST_TRACKED_OF_WORKLOADS} when sourceKind is 'Workload'"
        yield invalid(at, values, text)
    if not of_workload and len(values) > _MOST_TRACKED:
        yield too_many(at, len(values), _MOST_TRACKED)
    if len(set(values)) < len(values):
        yield invalid(at, values, "must not contain duplicates")


def _feedback(configuration: Configuration) -> Iterator[FieldError]:
    yield from _negative("seiretsu.terminatingPodsTimeout", configuration.seiretsu.terminating_pods_timeout)
    for index, rule in enumerate(configuration.seiretsu.feedback.rules):
        if rule.namespace_selector is not None:
            selector = rule.namespace_selector.model_dump(by_alias=True, exclude_none=True)
            yield from syntax.label_selector(f"seiretsu.feedback.rules[{index}].namespaceSelector", selector)
    seen: set[str] = set()
    for index, own in enumerate(configuration.seiretsu.feedback.expressions):
        at = f"seiretsu.feedback.expressions[{index}]"
        if own.name in seen:
            yield duplicate(f"{at}.name", own.name)
        seen.add(own.name)
        if wrong := expressions.problem(own.expression, own.resources, bool):
            yield invalid(f"{at}.expression", own.expression, wrong)
        if own.message_expression and (wrong := expressions.problem(own.message_expression, own.resources, str)):
            yield invalid(f"{at}.messageExpression", own.message_expression, wrong)


def _history(configuration: Configuration) -> Iterator[FieldError]:
    section = configuration.seiretsu.history
    if section.enable and section.max_age < _SHORTEST_HISTORY:
        yield invalid("seiretsu.history.maxAge", duration.text(section.max_age), "must be at least 1h")
    if section.enable and quantity.amount("storage", section.max_size) < _SMALLEST_HISTORY:
        yield invalid("seiretsu.history.maxSize", section.max_size, "must be at least 16Mi")
    if section.enable and not section.url_file and not section.directory.startswith("/"):
        yield invalid("seiretsu.history.directory", section.directory, "must be an absolute path")
    recorder = configuration.seiretsu.recorder
    if recorder.enable and quantity.amount("storage", recorder.max_size) < _SMALLEST_HISTORY:
        yield invalid("seiretsu.recorder.maxSize", recorder.max_size, "must be at least 16Mi")
    if recorder.enable and not recorder.directory.startswith("/"):
        yield invalid("seiretsu.recorder.directory", recorder.directory, "must be an absolute path")


def _time_sharing(configuration: Configuration) -> Iterator[FieldError]:
    section, path = configuration.seiretsu.time_sharing, "seiretsu.timeSharing"
    yield from _negative(f"{path}.interval", section.interval)
    if section.interval > timedelta() and not configuration.feature_gates.get("PriorityBoost"):
        yield forbidden(f"{path}.interval", "needs the feature gate PriorityBoost: without it the boost has no effect")
    if section.workload_selector is not None:
        selector = section.workload_selector.model_dump(by_alias=True, exclude_none=True)
        yield from syntax.label_selector(f"{path}.workloadSelector", selector)


def _population(configuration: Configuration) -> Iterator[FieldError]:
    section = configuration.seiretsu.population
    name, path = section.local_queue_name, "seiretsu.population"
    if name and section.local_queue_name_mode == "AsClusterQueue":
        detail = "localQueueName cannot be set when localQueueNameMode is AsClusterQueue"
        yield invalid(f"{path}.localQueueName", name, detail)
    elif name:
        yield from (invalid(f"{path}.localQueueName", name, text) for text in syntax.dns1123_subdomain(name))
    if section.namespace_selector is not None:
        selector = section.namespace_selector.model_dump(by_alias=True, exclude_none=True)
        yield from syntax.label_selector(f"{path}.namespaceSelector", selector)


def _notifications(configuration: Configuration) -> Iterator[FieldError]:
    yield from notifications.wrong(configuration.seiretsu.notifications, "seiretsu.notifications")


_RULES: Final[tuple[Callable[[Configuration], Iterator[FieldError]], ...]] = (
    _wait_for_pods_ready,
    _external_frameworks,
    _copied_labels,
    _managed_namespaces,
    _multi_kueue,
    _fair_sharing,
    _admission_fair_sharing,
    _resources,
    _certificates,
    _retention,
    _servers,
    _custom_labels,
    _history,
    _feedback,
    _notifications,
    _population,
    _time_sharing,
)
