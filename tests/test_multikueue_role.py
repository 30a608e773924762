"""The account in examples/multikueue/worker.yaml may do what the manager does in a worker, and no more."""

from __future__ import annotations

from pathlib import Path

import yaml

from api import resources
from api.objects import Resource
from cli.worker_clusters import rights
from controller.multikueue.survey import SURVEYED
from core.jobs.kinds import KINDS
from core.jobs.mirrored_owners import MIRRORED_OWNERS

ROLE = Path(__file__).parents[1] / "examples" / "multikueue" / "worker.yaml"
Right = tuple[str, str, str]
"""API group, resource with its subresource, and verb."""


def needed(resource: Resource) -> set[Right]:
    return {
        (resource.group, f"{resource.plural}{f'/{subresource}' if subresource else ''}", verb)
        for subresource, verb in rights(resource)
    }


def test_the_account_has_the_rights_that_are_used_and_no_others() -> None:
    (role,) = [each for each in yaml.safe_load_all(ROLE.read_text()) if each["kind"] == "ClusterRole"]
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    kinds = (*(kind for kind in KINDS.values() if kind.may_run_in_worker), *MIRRORED_OWNERS)
    written = [resources.WORKLOADS, *(kind.resource for kind in kinds)]
    wanted = {right for resource in written for right in needed(resource)}
    wanted |= {(each.group, each.plural, verb) for each in SURVEYED for verb in ("list", "watch")}
    assert granted == wanted
