"""Both webhook configurations, made from the table of hooks: what the API server sends to Seiretsu, and what it does
not.

The effect of an outage is decided here. A hook that may refuse gets jobs with a queue name (or all jobs of the
namespaces that the operator selects) and Seiretsu's own kinds; objects of system namespaces and of Seiretsu's namespace
are never sent, so that its own start does not wait for it. Source: the Kubernetes documentation, "Admission Webhook
Good Practices".
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from api import names
from api.names import Label, SchedulingGate
from core.jobs.fields import dotted
from core.jobs.kind import JobKind
from core.matching.namespaces import never_managed
from core.model import Raw
from webhook import living_pods, template_marks, workload_changes
from webhook.hooks import Hook, HookPhase, Reach, hooks
from webhook.settings import ControllerAccount, WebhookSettings
from webhook.trust import OF_THE_CLUSTER, Trust

GROUP_VERSION: Final = "admissionregistration.k8s.io/v1"

STRANGERS_SECONDS: Final = 2
"""How long a job without a queue name waits if packets to Seiretsu are lost; it is then created without it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address for the API server: ``url`` (``https://host:port``) outside of the cluster, else Service and port."""

    url: str = ""
    service: str = "seiretsu-webhook-service"
    namespace: str = names.NAMESPACE
    port: int = 443

    def client_config(self, path: str, ca_bundle: bytes) -> Raw:
        """``clientConfig`` for a path; ``ca_bundle`` is PEM, and left out where it is empty."""
        if self.url:
            config: Raw = {"url": self.url.rstrip("/") + path}
        else:
            service = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
            config = {"service": service}
        if ca_bundle:
            config["caBundle"] = base64.b64encode(ca_bundle).decode()
        return config


@dataclass(frozen=True, slots=True)
class HookOptions:
    """Settings of the generated configurations.

    ``account`` is that of the process. If nobody else has it (a service account), its writes are not sent back to it
    for validation. ``failure_policy`` is that of the hooks that may refuse.
    """

    settings: WebhookSettings = field(default_factory=WebhookSettings)
    endpoint: Endpoint = field(default_factory=Endpoint)
    ca_bundle: bytes = b""
    name: str = "seiretsu"
    labels: Mapping[str, str] = field(default_factory=dict)
    account: ControllerAccount = field(default_factory=ControllerAccount)
    failure_policy: str = "Fail"
    timeout_seconds: int = 5
    reinvocation_policy: str = "IfNeeded"
    placeholders: Trust | None = None

    @property
    def trust(self) -> Trust:
        """Who is believed to be a controller, by these settings or as the chart's template has them."""
        return self.placeholders or Trust.of(self.settings, written_by(self.account))


def mutating(options: HookOptions) -> Raw:
    """The MutatingWebhookConfiguration."""
    return _configuration("MutatingWebhookConfiguration", HookPhase.MUTATING, options)


def validating(options: HookOptions) -> Raw:
    """The ValidatingWebhookConfiguration."""
    return _configuration("ValidatingWebhookConfiguration", HookPhase.VALIDATING, options)


def _configuration(kind: str, phase: HookPhase, options: HookOptions) -> Raw:
    metadata: Raw = {"name": f"{options.name}-{phase.value}-webhook-configuration"}
    if options.labels:
        metadata["labels"] = dict(options.labels)
    return {
        "apiVersion": GROUP_VERSION,
        "kind": kind,
        "metadata": metadata,
        "webhooks": [webhook(hook, options) for hook in hooks(options.settings, phase)],
    }


def webhook(hook: Hook, options: HookOptions) -> Raw:
    """One element of ``webhooks``."""
    found: Raw = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": options.endpoint.client_config(hook.path, options.ca_bundle),
        "rules": [_rule(hook)],
        "failurePolicy": options.failure_policy if hook.failure_policy == "Fail" else hook.failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": STRANGERS_SECONDS if hook.reach in _STRANGERS else options.timeout_seconds,
    }
    if hook.phase is HookPhase.MUTATING:
        found["reinvocationPolicy"] = options.reinvocation_policy
    if hook.reach in MANAGED_NAMESPACES:
        found["namespaceSelector"] = namespace_selector(options.settings)
    elif hook.reach is Reach.UNMANAGED_JOBS:
        found["namespaceSelector"] = {"matchExpressions": [_never_managed("In", options.settings)]}
    if hook.reach is Reach.UNQUEUED_JOBS:
        found["objectSelector"] = {"matchExpressions": [{"key": Label.QUEUE_NAME, "operator": "DoesNotExist"}]}
    conditions = match_conditions(hook, options)
    if conditions:
        found["matchConditions"] = conditions
    return found


