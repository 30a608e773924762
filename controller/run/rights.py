"""The rights of the controller, from the table of watched resources, as rules of a ClusterRole.

``python -m controller.run.rights FILE`` writes them as a template of the chart; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from api import resources
from api.kinds import KINDS
from api.objects import Resource
from api.resources import EVENTS
from controller.run.watched import FINALIZERS, READ, STATUS, WATCHED, Watched, rows
from controller.settings import Feature
from core.jobs import kinds
from core.jobs.job_starter import Right
from core.jobs.owners import KNOWN, makers
from core.jobs.pod_owners import GROUP_OWNERS
from core.model import Raw

UNWATCHED: Final = (
    (resources.PODS, ("list",)),  # the quota of a deleted job is held until its pods are gone
    (EVENTS, ("list", "create", "patch")),  # listed for an admitted job whose pods are not made
)
"""Resources that are used without a watch; beside these, owners of jobs are read."""

UNGATED: Final = (resources.PODS, ("patch",))
"""Pods lose their scheduling gate: those of elastic jobs, and those that get a domain of a topology."""

GUARDED: Final = (resources.PODS, ("list", "watch", "delete"))
"""The guard watches the pods that run, and deletes those without quota."""

COUNTED: Final = (resources.PODS, ("list", "watch"))
"""What other pods use of the nodes of topologies."""

ENDED: Final = (resources.PODS._replace(plural=f"{resources.PODS.plural}/{STATUS}"), ("patch",))
"""Pods that wait for a failed node are ended."""

FORCED: Final = (resources.PODS, ("list", "delete"))
"""Pods that are stuck on unreachable nodes are ended, too, and deleted."""

MIRRORED: Final = (resources.LOCAL_QUEUES, ("create",))
"""Each Queue of v0.1 has a LocalQueue; namespaces may get one."""

OWNED: Final = (resources.WORKLOADS._replace(plural=f"{resources.WORKLOADS.plural}/{FINALIZERS}"), ("update",))
"""Owner references that block the deletion of a Workload: of PodTemplates and ProvisioningRequests, and of variants."""

DEFINITIONS: Final[Raw] = {
    "apiGroups": ["apiextensions.k8s.io"],
    "resources": ["customresourcedefinitions"],
    "verbs": ["get", "list", "watch", "patch"],
    "resourceNames": [kind.crd_name for kind in KINDS if len(kind.versions) > 1],
}
"""The CA's bundle is kept in step with the certificate in every definition whose versions are converted, if the
certificate is Seiretsu's own.
"""

HEAD: Final = (
    """{{- /* Made by `make generate` from controller/run/watched.py. */ -}}
{{- define "seiretsu.rules" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
"""
    + kinds.FRAMEWORKS_IN_HELM
    + """{{- $gates := default (dict) $configuration.featureGates -}}
{{- $kept := default (dict) (default (dict) $configuration.objectRetentionPolicies).workloads -}}
{{- $guard := default (dict) (default (dict) $configuration.seiretsu).guard -}}
{{- $external := default (list) (default (dict) $configuration.integrations).externalFrameworks -}}
"""
)
ELASTIC: Final = 'ne (toString (get $gates "ElasticJobsViaWorkloadSlices")) "false"'
VARIANTS: Final = 'eq (toString (get $gates "ConcurrentAdmission")) "true"'
POPULATES: Final = 'eq (toString (default (dict) (default (dict) $configuration.seiretsu).population).enable) "true"'
RECOVERY: Final = 'eq (toString (get $gates "FailureRecoveryPolicy")) "true"'
GUARD: Final = 'ne (toString $guard.action) "Ignore"'
DELETES_JOBS: Final = 'hasKey $kept "afterDeactivatedByKueue"'
FEATURES: Final = {
    Feature.MULTIKUEUE: 'ne (toString (get $gates "MultiKueue")) "false"',
    Feature.PROVISIONING_REQUESTS: "$configuration.seiretsu.provisioningRequests.enable",
    Feature.QUEUES: "$configuration.seiretsu.queues.enable",
    Feature.TOPOLOGY: 'ne (toString (get $gates "TopologyAwareScheduling")) "false"',
    Feature.DEVICES: 'ne (toString (get $gates "KueueDRAIntegration")) "false"',
}
"""When a feature is on; the chart sets its switches in the Configuration (``seiretsu.configuration``)."""
MULTIKUEUE: Final = FEATURES[Feature.MULTIKUEUE]
OWN_CERTIFICATE: Final = 'not (include "seiretsu.mountsCertificate" .)'
TAIL: Final = "{{- end -}}\n"


def rules(table: Iterable[Watched]) -> list[Raw]:
    """The rules of a role with which everything in the table can be followed and written: one for all resources of a
    group that have the same verbs.
    """
    granted: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in table:
        verbs = {"": (), **row.writes}
        for subresource, writes in verbs.items():
            name = f"{row.resource.plural}/{subresource}" if subresource else row.resource.plural
            given = writes if subresource else (*READ, *writes)
            granted.setdefault((row.resource.group, given), []).append(name)
    return [
        {"apiGroups": [group], "resources": names, "verbs": list(verbs)}
        for (group, verbs), names in sorted(granted.items())
    ]


def unwatched() -> list[Raw]:
    """The rules for resources that are used without a watch."""
    return [_rule(resource, verbs) for resource, verbs in UNWATCHED]


def owners_of_jobs() -> str:
    """The rules for reading the owners of jobs, to find the outermost one that is queued: an owner is read if its kind
    is enabled, or one that may be above it, or an external framework, which may be above any.
    """
    conditions: dict[str, list[Resource]] = {}
    for owner, resource in KNOWN.items():
        above = dict.fromkeys(_enabled(each) for each in makers(owner))
        words = " ".join(f"({each})" for each in (*above, "$external") if each)
        conditions.setdefault(f"or {words}", []).append(resource)
    text = ""
    for condition, found in conditions.items():
        plurals: dict[str, list[str]] = {}
        for each in found:
            plurals.setdefault(each.group, []).append(each.plural)
        text += _if(
            condition,
            [{"apiGroups": [group], "resources": names, "verbs": ["get"]} for group, names in plurals.items()],
        )
    return text


def _enabled(owner: tuple[str, str]) -> str:
    """The Helm condition that a kind is enabled; '' for one that never is."""
    kind = next((each for each in kinds.ALL if (each.group, each.kind) == owner), None)
    if kind is not None:
        return kind.enabled_in_helm
    group = next((each for each in GROUP_OWNERS if (each.resource.group, each.resource.kind) == owner), None)
    return f'has "{group.framework}" $frameworks' if group is not None else ""


def template() -> str:
    """The chart's template of these rules: those of a kind of job are there if it is enabled, those that only a setting
    needs if it is set.
    """
    text = HEAD + _lines(rules(row for row in WATCHED if row.feature is None)) + _lines(unwatched()) + owners_of_jobs()
    for feature, condition in FEATURES.items():
        text += _if(condition, rules(row for row in WATCHED if row.feature is feature))
    text += _if(f"or ({FEATURES[Feature.QUEUES]}) ({POPULATES})", [_rule(*MIRRORED)])
    text += _if(FEATURES[Feature.TOPOLOGY], [_rule(*COUNTED), _rule(*ENDED), _rule(*UNGATED)])
    text += _if(RECOVERY, [_rule(*FORCED), _rule(*ENDED)])
    text += _if(f"or ({FEATURES[Feature.PROVISIONING_REQUESTS]}) ({VARIANTS})", [_rule(*OWNED)])
    elastic = " ".join(f"({kind.enabled_in_helm})" for kind in kinds.ALL if kind.elastic)
    text += _if(f"and ({ELASTIC}) (or {elastic})", [_rule(*UNGATED)]) + _if(GUARD, [_rule(*GUARDED)])
    text += _if(OWN_CERTIFICATE, [DEFINITIONS])
    for kind in kinds.ALL:
        own = rows([kind])[len(WATCHED) :]
        text += _if(kind.enabled_in_helm, rules(row for row in own if row.feature is None))
        if referred := rules(row for row in own if row.feature is Feature.MULTIKUEUE):
            text += _if(f"and ({MULTIKUEUE}) ({kind.enabled_in_helm})", referred)
        if Right(kind.resource, "delete") not in kind.rights:
            text += _if(f"and ({DELETES_JOBS}) ({kind.enabled_in_helm})", [_rule(kind.resource, ("delete",))])
        if kind.managed_by is not None and Right(kind.resource, "patch", "status") not in kind.rights:
            status = kind.resource._replace(plural=f"{kind.resource.plural}/status")
            text += _if(f"and ({MULTIKUEUE}) ({kind.enabled_in_helm})", [_rule(status, ("patch",))])
    for owner in GROUP_OWNERS:
        text += _if(f'has "{owner.framework}" $frameworks', rules(rows([], [owner])[len(WATCHED) :]))
    return text + TAIL


def _rule(resource: Resource, verbs: Sequence[str]) -> Raw:
    return {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": list(verbs)}


def _if(condition: str, found: Iterable[Raw]) -> str:
    return f"{{{{- if {condition} }}}}\n{_lines(found)}{{{{- end }}}}\n"


def _lines(found: Iterable[Raw]) -> str:
    lines = []
    for rule in found:
        written = {name: ", ".join(each or '""' for each in words) for name, words in rule.items()}
        lines += [
            f"{'  ' if place else '- '}{name}: [{words}]\n" for place, (name, words) in enumerate(written.items())
        ]
    return "".join(lines)


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
