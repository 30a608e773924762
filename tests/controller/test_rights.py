"""The rights that the chart grants: those of the table of watched resources, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from api import crds
from api.objects import Resource
from controller.run.rights import DEFINITIONS, rules, template
from controller.run.watched import Watched, rows
from core.actions import Create, Delete, Write
from core.jobs.fields import changed
from core.jobs.job_starter import Right, StopCause
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL, JOB_SET, KINDS, POD
from core.jobs.template import Injection
from core.model import Raw
from tests.core.jobs.test_kinds import EXAMPLES, RELATED
from tests.core.jobs.test_pod import pod
from tests.core.jobs.test_trainjob import made as train_job_set

CHART = Path(__file__).parents[2] / "charts" / "seiretsu"
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget")


def granted(table: tuple[Watched, ...], group: str, name: str) -> set[str]:
    """What the rules of a table allow of a resource, or of a subresource."""
    return {
        verb
        for rule in rules(table)
        if rule["apiGroups"] == [group] and name in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_template_in_the_chart_is_the_one_that_the_table_gives() -> None:
    assert (CHART / "templates" / "_rules.tpl").read_text() == template(), "run `make generate`"


def test_the_definitions_that_convert_between_versions_may_be_patched_and_no_others() -> None:
    converted = {each["metadata"]["name"] for each in crds.definitions({"url": "x"}) if "conversion" in each["spec"]}
    assert set(DEFINITIONS["resourceNames"]) == converted
    assert DEFINITIONS["verbs"] == ["get", "list", "watch", "patch"]


def test_a_row_brings_its_rights_along() -> None:
    table = (*rows(KINDS.values()), Watched(resource=GADGETS, writes={"": ("create",), "status": ("patch",)}))
    assert granted(table, "example.com", "gadgets") == {"list", "watch", "create"}
    assert granted(table, "example.com", "gadgets/status") == {"patch"}


def used(kind: JobKind, write: Write) -> Right:
    """The right that a write of a start or stop needs."""
    assert not isinstance(write, Create)
    resource = write.target.resource if write.target else kind.resource
    return Right(resource, "delete") if isinstance(write, Delete) else Right(resource, "patch", write.subresource)


def writes(kind: JobKind) -> list[Write]:
    """Those of starts and stops of a job, before its first start and after one, also when its controller does nothing
    with it.
    """
    example = pod() if kind is POD else EXAMPLES[kind]
    started: Raw = {**example, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/workload": "w"}}}
    child: Raw = {"metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "spec": {"template": template}}
    marked: Raw = train_job_set({"kueue.x-k8s.io/workload": "w"})
    related = [marked] if kind in RELATED else [child]
    found: list[Write] = []
    invalid = {"type": "Ready", "status": "False", "reason": "ValidationFailed"}
    stuck = ({"jobDeploymentStatus": "Waiting"}, {"jobDeploymentStatus": invalid["reason"], "conditions": [invalid]})
    for job in (example, started, *({**example, "status": each} for each in stuck)):
        running = changed(job, *kind.release(job))
        found += kind.start(job, [Injection("any", 1)] * len(kind.slots(job, related)), related)
        for each in (running, job):
            found += kind.stop_because(
                each, kind.pod_sets(job, related), StopCause("WorkloadDeleted", "", 0.0), related
            )
    return found


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_the_rights_of_a_kind_are_those_that_its_starts_and_stops_use(kind: JobKind) -> None:
    own = Right(kind.resource, "patch")
    assert {used(kind, each) for each in writes(kind)} == {own, *kind.rights}


def test_a_job_may_be_patched_and_otherwise_written_only_as_its_kind_writes_it() -> None:
    table = rows(KINDS.values())
    for kind in ALL:
        others = [right for each in ALL for right in each.rights if right.resource == kind.resource]
        found = {right.verb for right in others if not right.subresource}
        assert granted(table, kind.group, kind.plural) == {"list", "watch", "patch"} | found
        status = {right.verb for right in others if right.subresource == "status"}
        assert granted(table, kind.group, f"{kind.plural}/status") == status, kind.plural
    assert granted(table, "jobset.x-k8s.io", "jobsets/status") == set()


def test_objects_that_belong_to_jobs_may_only_be_written_as_the_kind_of_the_jobs_says() -> None:
    assert granted(rows([JOB_SET]), "batch", "jobs") == {"list", "watch", "delete"}


def test_each_row_may_be_followed_and_written_as_it_says_and_not_otherwise() -> None:
    table = rows(KINDS.values())
    for row in table:
        name = row.resource.plural
        written = {subresource: set(verbs) for subresource, verbs in row.writes.items()}
        assert granted(table, row.resource.group, name) == {"list", "watch"} | written.pop("", set())
        for subresource in ("status", "finalizers"):
            assert granted(table, row.resource.group, f"{name}/{subresource}") == written.pop(subresource, set())
        assert written == {}


def test_a_status_that_the_controller_keeps_may_be_patched_and_so_may_what_bears_its_finalizer() -> None:
    for row in rows(KINDS.values()):
        if row.status is not None:
            assert "patch" in row.writes["status"], row.resource.plural
        if row.in_use is not None or row.gets_finalizer:
            assert "patch" in row.writes[""], row.resource.plural
