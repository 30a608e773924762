"""Admission policies that work while Seiretsu is down: queued jobs start suspended, and cannot be started by hand; what
counts of living pods changes only by their controllers, and only those create objects below an owner.

There are two for each kind of job (``core.jobs.kinds``), and three for pods, their templates and owners. They run in
the API server (ValidatingAdmissionPolicy v1 is served from Kubernetes 1.30 on, MutatingAdmissionPolicy v1 from 1.36 on)
and read only the object and the request: defaults, feedback and admissions stay in the webhooks. With
``webhooks.failurePolicy: Ignore`` jobs are accepted while Seiretsu is down, suspended, and queued when it runs again;
where no policy can suspend them they are refused. ``python -m webhook.backstop FILE`` writes the chart's template; a
test compares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from api.names import Annotation, Label, SchedulingGate
from core.jobs.fields import Path as FieldPath
from core.jobs.fields import Setting
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL
from core.jobs.owners import KNOWN, kind_and_group
from core.model import Raw
from webhook import living_pods, template_marks
from webhook.chart import ACTIONS, HEAD, PLACEHOLDERS, POLICIES, SUSPENDING, unless_all
from webhook.claims import NOT_CONTROLLED
from webhook.configurations import GROUP_VERSION, HookOptions, namespace_selector, queued_now_or_before, written_by
from webhook.settings import ControllerAccount
from webhook.trust import OF_A_JOB, Trust

RESIZED: Final = "a running job of a queue gets more pods only while it is suspended"
BY_HAND: Final = "the job waits in its LocalQueue and is started when its workload is admitted, not by hand"
MOVED: Final = "a job keeps its queue name unless it is suspended"
LABELLED: Final = "the label controller-uid is set by the Job controller: create the pod without it"
BELOW: Final = "only the controller of the job above it gives this object more pods: change that job instead"
UNSUSPENDED: Final = "a job that names a queue is created suspended: set {field} to {value}"


def policies(options: HookOptions, kinds: Iterable[JobKind] = ALL) -> list[Raw]:
    """Returns the policies and bindings of the enabled kinds, for ``kubectl apply`` or a chart."""
    enabled = [kind for kind in kinds if kind.framework in options.settings.frameworks]
    owners = _owners(enabled, options.settings.external_frameworks)
    of_kinds = [document for kind in covered(enabled) for document in _policies(kind, owners, options)]
    return [*of_kinds, *guards(options)]


def guards(options: HookOptions) -> list[Raw]:
    """Returns the policies of pods, owners and what is below jobs: what they refuse, no webhook is asked about."""
    below = [document for kind in ALL if kind.pods_in_cel for document in _below(kind, options)]
    return [*below, *_of_marks(options), *_of_pods(options), *_of_owners(options)]


def covered(kinds: Iterable[JobKind] = ALL) -> list[JobKind]:
    """The kinds that have policies: those whose jobs are held by a plain value, which CEL can compare and set."""
    return [kind for kind in kinds if isinstance(kind.hold({}).value, bool | str)]


def _owners(enabled: Iterable[JobKind], external: Iterable[str]) -> str:
    """``Kind.group`` of those that are queued instead of the jobs that they control, in order."""
    kinds = {f"{kind.kind}.{kind.group}" for kind in enabled if kind.runs_children}
    return " ".join(sorted(kinds | {".".join(kind_and_group(framework)) for framework in external}))


def _policies(kind: JobKind, owners: str, options: HookOptions) -> list[Raw]:
    suspend, start = (f"{options.name}-{verb}-queued-{kind.plural}" for verb in ("suspend", "start"))
    hold = kind.hold({})
    return [
        _policy(
            "MutatingAdmissionPolicy",
            suspend,
            kind,
            options,
            operations=("CREATE",),
            conditions=[
                _unowned(owners, options.trust),
                {"name": "not-suspended", "expression": f"!({_held('object', hold)})"},
            ],
            rules={
                "reinvocationPolicy": "IfNeeded",
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _set(hold)}}],
            },
        ),
        _binding("MutatingAdmissionPolicyBinding", suspend, {}, options),
        _policy(
            "ValidatingAdmissionPolicy",
            start,
            kind,
            options,
            operations=("CREATE", "UPDATE"),
            conditions=[_unowned(owners, options.trust, before=True)],
            rules={"validations": _validations(kind, options)},
        ),
        _binding("ValidatingAdmissionPolicyBinding", start, {"validationActions": ["Deny"]}, options),
    ]


def _validations(kind: JobKind, options: HookOptions) -> list[Raw]:
    hold = kind.hold({})
    new, old = _held("object", hold), _held("oldObject", hold)
    before = queue_name_of("oldObject")
    rules = {
        UNSUSPENDED.format(field=".".join(map(str, hold.path)), value=_literal(hold.value)): (
            f"request.operation != 'CREATE' || ({new}) || {_below_a_job(options.trust)}"
        ),
        BY_HAND: f"request.operation != 'UPDATE' || !({old}) || ({new}) || ({written_by(options.account)})",
        MOVED: (
            f"request.operation != 'UPDATE' || ({new}) || ({before}) == ({queue_name_of('object')}) ||"
            f" (({before}) == '' && (({options.trust.fixed}) || {options.trust.administers}))"
        ),
    }
    if kind.pods_in_cel:
        rules[RESIZED] = f"request.operation != 'UPDATE' || ({old}) || ({new}) || {_no_more_pods(kind)}"
    return [{"expression": each, "message": message, "reason": "Forbidden"} for message, each in rules.items()]


def _no_more_pods(kind: JobKind) -> str:
    """CEL: the job gets no more pods, or they wait with a scheduling gate."""
    no_more = " <= ".join(f"({kind.pods_in_cel.format(job=job)})" for job in ("object", "oldObject"))
    return f"{no_more} || {_gated(kind)}" if kind.elastic else no_more


def _gated(kind: JobKind) -> str:
    """CEL: the pods of an elastic job wait with a scheduling gate, so there may be more of them."""
    path = (*kind.first_template, "spec", "schedulingGates")
    has_gate = f"{_field('oldObject', path)}.exists(gate, gate.name == '{SchedulingGate.ELASTIC_JOB}')"
    return f"({_there('oldObject', path)} && {has_gate})"


def _below(kind: JobKind, options: HookOptions) -> list[Raw]:
    """Returns the policy that what the controller of a started job made of this kind gets more pods from that
    controller alone. A start marks the pod templates, so that objects below jobs that are not queued are left alone.
    """
    annotations = (*kind.first_template, "metadata", "annotations")
    marked = f"{_there('oldObject', annotations)} && '{Annotation.WORKLOAD}' in {_field('oldObject', annotations)}"
    references = "oldObject.metadata.ownerReferences"
    owned = f"has({references}) && {references}.exists(o, has(o.controller) && o.controller && {OF_A_JOB}"
    conditions = [
        _by_others(options.trust),
        {"name": "below-a-job", "expression": f"{owned})"},
        {"name": "started", "expression": marked},
        {"name": "not-suspended", "expression": f"!({_held('object', kind.hold({}))})"},
    ]
    expression = f"{_no_more_pods(kind)} || ({owned} && {options.trust.creates}))"
    validation = {"expression": expression, "message": BELOW, "reason": "Forbidden"}
    return _validating(f"keep-size-of-{kind.plural}", [_rule(kind, ("UPDATE",))], conditions, [validation], options)


def _held(variable: str, hold: Setting) -> str:
    """CEL: the field that keeps the job from running has the value that does so."""
    return f"{_there(variable, hold.path)} && {_field(variable, hold.path)} == {_literal(hold.value)}"


def _field(variable: str, path: FieldPath) -> str:
    """CEL: a field of an object."""
    return ".".join((variable, *map(str, path)))


def _there(variable: str, path: FieldPath) -> str:
    """CEL: the object has a field, and all above it: a part that is missing above is an error, which refuses."""
    return " && ".join(f"has({_field(variable, path[: end + 1])})" for end in range(len(path)))


def _set(hold: Setting) -> str:
    """CEL: the change that gives this field this value."""
    text = _literal(hold.value)
    for depth in reversed(range(len(hold.path))):
        text = f"{'.'.join(('Object', *map(str, hold.path[:depth])))}{{{hold.path[depth]}: {text}}}"
    return text


def _literal(value: bool | str) -> str:
    """CEL: the same literal as in JSON."""
    return json.dumps(value)


def queue_name_of(variable: str) -> str:
    """CEL: the LocalQueue that the object names, as ``core.jobs.meta.queue_name`` reads it."""

    def held(holder: str) -> str:
        values = f"{variable}.metadata.{holder}"
        return f"has({values}) && '{Label.QUEUE_NAME}' in {values} && {values}['{Label.QUEUE_NAME}'] != ''"

    label, annotation = (f"{variable}.metadata.{holder}['{Label.QUEUE_NAME}']" for holder in ("labels", "annotations"))
    return f"{held('labels')} ? {label} : ({held('annotations')} ? {annotation} : '')"


def _unowned(owners: str, trust: Trust, *, before: bool = False) -> Raw:
    """The condition that no object which is queued instead of the job controls it: one of an external framework, or a
    job whose own controller starts the jobs below it. Of a new job it counts only if that controller created it.

    A policy cannot check whether the owner is really queued (``core.jobs.owners``); the webhooks do. On update the old
    owner counts (``before``): otherwise a user who starts a job by hand could add one in the same write.
    """

    def of(variable: str, believed: str = "") -> str:
        references = f"{variable}.metadata.ownerReferences"
        queued = f"(o.kind + '.' + o.apiVersion.split('/')[0]) in '{owners}'.split(' ')"
        return f"!has({references}) || !{references}.exists(o, has(o.controller) && o.controller && {queued}{believed})"

    expression = of("object", f" && {trust.believed}")
    if before:
        expression = f"oldObject != null ? ({of('oldObject')}) : ({expression})"
    return {"name": "not-queued-by-owner", "expression": expression}


def _below_a_job(trust: Trust) -> str:
    """CEL: the controller of a job created this below it: it may run with that job."""
    references = "object.metadata.ownerReferences"
    job = f"{OF_A_JOB} && {trust.believed}"
    return f"(has({references}) && {references}.exists(o, has(o.controller) && o.controller && {job}))"


def _of_marks(options: HookOptions) -> list[Raw]:
    """Returns the policy that pods wait for quota although a tenant changes the template of the ReplicaSet below a
    Deployment, or of the StatefulSet below a LeaderWorkerSet.
    """
    conditions = [
        _by_others(options.trust),
        {"name": "marked", "expression": template_marks.marked()},
        {"name": "below", "expression": template_marks.BELOW},
    ]
    expression = template_marks.kept(options.trust)
    validation = {"expression": expression, "message": template_marks.KEPT, "reason": "Forbidden"}
    resources = [*template_marks.RESOURCES.values()]
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": resources}]
    return _validating("keep-marks", rules, conditions, [validation], options)


def _of_pods(options: HookOptions) -> list[Raw]:
    """Returns the policy that keeps what living pods are counted by."""
    conditions = [_by_others(options.trust), {"name": "counts", "expression": living_pods.COUNTS}]
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}]
    return _validating("keep-counted-pods", rules, conditions, living_pods.validations(options.trust), options)


def _of_owners(options: HookOptions) -> list[Raw]:
    """Returns the policy that only controllers create objects below an owner, for all kinds that owners are looked for
    through.
    """
    groups = sorted({each.group for each in KNOWN.values()})
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": sorted(each.plural for each in KNOWN.values() if each.group == group),
        }
        for group in groups
    ]
    validations = [
        {"expression": f"!({expression})", "message": message, "reason": "Forbidden"}
        for message, expression in ((NOT_CONTROLLED, options.trust.claims), (LABELLED, options.trust.labelled))
    ]
    return _validating("believe-owners", rules, [_by_others(options.trust)], validations, options)


def _by_others(trust: Trust) -> Raw:
    return {"name": "not-by-a-controller", "expression": f"!({trust.fixed})"}


def _validating(
    name: str, rules: list[Raw], conditions: list[Raw], validations: list[Raw], options: HookOptions
) -> list[Raw]:
    name = f"{options.name}-{name}"
    constraints = {
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespace_selector(options.settings),
        "resourceRules": rules,
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "matchConditions": conditions,
        "validations": validations,
    }
    kind = "ValidatingAdmissionPolicy"
    policy = {"apiVersion": GROUP_VERSION, "kind": kind, "metadata": _metadata(name, options), "spec": spec}
    return [policy, _binding(f"{kind}Binding", name, {"validationActions": ["Deny"]}, options)]


def _rule(kind: JobKind, operations: tuple[str, ...]) -> Raw:
    """The requests about jobs of a kind."""
    return {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": list(operations),
        "resources": [kind.plural],
    }


def _policy(
    policy: str,
    name: str,
    kind: JobKind,
    options: HookOptions,
    *,
    operations: tuple[str, ...],
    conditions: list[Raw],
    rules: Raw,
) -> Raw:
    if not options.settings.manage_jobs_without_queue_name:
        conditions = [{"name": "queued", "expression": queued_now_or_before(operations)}, *conditions]
    return {
        "apiVersion": GROUP_VERSION,
        "kind": policy,
        "metadata": _metadata(name, options),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": namespace_selector(options.settings),
                "resourceRules": [_rule(kind, operations)],
            },
            "matchConditions": conditions,
            **rules,
        },
    }


def _binding(kind: str, name: str, rules: Raw, options: HookOptions) -> Raw:
    return {
        "apiVersion": GROUP_VERSION,
        "kind": kind,
        "metadata": _metadata(name, options),
        "spec": {"policyName": name, **rules},
    }


def _metadata(name: str, options: HookOptions) -> Raw:
    return {"name": name, "labels": dict(options.labels)} if options.labels else {"name": name}


_WIDTH: Final = 100_000  # no expression is broken into lines
_SELECTOR: Final = '{{- include "seiretsu.managedNamespaces" . | nindent 6 }}'
_OWNERS: Final = "zz-owners"
"""A placeholder for ``_owners`` while the policies are generated."""


def template() -> str:
    """Returns the chart's template, for API servers that serve such policies."""
    options = HookOptions(name="zz-fullname", account=ControllerAccount("zz-account"), placeholders=PLACEHOLDERS)
    text = f"{HEAD}{_owners_in_helm()}{{{{- if {POLICIES} }}}}\n"
    for kind in covered():
        text += f'{{{{- if has "{kind.framework}" $frameworks }}}}\n'
        suspend, suspends, start, starts = _policies(kind, _OWNERS, options)
        text += f"{{{{- if {SUSPENDING} }}}}\n{_documents([suspend, suspends])}{{{{- end }}}}\n"
        text += _documents([start, starts])
        text += "{{- end }}\n"
    text += _documents(guards(options)) + "{{- end }}\n"
    for sentinel, action in ACTIONS.items():
        text = text.replace(sentinel, action)
    text = text.replace(" zz-labels", ' {{- include "seiretsu.labels" $ | nindent 4 }}')
    return text.replace(_OWNERS, '{{ join " " (sortAlpha $owners) }}')


