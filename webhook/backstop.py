"""Admission policies that work while Seiretsu is down: queued Jobs start suspended, and cannot be started by hand.

They run in the API server (MutatingAdmissionPolicy v1 is served from Kubernetes 1.36 on) and read only the object:
defaults, feedback and admissions stay in the webhooks. With ``webhooks.failurePolicy: Ignore`` Jobs are accepted while
Seiretsu is down, suspended, and queued when it runs again. ``python -m webhook.backstop FILE`` writes the chart's
template; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from api.names import Label
from core.jobs.owners import kind_and_group
from core.model import Raw
from webhook.chart import ACTIONS, HEAD, unless_all
from webhook.configurations import GROUP_VERSION, Options, namespace_selector, queued_now_or_before, written_by
from webhook.settings import Account, Settings

_SUSPENDED: Final = "has({0}.spec.suspend) && {0}.spec.suspend"
RESIZED: Final = "a running job of a queue gets more pods only while it is suspended"
BY_HAND: Final = "the job waits in its LocalQueue and is started when its workload is admitted, not by hand"
MOVED: Final = "a job keeps its queue name unless it is suspended"
UNSUSPENDED: Final = "a job that names a queue is created suspended: set spec.suspend to true"


def policies(options: Options) -> list[Raw]:
    """The policies and their bindings, for ``kubectl apply`` or a chart."""
    suspend, start = f"{options.name}-suspend-queued-jobs", f"{options.name}-start-queued-jobs"
    mutation = {"expression": "Object{spec: Object.spec{suspend: true}}"}
    return [
        _policy(
            "MutatingAdmissionPolicy",
            suspend,
            options,
            operations=("CREATE",),
            conditions=[{"name": "not-suspended", "expression": f"!({_SUSPENDED.format('object')})"}],
            rules={
                "reinvocationPolicy": "IfNeeded",
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": mutation}],
            },
        ),
        _binding("MutatingAdmissionPolicyBinding", suspend, {}),
        _policy(
            "ValidatingAdmissionPolicy",
            start,
            options,
            operations=("CREATE", "UPDATE"),
            conditions=[],
            rules={"validations": _validations(options)},
        ),
        _binding("ValidatingAdmissionPolicyBinding", start, {"validationActions": ["Deny"]}),
    ]


def _validations(options: Options) -> list[Raw]:
    new, old = _SUSPENDED.format("object"), _SUSPENDED.format("oldObject")
    return [
        {
            "expression": f"request.operation != 'CREATE' || ({new})",
            "message": UNSUSPENDED,
            "reason": "Forbidden",
        },
        {
            "expression": f"request.operation != 'UPDATE' || !({old}) || ({new}) || ({written_by(options.account)})",
            "message": BY_HAND,
            "reason": "Forbidden",
        },
        {
            "expression": f"request.operation != 'UPDATE' || ({new}) ||"
            f" ({_queue_name('oldObject')}) == ({_queue_name('object')})",
            "message": MOVED,
            "reason": "Forbidden",
        },
        {
            "expression": f"request.operation != 'UPDATE' || ({old}) || ({new}) ||"
            f" ({_pods('object')}) <= ({_pods('oldObject')})",
            "message": RESIZED,
            "reason": "Forbidden",
        },
    ]


def _pods(variable: str) -> str:
    """CEL: how many pods a Job runs at the same time, as ``BatchJob.slots`` counts them."""
    spec = f"{variable}.spec"
    parallelism = f"has({spec}.parallelism) ? {spec}.parallelism : 1"
    fewer = f"has({spec}.completions) && {spec}.completions < ({parallelism})"
    return f"({fewer}) ? {spec}.completions : ({parallelism})"


def _queue_name(variable: str) -> str:
    """CEL: the LocalQueue that the object names, as ``core.jobs.meta.queue_name`` reads it."""

    def held(holder: str) -> str:
        values = f"{variable}.metadata.{holder}"
        return f"has({values}) && '{Label.QUEUE_NAME}' in {values} && {values}['{Label.QUEUE_NAME}'] != ''"

    label, annotation = (f"{variable}.metadata.{holder}['{Label.QUEUE_NAME}']" for holder in ("labels", "annotations"))
    return f"{held('labels')} ? {label} : ({held('annotations')} ? {annotation} : '')"


def _unowned(operations: tuple[str, ...], options: Options) -> list[Raw]:
    """The condition that no external framework controls the job: such an owner is queued instead of it.

    A policy cannot check whether the owner is really queued (`core.jobs.owners`); the webhooks do. On update the old
    owner counts: otherwise a user who starts a job by hand could add one in the same write.
    """
    external = sorted(options.settings.external_frameworks)

    def of(variable: str) -> str:
        owners = f"{variable}.metadata.ownerReferences"
        kinds = "".join(_kind(*kind_and_group(framework)) for framework in external)
        return f"!has({owners}) || !{owners}.exists(o, has(o.controller) && o.controller && (false{kinds}))"

    expression = of("object")
    if "UPDATE" in operations:
        expression = f"oldObject != null ? ({of('oldObject')}) : ({expression})"
    return [{"name": "not-queued-by-owner", "expression": expression}] if external else []


def _kind(kind: str, group: str) -> str:
    return f" || (o.kind == '{kind}' && o.apiVersion.startsWith('{group}/'))"


def _policy(
    kind: str, name: str, options: Options, *, operations: tuple[str, ...], conditions: list[Raw], rules: Raw
) -> Raw:
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": list(operations), "resources": ["jobs"]}
    matched = [*_unowned(operations, options), *conditions]
    if not options.settings.manage_jobs_without_queue_name:
        matched = [{"name": "queued", "expression": queued_now_or_before(operations)}, *matched]
    return {
        "apiVersion": GROUP_VERSION,
        "kind": kind,
        "metadata": _metadata(name, options),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": namespace_selector(options.settings),
                "resourceRules": [rule],
            },
            **({"matchConditions": matched} if matched else {}),
            **rules,
        },
    }


def _binding(kind: str, name: str, rules: Raw) -> Raw:
    return {
        "apiVersion": GROUP_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, **rules},
    }


def _metadata(name: str, options: Options) -> Raw:
    return {"name": name, "labels": dict(options.labels)} if options.labels else {"name": name}


_SERVED: Final = '.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"'


_WIDTH: Final = 100_000  # no expression is broken into lines
_EXTERNAL: Final = (
    "{{- $external := sortAlpha (default (list) (default (dict) $configuration.integrations).externalFrameworks) -}}\n"
)
_STANDS: Final = "ZzKind.zz-version.zz-group"
"""A placeholder for an external framework while the policies are generated."""

_EACH: Final = (
    '{{ range $external }}{{ $parts := splitn "." 3 . }} || '
    "(o.kind == %s{{ $parts._0 }}%s && o.apiVersion.startsWith(%s{{ $parts._2 }}/%s)){{ end }}"
)


def template() -> str:
    """Returns the chart's template, for installations that enable it on an API server that serves such policies."""
    settings = Settings(external_frameworks=frozenset({_STANDS}))
    found = policies(Options(settings=settings, name="zz-fullname", account=Account("zz-account")))
    documents = [_document(each) for each in found]
    text = f"{HEAD}{_EXTERNAL}{{{{- if and .Values.enableMutatingAdmissionPolicy ({_SERVED}) }}}}\n"
    text += "---\n".join(documents) + "{{- end }}\n"
    for sentinel, action in ACTIONS.items():
        text = text.replace(sentinel, action)
    stands = _kind(*kind_and_group(_STANDS))
    for quote in ("'", "''"):  # as YAML writes a plain scalar, and a quoted one
        text = text.replace(stands.replace("'", quote), _EACH % ((quote,) * 4))
    return text


