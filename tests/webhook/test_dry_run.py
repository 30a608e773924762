"""`kubectl create --dry-run=server`: an answer about the job, and nothing else that a real create would not have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from api.names import Label
from core.feedback.accepted import Accepted
from core.forecast.basis import Basis
from core.forecast.run_times import constant
from core.jobs.kinds import ALL
from core.jobs.pod_owners import POD_OWNERS
from core.model import (
    Admission,
    ClusterQueue,
    FlavorResource,
    Key,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    Quota,
    Raw,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Workload,
)
from core.state.lookup import Lookup
from core.state.state import State
from tests.core.feedback.world import running, world
from tests.core.jobs.test_jobset import job_set
from tests.core.worlds import admitted
from tests.webhook import test_feedback, test_job_kinds, test_pod_owners
from tests.webhook.cluster import ask, review, review_of
from tests.webhook.test_feedback import MUTATE, VALIDATE, VALIDATE_WORKLOAD, queued
from webhook import patch
from webhook.hooks import HOOKS, Hook, HookPhase, Reach
from webhook.review import parse
from webhook.routes import Route, routes
from webhook.settings import Context, WebhookSettings

NOW = 'would start now, in flavor "standard"'
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}}
PODS: Raw = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
PODS["spec"]["containers"][0]["resources"] = RESOURCES
QUEUE = {Label.QUEUE_NAME: "main"}


def deployment() -> Raw:
    return test_pod_owners.deployment(template=PODS, labels=QUEUE, namespace="team-a")


KINDS = [
    pytest.param(VALIDATE, queued(), "jobs", {}, NOW, id="a Job"),
    pytest.param(VALIDATE_WORKLOAD, test_feedback.workload("main"), "workloads", {}, NOW, id="a Workload"),
    pytest.param(
        test_pod_owners.VALIDATE,
        deployment(),
        "deployments",
        {"settings": test_pod_owners.DEPLOYMENTS},
        f"one of the 2 pods {NOW}",
        id="a Deployment",
    ),
]


@pytest.mark.parametrize(("path", "made", "resource", "given", "says"), KINDS)
def test_a_dry_run_is_answered_by_a_warning(
    path: str, made: Raw, resource: str, given: dict[str, Any], says: str
) -> None:
    real = ask(path, review_of(made, resource=resource), knows=world(), **given)
    dry = ask(path, review_of(made, resource=resource, dryRun=True), knows=world(), **given)
    assert real.get("warnings", []) == []
    assert dry == {**real, "warnings": [says]}


def test_what_would_wait_is_told_as_at_a_real_create() -> None:
    full = world(running("one", "team-a", "team-a", "12"))
    real, dry = (ask(VALIDATE, review(queued(cpu="4"), dryRun=dry), knows=full) for dry in (False, True))
    assert real == dry
    assert "will wait" in real["warnings"][0]


def test_a_dry_run_of_a_change_has_no_such_answer() -> None:
    for dry in (False, True):
        response = ask(VALIDATE, review(queued(cpu="2"), old=queued(), dryRun=dry), knows=world())
        assert response == {"uid": "u-1", "allowed": True}


def test_defaults_are_those_of_a_real_create_and_nothing_is_kept() -> None:
    real, dry = (ask(MUTATE, review(queued(), dryRun=dry), knows=world()) for dry in (False, True))
    assert real == dry
    accepted = Accepted()
    ask(VALIDATE, review({**queued(), "metadata": {**queued()["metadata"], "uid": "u"}}, dryRun=True), knows=world(),
        accepted=accepted)  # fmt: skip
    assert len(accepted) == 0


def test_jobs_that_were_accepted_just_before_count() -> None:
    accepted = Accepted()
    for uid in ("a", "b"):
        ask(VALIDATE, test_feedback.created(uid), knows=world(), accepted=accepted)
    made = test_feedback.created("c", dryRun=True)
    response = ask(VALIDATE, made, knows=world(), accepted=accepted)
    assert "will wait" in response["warnings"][0]
    assert not [each for each in response["warnings"] if "would start" in each]


def test_an_operator_may_switch_the_answer_off() -> None:
    from webhook.policy import PolicyEntry

    settings: WebhookSettings = test_feedback.policy(PolicyEntry("dry-run", "Ignore"))
    response = ask(VALIDATE, review(queued(), dryRun=True), knows=world(), settings=settings)
    assert response == {"uid": "u-1", "allowed": True}


def test_a_job_set_is_answered_too() -> None:
    made = job_set(labels=QUEUE, namespace="team-a")
    response = ask(
        test_job_kinds.VALIDATE,
        review_of(made, resource="jobsets", dryRun=True),
        knows=world(),
        settings=test_job_kinds.JOB_SETS,
    )
    assert [each for each in response["warnings"] if "would start now" in each]


ROOT = Path(__file__).parents[2]
TRIED = {
    (raw["apiVersion"], raw["kind"]): raw
    for file in [*sorted((ROOT / "examples" / "kinds").glob("*.yaml")), ROOT / "examples" / "jobs" / "train.yaml"]
    for raw in yaml.safe_load_all(file.read_text())
    if Label.QUEUE_NAME in (raw["metadata"].get("labels") or {})
}
POD: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": QUEUE}, "spec": PODS["spec"]}
STATEFUL_SET: Raw = {**deployment(), "kind": "StatefulSet"}
GROUPS: Raw = {"leaderWorkerTemplate": {"workerTemplate": PODS, "size": 2}, "replicas": 2}
GROUP_SET: Raw = {
    **deployment(),
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "spec": GROUPS,
}
OTHERS = [POD, deployment(), STATEFUL_SET, GROUP_SET, test_feedback.workload("main")]


def full(raw: Raw) -> State:
    """A ClusterQueue whose quota is in use, for the queue that an object names."""
    resources = ("cpu", "memory", "nvidia.com/gpu")
    quotas = {FlavorResource("standard", name): Quota(10**15) for name in resources}
    groups = (ResourceGroup(resources, ("standard",)),)
    state = State()
    state.set_namespace("team-a", {})
    state.set_flavor("standard", ResourceFlavor("standard"))
    state.set_cluster_queue("cq", ClusterQueue(name="cq", groups=groups, quotas=quotas, namespace_selector=Selector()))
    name = (raw["metadata"].get("labels") or {}).get(Label.QUEUE_NAME) or raw["spec"]["queueName"]
    state.set_local_queue(Key("team-a", name), LocalQueue(Key("team-a", name), "cq"))
    usage = dict.fromkeys(resources, 10**15)
    given = Admission("cq", (PodSetAssignment("main", dict.fromkeys(usage, "standard"), usage, 1),))
    key = Key("team-a", "full")
    holder = Workload(key, "full", 0.0, name, 0, (PodSet("main", 1, usage),))
    state.set_workload(key, admitted(holder, given, 0.0))
    return state


async def answered(route: Route, body: bytes) -> tuple[int, bytes]:
    return await route(body)


def tried(made: Raw, hook: Hook) -> bytes:
    return orjson.dumps(review_of(made, resource=hook.resources[0], dryRun=True))


@pytest.mark.parametrize("raw", [*TRIED.values(), *OTHERS], ids=lambda raw: raw["kind"])
def test_a_dry_run_of_every_kind_tells_when_it_would_start_and_in_which_flavor(raw: Raw) -> None:
    made = {**raw, "metadata": {**raw["metadata"], "namespace": "team-a", "name": "new"}}
    frameworks = frozenset({*(kind.framework for kind in ALL), *(each.framework for each in POD_OWNERS)})
    lookup = Lookup(full(made))
    context = Context(WebhookSettings(frameworks=frameworks), lookup, basis=Basis(constant(600.0)))
    hooks = {
        hook.phase: hook
        for hook in HOOKS
        if hook.kind == made["kind"] and hook.reach in (Reach.QUEUED_JOBS, Reach.CHECKED_WORKLOADS)
    }
    if HookPhase.MUTATING in hooks:
        hook = hooks[HookPhase.MUTATING]
        made = patch.apply(made, hook.handler(parse(tried(made, hook)), context).patch)
    hook = hooks[HookPhase.VALIDATING]
    status, text = asyncio.run(answered(routes(context, clock=lambda: 60.0)[hook.path], tried(made, hook)))
    response = orjson.loads(text)["response"]
    assert (status, response["allowed"]) == (200, True), response.get("status")
    says = 'would start in about 10 min, in flavor "standard"'
    if raw["kind"] == "TrainJob":
        says = "not known when it would start: its pods are defined by another object"
    assert [each for each in response.get("warnings", ()) if each.endswith(says)], response
    assert len(lookup.state.workloads) == 1, "nothing is kept"


def test_every_kind_is_tried() -> None:
    kinds = {raw["kind"] for raw in (*TRIED.values(), *OTHERS)}
    assert {*(kind.kind for kind in ALL), *(each.resource.kind for each in POD_OWNERS)} - kinds == set()
