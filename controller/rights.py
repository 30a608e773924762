"""The rights of the controller, from the table of watched resources, as rules of a ClusterRole.

``python -m controller.rights FILE`` writes them as a template of the chart; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from api.kinds import KINDS
from controller import resources
from controller.kube.events import EVENTS
from controller.watched import READ, WATCHED, Watched, rows
from core.jobs import kinds
from core.jobs.owners import KNOWN
from core.jobs.pod_owners import GROUP_OWNERS
from core.model import Raw

UNWATCHED: Final = (
    # The quota of a deleted job is held until its pods are gone; pods of elastic jobs lose their scheduling gate.
    (resources.PODS, ("list", "patch")),
    (EVENTS, ("create", "patch")),
    *((each, ("get",)) for each in KNOWN.values()),  # owners of jobs, to find the outermost one that is queued
)
"""Resources that are used without a watch."""

DEFINITIONS: Final[Raw] = {
    "apiGroups": ["apiextensions.k8s.io"],
    "resources": ["customresourcedefinitions"],
    "verbs": ["get", "list", "watch", "patch"],
    "resourceNames": [kind.crd_name for kind in KINDS if len(kind.versions) > 1],
}
"""The CA's bundle is kept in step with the certificate in every definition whose versions are converted."""

HEAD: Final = """{{- /* Made by `make generate` from controller/watched.py. */ -}}
{{- define "seiretsu.rules" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- $frameworks := default (list "batch/job") (default (dict) $configuration.integrations).frameworks -}}
"""
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
    return [
        {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": list(verbs)}
        for resource, verbs in UNWATCHED
    ]


def template() -> str:
    """The chart's template of these rules: those of a kind of job are there if it is enabled."""
    text = HEAD + _lines(rules(WATCHED)) + _lines([*unwatched(), DEFINITIONS])
    for kind in kinds.ALL:
        of_kind = _lines(rules(rows([kind])[len(WATCHED) :]))
        text += f"{{{{- if {kind.enabled_in_helm} }}}}\n{of_kind}{{{{- end }}}}\n"
    for owner in GROUP_OWNERS:
        of_owner = _lines(rules(rows([], [owner])[len(WATCHED) :]))
        text += f'{{{{- if has "{owner.framework}" $frameworks }}}}\n{of_owner}{{{{- end }}}}\n'
    return text + TAIL


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