def _document(value: Raw) -> str:
    spec: dict[str, Any] = value["spec"]
    conditions = spec.get("matchConditions")
    if conditions is None:
        return yaml.safe_dump(value, sort_keys=False, width=_WIDTH)
    constraints = {**spec["matchConstraints"], "namespaceSelector": "zz-selector"}
    lean = {**value, "spec": {**spec, "matchConstraints": constraints, "matchConditions": ["zz-conditions"]}}
    items = {each["name"]: yaml.safe_dump([each], sort_keys=False, width=_WIDTH) for each in conditions}
    text = "".join(_needed(name, "".join(f"  {line}\n" for line in item.splitlines())) for name, item in items.items())
    head = "  matchConditions:\n"
    if items.keys() <= _OPTIONAL:
        text = f"  {{{{- if or (not $all) $external }}}}\n{head}{text}  {{{{- end }}}}\n"
    else:
        text = head + text
    selector = '{{- include "seiretsu.managedNamespaces" . | nindent 6 }}'
    dumped = yaml.safe_dump(lean, sort_keys=False, width=_WIDTH)
    return dumped.replace(" zz-selector", f" {selector}").replace(f"{head}  - zz-conditions\n", text)


_OPTIONAL: Final = frozenset({"queued", "not-queued-by-owner"})
"""Conditions that depend on the operator's Configuration."""


def _needed(name: str, item: str) -> str:
    if name == "queued":
        return unless_all(item)
    return f"  {{{{- if $external }}}}\n{item}  {{{{- end }}}}\n" if name in _OPTIONAL else item


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
