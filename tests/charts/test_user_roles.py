"""The roles that the chart makes for people: a viewer and an editor of every kind, as Kueue's chart does."""

from __future__ import annotations

from typing import Final

import pytest

from api.kinds import KINDS
from api.objects import Raw
from controller.run.user_roles import covered, template
from core.jobs.kinds import supported
from tests.charts.rendering import CHART, documents, rendered

pytestmark = pytest.mark.cluster

JOBS: Final = (
    *("job", "jobset", "leaderworkerset", "mpijob", "rayjob", "raycluster", "rayservice", "trainjob"),
    *("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob", "sparkapplication"),
)
KUEUES: Final = (*JOBS, "clusterqueue", "cohort", "localqueue", "resourceflavor", "topology", "workload")
"""The kinds for which Kueue's chart has a viewer and an editor."""
KUEUES_USERS: Final = {f"{job}-editor" for job in JOBS} | {"localqueue-viewer", "workload-viewer"}
"""What may be done with ``batch-user`` in Kueue, besides reading jobs."""
CHANGES: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]


@pytest.fixture(scope="module")
def roles() -> dict[str, Raw]:
    """The roles by the name after that of the release, with every kind enabled."""
    frameworks = ", ".join(supported())
    text = f"integrations: {{frameworks: [{frameworks}]}}"
    found = documents(rendered({"managerConfig": {"controllerManagerConfigYaml": text}}))
    return {
        each["metadata"]["name"].removeprefix("seiretsu-").removesuffix("-role"): each
        for each in found
        if each["kind"] == "ClusterRole"
    }


def labelled(roles: dict[str, Raw], label: str) -> set[str]:
    return {name for name, role in roles.items() if role["metadata"]["labels"].get(label) == "true"}


def test_the_template_in_the_chart_is_the_generated_one() -> None:
    assert (CHART / "templates" / "_user_roles.tpl").read_text() == template(), "run `make generate`"


def test_every_kind_has_a_viewer_who_only_reads_and_an_editor(roles: dict[str, Raw]) -> None:
    assert {kind.singular for kind in KINDS} <= {each.name for each in covered()}
    for each in covered():
        status = [{"apiGroups": [each.group], "resources": [f"{each.plural}/status"], "verbs": ["get"]}]
        for role, verbs in (("viewer", ["get", "list", "watch"]), ("editor", CHANGES)):
            rule = {"apiGroups": [each.group], "resources": [each.plural], "verbs": verbs}
            assert roles[f"{each.name}-{role}"]["rules"] == [rule, *(status if each.status else [])]


def test_the_roles_of_kueue_exist_with_its_names_and_labels(roles: dict[str, Raw]) -> None:
    wanted = {f"{kind}-{role}" for kind in KUEUES for role in ("viewer", "editor")}
    assert wanted <= roles.keys()
    assert all(roles[each]["metadata"]["labels"]["rbac.kueue.x-k8s.io/role"] == each for each in wanted)
    assert wanted <= labelled(roles, "rbac.kueue.x-k8s.io/batch-admin")
    assert labelled(roles, "rbac.kueue.x-k8s.io/batch-user") >= KUEUES_USERS
    for name in ("batch-admin", "batch-user"):
        (selector,) = roles[name]["aggregationRule"]["clusterRoleSelectors"]
        assert selector == {"matchLabels": {f"rbac.kueue.x-k8s.io/{name}": "true"}}


def test_users_write_nothing_that_decides_about_quota(roles: dict[str, Raw]) -> None:
    for label in ("rbac.kueue.x-k8s.io/batch-user", *(f"rbac.authorization.k8s.io/aggregate-to-{each}" for each in
                  ("view", "edit", "admin"))):  # fmt: skip
        written = {
            group
            for name in labelled(roles, label)
            for rule in roles[name]["rules"]
            for group in rule["apiGroups"]
            if "patch" in rule["verbs"]
        }
        assert "kueue.x-k8s.io" not in written, label


def test_viewers_are_part_of_kubernetes_own_roles(roles: dict[str, Raw]) -> None:
    viewers = {f"{each.name}-viewer" for each in covered()}
    for each in ("view", "edit", "admin"):
        assert labelled(roles, f"rbac.authorization.k8s.io/aggregate-to-{each}") == viewers


def test_kinds_that_are_not_enabled_have_no_roles() -> None:
    named = {each["metadata"]["name"] for each in documents(rendered()) if each["kind"] == "ClusterRole"}
    assert {"seiretsu-job-viewer-role", "seiretsu-workload-viewer-role"} <= named
    assert not {"seiretsu-jobset-viewer-role", "seiretsu-rayjob-editor-role"} & named
