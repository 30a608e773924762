"""Policies that an administrator may switch on in the chart: each job of a namespace names a queue, each container has
requests, and ClusterQueues have no other flavors than those that are allowed.

Seiretsu does not need them: they are Kueue's examples of policies, as options, with one difference. Kueue exempts what
an owner reference puts below a job, which any user can write; here it counts only if the owner is of a kind that the
policy itself is about, and its controller created the object (``webhook.trust``). Such a kind must name a queue, if it
is enabled; else it is created only below another one. Above what a CronJob creates there is no such job. What exists
when a policy is switched on is not refused on updates that change nothing about it. ``python -m webhook.enforcement
FILE`` writes the chart's template; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from api import names
from core.jobs.kind import ANY_KIND, JobKind
from core.jobs.kinds import ALL, POD
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.owners import makers
from core.jobs.pod_owners import POD_OWNERS
from core.model import Raw
from webhook.backstop import queue_name_of
from webhook.chart import ACTIONS, HEAD, PLACEHOLDERS, POLICIES_SERVED
from webhook.trust import OWNER

QUEUE_NAME: Final = "The label 'kueue.x-k8s.io/queue-name' is either missing or does not have a value set."
UNQUEUED: Final = (
    "A job of this kind is not queued by itself here, and what it creates would run without a queue: create a job of a"
    " kind in integrations.frameworks of the Configuration."
)
REQUESTS: Final = "Every container in the workload must specify either resource requests or limits."
REQUESTS_OF: Final = "Every container in the workload must specify resource requests or limits for: "
FLAVORS: Final = "A ClusterQueue may name only these ResourceFlavors: "

_VALUES: Final = """{{- $enforcement := default (dict) .Values.enforcement -}}
{{- $actions := default (list "Deny") $enforcement.validationActions -}}
{{- $selected := default (dict "matchLabels" (dict "kueue-managed" "true")) $enforcement.namespaceSelector -}}
"""
_TEMPLATED: Final = {
    "batch": ["jobs"],
    "apps": ["deployments", "statefulsets", "daemonsets", "replicasets"],
}
"""Kinds with `spec.template`; pods of all others are checked when they are created."""


def template() -> str:
    """Returns the chart's template."""
    text = HEAD + _VALUES + _above() + f"{{{{- if {POLICIES_SERVED} }}}}\n"
    text += _if("(default (dict) $enforcement.queueName).enabled", _of_queue_names())
    text += _if("(default (dict) $enforcement.requests).enabled", _of_requests())
    text += _if("(default (dict) $enforcement.flavors).allowed", _of_flavors())
    text += "{{- end }}\n"
    for sentinel, action in ACTIONS.items():
        text = text.replace(sentinel, action)
    return text


def _above() -> str:
    """Helm: the kinds of owners, each with its group, that excuse what they control, in the variable ``$above``; those
    of them that are not enabled, by their resources, in ``$unqueued``.
    """
    text = "{{- $above := $external -}}\n{{- $unqueued := list -}}\n"
    for kind in filter(_owns_jobs, ALL):
        name = f"{kind.kind}.{kind.group}"
        text += f'{{{{- if {_in_use(kind)} -}}}}{{{{- $above = append $above "{name}" -}}}}\n'
        name = f"{kind.plural}.{kind.group}"
        text += (
            f'{{{{- if not (has "{kind.framework}" $frameworks) -}}}}{{{{- $unqueued = append $unqueued "{name}" -}}}}'
        )
        text += "{{- end -}}{{- end -}}\n"
    return text


def _owns_jobs(kind: JobKind) -> bool:
    """Whether jobs of this kind have objects of the ruled kinds below them. A RayCluster has a Job that cleans up."""
    ruled = {ANY_KIND, *(each.kind for each in ALL if each is not POD)}
    return kind is RAY_CLUSTER or not ruled.isdisjoint(kind.makes)


def _in_use(kind: JobKind) -> str:
    """Helm: the kind is enabled, or its objects may be below a job of an enabled kind."""
    frameworks = {(each.group, each.kind): each.framework for each in ALL}
    frameworks |= {(each.resource.group, each.resource.kind): each.framework for each in POD_OWNERS}
    found = sorted({frameworks[each] for each in makers((kind.group, kind.kind)) if each in frameworks})
    return " ".join(["or", *(f'(has "{each}" $frameworks)' for each in found)])


def _of_queue_names() -> str:
    references = "object.metadata.ownerReferences"
    job = f"{OWNER} in '{{{{ join \" \" (sortAlpha $above) }}}}'.split(' ') && {PLACEHOLDERS.believed}"
    below = f"has({references}) && {references}.exists(o, has(o.controller) && o.controller && {job})"
    conditions = [
        {"name": "not-below-an-owner", "expression": f"oldObject != null || !({below})"},
        {"name": "queue-name-changes", "expression": f"oldObject == null || ({queue_name_of('oldObject')}) != ''"},
    ]
    rules = ""
    for kind in ALL:
        if kind is not POD:
            rule = _rule(kind.group, kind.version, [kind.plural], ["CREATE", "UPDATE"])
            needed = _in_use(kind) if _owns_jobs(kind) else f'has "{kind.framework}" $frameworks'
            rules += f"    {{{{- if {needed} }}}}\n{_indented([rule], 4)}    {{{{- end }}}}\n"
    external = _rule("zz-group", "*", ["zz-plural"], ["CREATE", "UPDATE"])
    rules += f"    {{{{- range $external }}}}\n    {_NAMED}\n{_indented([external], 4)}    {{{{- end }}}}\n"
    rules = rules.replace("zz-group", "{{ $parts._1 }}").replace("zz-plural", "{{ $plural }}")
    by_itself = "!((request.resource.resource + '.' + request.resource.group) in zz-unqueued)"
    validations = [
        {"expression": f"oldObject != null || {by_itself}", "message": UNQUEUED},
        {"expression": f"({queue_name_of('object')}) != ''", "message": QUEUE_NAME},
    ]
    text = _indented(validations, 2).replace("zz-unqueued", """'{{ join " " $unqueued }}'.split(' ')""")
    return _documents("require-queue-name", rules, conditions, text)


