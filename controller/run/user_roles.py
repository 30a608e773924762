"""The kinds that people have roles for: Seiretsu's own, and the kinds of jobs that Kubernetes' own roles do not cover.

The chart makes a viewer and an editor of each, with Kueue's names and labels. ``python -m controller.run.user_roles
FILE`` writes the table as a template of the chart; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from api.kinds import KINDS
from api.names import GROUP
from core.jobs import kinds
from core.jobs.pod_owners import POD_OWNERS

_BUILT_IN: Final = ("", "apps")
"""API groups whose objects Kubernetes' roles ``view`` and ``edit`` cover. Jobs are covered too, but users who have only
``batch-user`` need a role for them.
"""


class Covered(NamedTuple):
    """A kind with roles. ``user``: what ``batch-user`` may do with its objects (``batch-admin`` may edit all);
    ``condition``: the Helm condition under which the roles are made.
    """

    name: str
    group: str
    plural: str
    status: bool
    user: str
    condition: str = ""


def covered() -> Iterator[Covered]:
    """Yields the kinds that have roles. Objects without a namespace are not for ``batch-user``."""
    for own in KINDS:
        yield Covered(own.singular, GROUP, own.plural, own.has_status, "view" if own.namespaced else "")
    for job in kinds.ALL:
        if job.group not in _BUILT_IN:
            yield Covered(job.singular, job.group, job.plural, True, "edit", job.enabled_in_helm)
    for each in POD_OWNERS:
        resource = each.resource
        if resource.group not in _BUILT_IN:
            condition = f'has "{each.framework}" $frameworks'
            yield Covered(resource.kind.lower(), resource.group, resource.plural, True, "edit", condition)


HEAD: Final = (
    """{{- /* Made by `make generate` from controller/run/user_roles.py. */ -}}
{{- define "seiretsu.userRoles" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
"""
    + kinds.FRAMEWORKS_IN_HELM
    + """kinds:
"""
)
TAIL: Final = "{{- end -}}\n"


def template() -> str:
    """Returns the chart's template of the table: those of a kind of job are in it if it is enabled."""
    text = HEAD
    for each in covered():
        status = str(each.status).lower()
        user = f", user: {each.user}" if each.user else ""
        line = f"- {{name: {each.name}, group: {each.group}, plural: {each.plural}, status: {status}{user}}}\n"
        text += f"{{{{- if {each.condition} }}}}\n{line}{{{{- end }}}}\n" if each.condition else line
    return text + TAIL


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