_STRANGERS: Final = frozenset({Reach.UNQUEUED_JOBS, Reach.MISPLACED, Reach.UNMANAGED_JOBS, Reach.DELETED_BY_HAND})
MANAGED_NAMESPACES: Final = frozenset(
    {
        *(Reach.QUEUED_JOBS, Reach.UNQUEUED_JOBS, Reach.MISPLACED),
        *(Reach.CLAIMS, Reach.COUNTED_PODS, Reach.MARKED_TEMPLATES),
    }
)
"""The rules for objects of managed namespaces only."""


def _rule(hook: Hook) -> Raw:
    return {
        "apiGroups": [hook.group],
        "apiVersions": [hook.version],
        "operations": list(hook.operations),
        "resources": list(hook.resources),
        "scope": "*",
    }


def namespace_selector(settings: WebhookSettings) -> Raw:
    """Returns the selector of managed namespaces: those the operator chose, without those of the system and of
    Seiretsu.
    """
    chosen = settings.managed_jobs_namespace_selector or {}
    excluded = _never_managed("NotIn", settings)
    selector: Raw = {"matchExpressions": [*(chosen.get("matchExpressions") or ()), excluded]}
    if chosen.get("matchLabels"):
        selector["matchLabels"] = dict(chosen["matchLabels"])
    return selector


def _never_managed(operator: str, settings: WebhookSettings) -> Raw:
    return {
        "key": names.NAMESPACE_NAME_LABEL,
        "operator": operator,
        "values": list(never_managed(settings.namespace)),
    }


def match_conditions(hook: Hook, options: HookOptions) -> list[Raw]:
    """Returns the CEL conditions that must all be true for an object to be sent.

    The API server decodes an object again for the conditions of each hook whose selectors match it: selectors come
    first, and cost nothing.
    """
    if hook.reach is Reach.CLAIMS:
        return [{"name": "claims-an-owner", "expression": _claims(options.trust)}]
    if hook.reach is Reach.COUNTED_PODS:
        return [{"name": "changes-what-counts", "expression": living_pods.refused(options.trust)}]
    if hook.reach is Reach.MARKED_TEMPLATES:
        return [{"name": "changes-marks", "expression": template_marks.refused(options.trust)}]
    conditions = []
    kind, queued_jobs = hook.job_kind, hook.reach is Reach.QUEUED_JOBS
    if queued_jobs and kind is not None and kind.selector and "UPDATE" in hook.operations:
        conditions.append({"name": "watched", "expression": _created_or_watched(kind)})
    if queued_jobs and kind is not None and kind.only_marked(options.settings.frameworks):
        marked = now_or_before(hook.operations, _annotated(kind.marks))
        conditions.append({"name": "owner-queued", "expression": marked})
    elif hook.reach is Reach.UNQUEUED_JOBS:
        conditions.append({"name": "not-queued", "expression": f"!({queued('object', _marks(hook))})"})
    elif queued_jobs and not options.settings.manage_jobs_without_queue_name:
        conditions.append({"name": "queued", "expression": queued_now_or_before(hook.operations, _marks(hook))})
    elif hook.reach is Reach.CHECKED_WORKLOADS:
        conditions.append({"name": "to-be-checked", "expression": workload_changes.TO_BE_CHECKED})
    elif hook.reach is Reach.MISPLACED:
        conditions.append({"name": "names-a-queue", "expression": _near_queue(hook.kind)})
        conditions.append({"name": "made-by-hand", "expression": _UNCONTROLLED})
    elif hook.reach is Reach.UNMANAGED_JOBS:
        conditions.append({"name": "names-a-queue", "expression": queued("object")})
    elif hook.reach is Reach.DELETED_BY_HAND:
        conditions.append({"name": "stands-for-another", "expression": _CONTROLLED_BEFORE})
        conditions.append({"name": "by-a-person", "expression": _BY_A_PERSON})
    if options.account.name and not options.account.shared and {"UPDATE", "DELETE"} & {*hook.operations}:
        ours = written_by(options.account)
        if hook.phase is HookPhase.MUTATING:  # a job starts suspended, regardless of who creates it
            ours = f"request.operation == 'UPDATE' && {ours}"
        if hook.reach is Reach.CHECKED_WORKLOADS:
            # It compares an object with the one before, which costs the API server more than all other conditions. It
            # evaluates each condition of a hook, whatever the others are, but of one condition only as much as it
            # needs: so the controller's own writes are recognized in the same condition, and not compared.
            last = conditions.pop()
            conditions.append({"name": last["name"], "expression": f"!({ours}) && ({last['expression']})"})
        else:
            conditions.append({"name": "not-ourselves", "expression": f"!({ours})"})
    return conditions


