"""The chart's template of both webhook configurations, from the same table of hooks as ``serve --install`` uses.

Values that only Helm knows (names, the namespace, the operator's Configuration) are template actions; the rest comes
from ``webhook.configurations``. ``python -m webhook.chart FILE`` writes it; a test compares.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from core.jobs.kinds import FRAMEWORKS_IN_HELM
from webhook.configurations import MANAGED_NAMESPACES, Endpoint, HookOptions, match_conditions, webhook, written_by
from webhook.hooks import HOOKS, Hook, HookPhase
from webhook.settings import ControllerAccount, WebhookSettings
from webhook.trust import Trust

PORT: Final = 65001
"""A placeholder for the Service's port, which must be a number while the configuration is generated."""

ACTIONS: Final = {
    "zz-fullname": '{{ include "seiretsu.fullname" . }}',
    "zz-space": "{{ .Release.Namespace }}",
    "zz-service": '{{ include "seiretsu.webhookService" . }}',
    "zz-account": 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "seiretsu.serviceAccount" . }}',
    "zz-failure-policy": "{{ .Values.webhooks.failurePolicy }}",
    "zz-reinvocation": "{{ .Values.mutatingWebhook.reinvocationPolicy }}",
    str(PORT): '{{ include "seiretsu.webhookServicePort" . }}',
    "65002": "{{ .Values.webhooks.timeoutSeconds }}",
    "zz-trusted": '{{ join " " (sortAlpha (default (list) $controllers.accounts)) }}',
    "zz-by-rights": '{{ ne (toString (get $controllers "byRights")) "false" }}',
    "zz-external": '{{ join " " (sortAlpha $external) }}',
    "zz-all-jobs": "{{ $all }}",
}
PLACEHOLDERS: Final = Trust(
    ours=written_by(ControllerAccount("zz-account")),
    accounts="zz-trusted",
    by_rights="zz-by-rights",
    external="zz-external",
    all_jobs="zz-all-jobs",
)
_SERVED: Final = '.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/{}"'
POLICIES_SERVED: Final = _SERVED.format("ValidatingAdmissionPolicy")
POLICIES: Final = f"and .Values.admissionPolicies.enabled ({POLICIES_SERVED})"
"""Helm: the API server enforces the validating policies."""
SUSPENDING: Final = _SERVED.format("MutatingAdmissionPolicy")
HEAD: Final = (
    """{{- /* Made by `make generate` from webhook/hooks.py. */ -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- $all := default false $configuration.manageJobsWithoutQueueName -}}
"""
    + FRAMEWORKS_IN_HELM
    + """{{- $gates := default (dict) $configuration.featureGates -}}
{{- $controllers := default (dict) (default (dict) $configuration.seiretsu).controllers -}}
{{- $external := list -}}
{{- range (default (list) (default (dict) $configuration.integrations).externalFrameworks) -}}
{{- $parts := splitn "." 3 . -}}{{- $external = append $external (printf "%s.%s" $parts._0 $parts._2) -}}
{{- end -}}
"""
)
_CONFIGURATION: Final = """apiVersion: admissionregistration.k8s.io/v1
kind: {kind}
metadata:
  name: zz-fullname-{phase}-webhook-configuration
  labels: {{{{- include "seiretsu.labels" . | nindent 4 }}}}
  {{{{- if .Values.enableCertManager }}}}
  annotations:
    cert-manager.io/inject-ca-from: {{{{ .Release.Namespace }}}}/{{{{ include "seiretsu.servingCertificate" . }}}}
  {{{{- end }}}}
webhooks:
"""
_SELECTOR: Final = '  namespaceSelector: {{- include "seiretsu.managedNamespaces" . | nindent 4 }}\n'