def _owners_in_helm() -> str:
    """Helm: what ``_owners`` returns for the operator's Configuration, in the variable ``$owners``."""
    text = "{{- $owners := $external -}}\n"
    for kind in ALL:
        if kind.runs_children:
            given = f'{{{{- $owners = append $owners "{kind.kind}.{kind.group}" -}}}}'
            text += f'{{{{- if has "{kind.framework}" $frameworks -}}}}{given}{{{{- end -}}}}\n'
    return text


def _documents(values: Iterable[Raw]) -> str:
    return "".join(f"---\n{_document(each)}" for each in values)


def _document(value: Raw) -> str:
    """One document, with the selector and the condition that depend on the operator's Configuration."""
    spec: dict[str, Any] = value["spec"]
    value = {**value, "metadata": {**value["metadata"], "labels": "zz-labels"}}
    if "matchConstraints" not in spec:
        return _dumped(value)
    constraints = {**spec["matchConstraints"], "namespaceSelector": "zz-selector"}
    text = _dumped({**value, "spec": {**spec, "matchConstraints": constraints}})
    for condition in spec["matchConditions"]:
        if condition["name"] == "queued":
            item = "".join(f"  {line}\n" for line in _dumped([condition]).splitlines())
            text = text.replace(item, unless_all(item))
    return text.replace(" zz-selector", f" {_SELECTOR}")


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=_WIDTH)


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