_NAMED: Final = (
    '{{- $parts := splitn "." 2 . }}{{- $kind := lower $parts._0 }}{{- $plural := printf "%ss" $kind }}'
    '{{- if hasSuffix "y" $kind }}{{- $plural = printf "%sies" (trimSuffix "y" $kind) }}'
    '{{- else if hasSuffix "s" $kind }}{{- $plural = printf "%ses" $kind }}{{- end }}'
)
"""Helm: the group of an external framework, and the usual plural of its kind (``webhook.trust.PLURAL``)."""


def _of_requests() -> str:
    containers, old = _containers("object"), _containers("oldObject")
    rules = [
        *(_rule(group, "v1", found, ["CREATE", "UPDATE"]) for group, found in _TEMPLATED.items()),
        _rule("", "v1", ["pods"], ["CREATE"]),
    ]
    conditions = [{"name": "pods-change", "expression": f"oldObject == null || {containers} != {old}"}]
    some = "(has(c.resources.requests) && size(c.resources.requests) > 0)"
    any_of = f"has(c.resources) && ({some} || {some.replace('requests', 'limits')})"
    each = "(has(c.resources.requests) && r in c.resources.requests)"
    all_of = f"has(c.resources) && zz-resources.all(r, {each} || {each.replace('requests', 'limits')})"
    text = "  {{- with (default (dict) $enforcement.requests).resources }}\n"
    message = REQUESTS_OF + '{{ join ", " . }}'
    text += _indented([{"expression": f"{containers}.all(c, {all_of})", "message": message}], 2)
    text = text.replace("zz-resources", "[{{ range $i, $r := . }}{{ if $i }}, {{ end }}''{{ $r }}''{{ end }}]")
    text += "  {{- else }}\n"
    text += _indented([{"expression": f"{containers}.all(c, {any_of})", "message": REQUESTS}], 2)
    text += "  {{- end }}\n"
    return _documents("require-requests", _indented(rules, 4), conditions, text)


def _containers(variable: str) -> str:
    """CEL: the containers that run together, in a pod or in the template of an object."""
    spec = f"(has({variable}.spec.template) ? {variable}.spec.template.spec : {variable}.spec)"
    sidecars = f"{spec}.initContainers.filter(i, has(i.restartPolicy) && i.restartPolicy == 'Always')"
    return f"({spec}.containers + (has({spec}.initContainers) ? {sidecars} : []))"


def _of_flavors() -> str:
    group = names.GROUP
    rules = [{**_rule(group, "*", ["clusterqueues"], ["CREATE", "UPDATE"])}]
    groups = "spec.resourceGroups"
    same = f"has(oldObject.{groups}) && object.{groups} == oldObject.{groups}"
    conditions = [
        {"name": "has-flavors", "expression": f"has(object.{groups})"},
        {"name": "flavors-change", "expression": f"oldObject == null || !({same})"},
    ]
    named = f"object.{groups}.all(g, g.flavors.all(f, f.name in 'zz-flavors'.split(' ')))"
    listed = '{{ join " " $enforcement.flavors.allowed }}'
    message = FLAVORS + '{{ join ", " $enforcement.flavors.allowed }}'
    validations = _indented([{"expression": named, "message": message}], 2).replace("zz-flavors", listed)
    return _documents("allow-flavors", _indented(rules, 4), conditions, validations, namespaced=False)


def _documents(name: str, rules: str, conditions: list[Raw], validations: str, *, namespaced: bool = True) -> str:
    matched = "  matchResources:\n    namespaceSelector: {{- toYaml $selected | nindent 6 }}\n" if namespaced else ""
    return f"""---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: zz-fullname-{name}
  labels: {{{{- include "seiretsu.labels" $ | nindent 4 }}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    matchPolicy: Equivalent
    resourceRules:
{rules}  matchConditions:
{_indented(conditions, 2)}  validations:
{validations}---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: zz-fullname-{name}
  labels: {{{{- include "seiretsu.labels" $ | nindent 4 }}}}
spec:
  policyName: zz-fullname-{name}
  validationActions: {{{{- toYaml $actions | nindent 2 }}}}
{matched}"""


def _rule(group: str, version: str, plurals: list[str], operations: list[str]) -> Raw:
    return {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": plurals}


def _if(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _indented(value: Any, spaces: int) -> str:
    text = yaml.safe_dump(value, sort_keys=False, width=100_000, default_style=None)
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