def template() -> str:
    """The whole template file."""
    options = HookOptions(
        settings=WebhookSettings(namespace="zz-space"),
        endpoint=Endpoint(service="zz-service", namespace="zz-space", port=PORT),
        account=ControllerAccount("zz-account"),
        failure_policy="zz-failure-policy",
        timeout_seconds=65002,
        reinvocation_policy="zz-reinvocation",
        placeholders=PLACEHOLDERS,
    )
    kinds = {HookPhase.MUTATING: "MutatingWebhookConfiguration", HookPhase.VALIDATING: "ValidatingWebhookConfiguration"}
    documents = []
    for phase, kind in kinds.items():
        text = _CONFIGURATION.format(kind=kind, phase=phase.value)
        documents.append(text + "".join(_entry(hook, options) for hook in HOOKS if hook.phase is phase))
    text = HEAD + "---\n".join(documents)
    for sentinel, action in ACTIONS.items():
        text = text.replace(sentinel, action)
    return text


def _entry(hook: Hook, options: HookOptions) -> str:
    """One webhook, with the conditions under which it, its selector and its match conditions are there."""
    found = webhook(hook, options)
    selected = hook.reach in MANAGED_NAMESPACES
    if selected:
        del found["namespaceSelector"]
    found.pop("matchConditions", None)
    text = _item(found) + (_SELECTOR if selected else "") + _match_conditions(hook, options)
    needed = _needed(hook)
    return f"{{{{- if {needed} }}}}\n{text}{{{{- end }}}}\n" if needed else text


def _item(value: Any) -> str:
    text = yaml.safe_dump([value], sort_keys=False, width=100_000)
    return re.sub(r": '?(65001|65002)'?$", r": \1", text, flags=re.MULTILINE)


def _match_conditions(hook: Hook, options: HookOptions) -> str:
    """Returns ``matchConditions``, which for a kind that others imply depend on which of them are enabled."""
    kind = hook.job_kind
    if kind is None or not kind.implied_by or hook.framework:
        return _conditions(match_conditions(hook, options))
    itself, implied = (
        match_conditions(hook, replace(options, settings=replace(options.settings, frameworks=frozenset({each}))))
        for each in (kind.framework, kind.implied_by[0])
    )
    has = f'has "{kind.framework}" $frameworks'
    return f"  {{{{- if {has} }}}}\n{_conditions(itself)}  {{{{- else }}}}\n{_conditions(implied)}  {{{{- end }}}}\n"


def _conditions(conditions: list[Any]) -> str:
    """Returns ``matchConditions``; if all Jobs are managed, the queue name is not a condition."""
    if not conditions:
        return ""
    items = {c["name"]: "".join(f"  {line}\n" for line in _item(c).splitlines()) for c in conditions}
    head = "  matchConditions:\n"
    if set(items) == {"queued"}:
        return unless_all(head + items["queued"])
    return head + "".join(unless_all(item) if name == "queued" else item for name, item in items.items())


def unless_all(text: str) -> str:
    """The lines for the case that not all Jobs are managed."""
    return f"  {{{{- if not $all }}}}\n{text}  {{{{- end }}}}\n"


def _needed(hook: Hook) -> str:
    """Returns the Helm condition that is equal to ``hook.exists`` of the Settings."""
    if not hook.needed(WebhookSettings()):
        return 'eq (toString (get $gates "PartialAdmission")) "false"'
    without_policies = [] if hook.needed(WebhookSettings(policies=True)) else [f"not ({POLICIES})"]
    if hook.instead_of:
        return f'not (has "{hook.instead_of}" $frameworks)'
    if hook.job_kind is None and not hook.framework:
        return " ".join(without_policies)
    has = f'has "{hook.framework}" $frameworks'
    if hook.job_kind is not None and not hook.framework:
        has = hook.job_kind.enabled_in_helm
    others = [] if hook.needed(WebhookSettings(manage_jobs_without_queue_name=True)) else ["not $all"]
    needed = [has, *others, *without_policies]
    return has if len(needed) == 1 else f"and {' '.join(f'({each})' for each in needed)}"


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