def _claims(trust: Trust) -> str:
    return f"!({trust.fixed}) && {trust.claims}"


def _created_or_watched(kind: JobKind) -> str:
    """CEL: the object is created, or it has the label by which objects of this kind are watched, or had it, or waited
    behind Seiretsu's gate: nobody else removes that.
    """
    key, _, value = kind.selector.partition("=")
    labels = (f"{variable}.metadata.labels" for variable in ("object", "oldObject"))
    has = [f"(has({each}) && '{key}' in {each} && {each}['{key}'] == {_text(value)})" for each in labels]
    gates = f"oldObject.{dotted(kind.suspend_path)}"
    waited = f"(has({gates}) && {gates}.exists(g, g.name == {_text(SchedulingGate.ADMISSION)}))"
    return f"request.operation != 'UPDATE' || {' || '.join([*has, waited])}"


_UNCONTROLLED: Final = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, has(o.controller) &&"
    " o.controller)"
)
"""CEL: no other object controls this one."""

_CONTROLLED_BEFORE: Final = (
    "has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, has(o.controller) &&"
    " o.controller) && !has(oldObject.metadata.deletionTimestamp)"
)
_BY_A_PERSON: Final = f"!({OF_THE_CLUSTER})"
"""CEL: neither garbage collection nor the deletion of a namespace."""


def _near_queue(kind: str) -> str:
    """CEL: a label is similar to that of a queue; for kinds with a template, also one of its labels.

    Without a prefix only on CronJobs: elsewhere it is mostly a user's own label.
    """
    name = "" if kind == "CronJob" else "/"
    at = {"Pod": "", "CronJob": ".spec.jobTemplate"}.get(kind, ".spec.template")

    def near(holder: str) -> str:
        ends = " || ".join(f"k.endsWith('{name}{each}')" for each in ("queue-name", "queue_name"))
        return f"({holder}.exists(k, k.contains('kueue') || {ends}))"

    def held(place: str, values: str) -> str:
        return f"(has({place}) && has({place}.{values}) && {near(f'{place}.{values}')})"

    places = [held("object.metadata", "labels")]
    if at:
        places.append(held(f"object{at}.metadata", "labels"))
    if kind == "CronJob":
        places.append(held(f"object{at}.metadata", "annotations"))
    return " || ".join(places)


KeyPlaces = Sequence[tuple[str, str]]
"""Keys, each with ``labels`` or ``annotations``."""

_NAMES: Final[KeyPlaces] = (("labels", Label.QUEUE_NAME), ("annotations", Label.QUEUE_NAME))


def queued(variable: str, marks: Iterable[str] = ()) -> str:
    """CEL: the object names a queue, by label or by v0.1's annotation, or has one of these annotations."""
    return _has_one(variable, (*_NAMES, *_annotated(marks)))


def queued_now_or_before(operations: Iterable[str], marks: Iterable[str] = ()) -> str:
    """CEL: ``queued``, on update also of the old object, else removing the label would escape validation."""
    return now_or_before(operations, (*_NAMES, *_annotated(marks)))


def now_or_before(operations: Iterable[str], places: KeyPlaces) -> str:
    """CEL: the object has one of these keys; on update also if the old object has one."""
    if "UPDATE" not in operations:
        return _has_one("object", places)
    return f"{_has_one('object', places)} || (oldObject != null && ({_has_one('oldObject', places)}))"


def _has_one(variable: str, places: KeyPlaces) -> str:
    return " || ".join(
        f"(has({variable}.metadata.{holder}) && '{key}' in {variable}.metadata.{holder})" for holder, key in places
    )


def _annotated(marks: Iterable[str]) -> KeyPlaces:
    return [("annotations", key) for key in marks]


def _marks(hook: Hook) -> tuple[str, ...]:
    return hook.job_kind.marks if hook.job_kind is not None else ()


def written_by(account: ControllerAccount) -> str:
    """CEL: the request is from the controller, as ``Account.wrote`` defines it; 'false' if the account is not known."""
    if not account.name:
        return "false"
    user = f"request.userInfo.username == {_text(account.name)}"
    if not account.shared:
        return user
    managers = ", ".join(map(_text, names.JOB_WRITERS))
    return f"{user} && has(request.options.fieldManager) && request.options.fieldManager in [{managers}]"


def _text(value: str) -> str:
    """CEL: a string literal. User names of certificates and tokens may hold any character."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
