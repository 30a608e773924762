"""Kinds of jobs at admission: what follows from the table, and what a kind may add."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from msgspec import structs

from api.errors import FieldError, forbidden
from api.feature_gates import Enabled
from api.names import MULTIKUEUE_CONTROLLER, Annotation, Label
from core.jobs.fields import Setting, at, changed
from core.jobs.kind import JobKind
from core.jobs.kinds import ALL
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.jobset import JOB_SET
from core.jobs.kinds.kubeflow import PY_TORCH_JOB
from core.jobs.kinds.raycluster import RAY_CLUSTER
from core.jobs.kinds.rayjob import RAY_JOB
from core.jobs.kinds.sparkapplication import SPARK_APPLICATION
from core.model import Admission, Key, Raw, ResourceFlavor
from core.model.queues import AdmissionCheck, CheckRule, ClusterQueue, LocalQueue
from core.model.workload import replace
from core.state.lookup import Lookup
from core.state.state import State
from tests.builders import cluster_queue, reserved, state
from tests.core.feedback.world import world
from tests.core.jobs.gang import Gang, gang
from tests.core.jobs.test_appwrapper import JOB, app_wrapper
from tests.core.jobs.test_jobset import job_set, replicated
from tests.core.jobs.test_kinds import EXAMPLES
from tests.core.jobs.test_kubeflow import kubeflow, replica
from tests.core.jobs.test_ray import group, ray
from tests.core.jobs.test_sparkapplication import spark
from tests.webhook.cluster import ask, cluster, review_of
from webhook import jobs, patch
from webhook.hooks import HOOKS, HookPhase, hooks
from webhook.review import Response, parse
from webhook.settings import Context, WebhookSettings

QUEUE = {Label.QUEUE_NAME: "main"}
MUTATE, VALIDATE = (f"/{verb}-jobset-x-k8s-io-v1alpha2-jobset" for verb in ("mutate", "validate"))
JOB_SETS = WebhookSettings(frameworks=frozenset({"jobset.x-k8s.io/jobset"}))


class Careful(Gang):
    """A made-up kind with all that a kind may add to admission."""

    def skip(self, job: Raw) -> bool:
        return bool(job["spec"].get("borrowed"))

    def skip_errors(self, job: Raw) -> list[FieldError]:
        return [forbidden("spec.borrowed", "it has its own")] if job["spec"].get("owned") else []

    def defaults(self, job: Raw, enabled: Enabled) -> list[Setting]:
        return [] if job["spec"].get("size") else [Setting(("spec", "size"), 2)]

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        return [forbidden("spec.size", "too many")] if job["spec"]["size"] > 8 else []

    def warnings(self, old: Raw | None, new: Raw) -> list[str]:
        return [] if old is None else ["gangs rarely change"]

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> Any:
        return super().slots({**job, "spec": {"size": 2, **job["spec"]}})


CAREFUL = Careful()


def context() -> Context:
    return Context(WebhookSettings(frameworks=frozenset({CAREFUL.framework})), cluster())


def queued(**spec: Any) -> Raw:
    found = gang(labels=QUEUE)
    return {**found, "spec": {**found["spec"], "gates": [], **spec}}


def created(job: Raw) -> Response:
    return jobs.mutate(CAREFUL, parse(orjson.dumps(review_of(job, resource="gangs"))), context())


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "spec.managedBy: Forbidden: field is immutable while"),
        ({"replicatedJobs": [replicated("i")]}, "nodeSelector[pool]: Forbidden: the job has quota on these nodes"),
        ({"ttlSecondsAfterFinished": 1}, ""),
    ],
    ids=["another controller", "any nodes", "neither"],
)
@pytest.mark.parametrize("waits", [False, True], ids=["runs", "waits"])
def test_a_job_that_runs_stays_with_its_controller_and_on_its_nodes(change: Raw, refused: str, waits: bool) -> None:
    group = replicated("i")
    group["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "slow"}
    old = job_set(group, suspend=False, labels=QUEUE)
    old["metadata"]["uid"] = "uid-w"
    has = reserved("w", 1, "cq")
    assert has.admission is not None
    assigned = tuple(structs.replace(has.admission.pod_sets[0], name=each.name) for each in JOB_SET.slots(old))
    value = replace(has, admission=Admission("cq", assigned), **({"conditions": ()} if waits else {}))
    known = state(cluster_queue("cq", 1000))
    known.set_flavor("default", ResourceFlavor("default", {"pool": "slow"}))
    lookup = Lookup(known, job_workload={"uid-w": value}.get)
    new = {**old, "spec": {**old["spec"], **change}}
    response = ask(VALIDATE, review_of(new, old=old, resource="jobsets"), settings=JOB_SETS, knows=lookup)
    told = response.get("status", {}).get("message", "")
    assert refused in told if refused and not waits else response["allowed"], told


@pytest.mark.parametrize("runs", [True, False], ids=["runs", "waits"])
def test_the_nodes_that_a_manifest_leaves_out_are_put_back_while_a_job_runs(runs: bool) -> None:
    """``kubectl apply`` replaces a list of a custom resource as a whole, also where the manifest is unchanged."""
    hook = "/mutate-ray-io-v1-raycluster"
    manifest = ray(RAY_CLUSTER, group("w"))
    manifest["metadata"] |= {"uid": "uid-w", "labels": QUEUE}
    manifest["spec"]["suspend"] = not runs
    selectors = ("spec", "workerGroupSpecs", 0, "template", "spec", "nodeSelector")
    live = patch.apply(manifest, jobs.settings_patch(manifest, [Setting(selectors, {"pool": "slow"})]))
    has = reserved("w", 1, "cq")
    assert has.admission is not None
    assigned = tuple(structs.replace(has.admission.pod_sets[0], name=each.name) for each in RAY_CLUSTER.slots(live))
    known = state(cluster_queue("cq", 1000))
    known.set_flavor("default", ResourceFlavor("default", {"pool": "slow"}))
    lookup = Lookup(known, job_workload={"uid-w": replace(has, admission=Admission("cq", assigned))}.get)
    settings = WebhookSettings(frameworks=frozenset({RAY_CLUSTER.framework}))
    response = ask(hook, review_of(manifest, old=live, resource="rayclusters"), settings=settings, knows=lookup)
    operations = orjson.loads(base64.b64decode(response.get("patch", b"W10=")))
    path = "/" + "/".join(map(str, selectors))
    assert operations == ([{"op": "add", "path": path, "value": {"pool": "slow"}}] if runs else [])


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_each_kind_has_its_hooks_where_it_is_enabled_alone(kind: Any) -> None:
    mine = {hook.name for hook in HOOKS if hook.job_kind is kind}
    assert {f"m{kind.singular}.kb.io", f"v{kind.singular}.kb.io", f"m{kind.singular}-default.kb.io"} < mine
    for frameworks, there in ((frozenset({kind.framework}), mine), (frozenset(), set())):
        settings = WebhookSettings(frameworks=frozenset(frameworks))
        assert {hook.name for phase in HookPhase for hook in hooks(settings, phase)} & mine == there


def test_a_queued_jobset_starts_suspended() -> None:
    response = ask(MUTATE, review_of(job_set(suspend=False, labels=QUEUE), resource="jobsets"), settings=JOB_SETS)
    operations = orjson.loads(base64.b64decode(response["patch"]))
    assert operations == [{"op": "add", "path": "/spec/suspend", "value": True}]


@pytest.mark.parametrize(
    ("annotations", "error"),
    [
        ({Annotation.ELASTIC_JOB: "true"}, "elastic job is not supported for"),
        ({Annotation.PREBUILT_WORKLOAD: "A B"}, Annotation.PREBUILT_WORKLOAD),
    ],
    ids=["a rule of its kind", "a rule of all kinds"],
)
def test_a_jobset_is_validated(annotations: Raw, error: str) -> None:
    new = job_set(labels=QUEUE, annotations=annotations)
    response = ask(VALIDATE, review_of(new, resource="jobsets"), settings=JOB_SETS)
    assert not response["allowed"]
    assert error in response["status"]["message"]


def test_a_jobset_gets_a_warning_if_its_queue_does_not_exist() -> None:
    found = cluster(default_queue_in=["ns"])
    response = ask(VALIDATE, review_of(job_set(labels={Label.QUEUE_NAME: "defalt"}), resource="jobsets"), knows=found)
    assert response["allowed"]
    assert 'did you mean "default"?' in response["warnings"][0]


def test_a_jobset_in_an_unmanaged_namespace_gets_a_warning_about_the_namespace() -> None:
    made = review_of(job_set(labels=QUEUE, namespace="kube-system"), resource="jobsets")
    response = ask("/feedback-jobset-x-k8s-io-v1alpha2-jobset-unmanaged", made, settings=JOB_SETS)
    assert response["allowed"]
    assert response["warnings"] == [
        'namespace "kube-system" is never managed: this JobSet is not queued and starts immediately; use another'
        " namespace"
    ]


def test_a_changed_template_of_a_jobset_gets_a_warning_that_names_its_kind() -> None:
    old, new = (job_set(replicated(image), suspend=False, labels=QUEUE) for image in ("old", "new"))
    update = review_of(new, old=old, resource="jobsets")
    response = ask(MUTATE, update, settings=JOB_SETS)
    assert response["warnings"] == [
        "this JobSet's pod template cannot change: delete the JobSet and create it again (kubectl replace --force"
        " -f FILE)"
    ]


def test_a_kind_that_is_held_back_by_a_list_gets_its_gate_and_its_own_defaults() -> None:
    response = created(queued(gates=["other"], size=None))
    assert response.allowed
    settings = {operation.path: operation.value for operation in response.patch}
    assert settings == {("spec", "gates"): ["other", "queue"], ("spec", "size"): 2}


def test_a_job_that_its_kind_skips_is_not_touched() -> None:
    assert created(queued(borrowed=True)).patch == ()
    review = review_of(queued(borrowed=True, size=99), resource="gangs")
    assert jobs.validate(CAREFUL, parse(orjson.dumps(review)), context()).allowed


def test_a_kind_refuses_a_skipped_job_that_contradicts_itself() -> None:
    review = review_of(queued(borrowed=True, owned=True), resource="gangs")
    refused = jobs.validate(CAREFUL, parse(orjson.dumps(review)), context())
    assert [str(cause) for cause in refused.causes] == ["spec.borrowed: Forbidden: it has its own"]


def test_a_kind_adds_validation_rules_and_warnings() -> None:
    large = review_of(queued(size=9, gates=["queue"]), resource="gangs")
    refused = jobs.validate(CAREFUL, parse(orjson.dumps(large)), context())
    assert [str(cause) for cause in refused.causes] == ["spec.size: Forbidden: too many"]
    changed = review_of(queued(size=8, gates=["queue"]), old=queued(size=7, gates=["queue"]), resource="gangs")
    warned = jobs.validate(CAREFUL, parse(orjson.dumps(changed)), context())
    assert warned.allowed
    assert "gangs rarely change" in warned.warnings


def test_a_job_is_kept_waiting_by_the_field_that_its_kind_names() -> None:
    old, new = queued(gates=["queue"]), queued(gates=[])
    response = jobs.mutate(CAREFUL, parse(orjson.dumps(review_of(new, old=old, resource="gangs"))), context())
    assert [(operation.path, operation.value) for operation in response.patch] == [(("spec", "gates"), ["queue"])]
    assert response.warnings[0].startswith('spec.gates stays ["queue"]: the job waits in LocalQueue "main"')
    assert at(new, ("spec", "gates")) == []


def test_advice_about_a_jobset_names_the_fields_that_count_its_pods() -> None:
    made = job_set(replicated("workers", 4, parallelism=5), namespace="team-a", labels=QUEUE)
    for each in made["spec"]["replicatedJobs"]:
        each["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    response = ask(VALIDATE, review_of(made, resource="jobsets"), knows=world(), settings=JOB_SETS)
    assert response["warnings"] == [
        "never starts: 20 pods ask for 20 cpu, it allows 12 in standard; set replicas times parallelism to 12 or less"
    ]


def test_only_kinds_whose_api_refuses_changes_of_templates_advise_to_create_the_job_again() -> None:
    assert {hook.kind for hook in HOOKS if hook.phase is HookPhase.MUTATING and hook.advice} == {"Job", "JobSet"}


def asking(found: Any, cpu: str) -> Any:
    """An object in which every container asks for so much cpu."""
    if isinstance(found, list):
        return [asking(each, cpu) for each in found]
    if not isinstance(found, dict):
        return found
    changed = {key: asking(each, cpu) for key, each in found.items()}
    if "containers" in changed:
        changed["containers"] = [{**each, "resources": {"requests": {"cpu": cpu}}} for each in changed["containers"]]
    return changed


@pytest.mark.parametrize(
    ("kind", "found", "warning"),
    [
        (
            RAY_JOB,
            ray(RAY_JOB, group("small", 20)),
            "never starts: 20 pods of worker group small ask for 20 cpu, it allows 12 in standard;"
            " set replicas to 12 or less",
        ),
        (
            RAY_CLUSTER,
            ray(RAY_CLUSTER, group("tpu", 5, numOfHosts=4)),
            "never starts: 20 pods of worker group tpu ask for 20 cpu, the ClusterQueue allows 12 in standard",
        ),
        (
            PY_TORCH_JOB,
            kubeflow(PY_TORCH_JOB, {"Master": replica(1), "Worker": replica(20)}),
            "never starts: 20 pods of replica type Worker ask for 20 cpu, the ClusterQueue allows 12 in standard",
        ),
        (
            SPARK_APPLICATION,
            spark(driver={"coreRequest": "20", "memory": None}, executor={"memory": None}),
            'never starts: the driver asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard; ask for 12 or less',
        ),
        (
            APP_WRAPPER,
            {**app_wrapper(components=[{"template": JOB | {"spec": JOB["spec"] | {"parallelism": 20}}}]), "status": {}},
            "never starts: 20 pods ask for 20 cpu, the ClusterQueue allows 12 in standard;"
            " set pods of its components to 12 or less",
        ),
    ],
    ids=["RayJob", "RayCluster of several hosts", "PyTorchJob", "SparkApplication", "AppWrapper"],
)
def test_advice_names_the_part_of_a_job_as_its_kind_does(kind: JobKind, found: Raw, warning: str) -> None:
    made = asking(found, "1")
    made["metadata"] |= {"namespace": "team-a", "labels": QUEUE}
    path = f"/validate-{kind.group.replace('.', '-')}-{kind.version}-{kind.singular}"
    settings = WebhookSettings(frameworks=frozenset({kind.framework}))
    response = ask(path, review_of(made, resource=kind.plural), knows=world(), settings=settings)
    assert response["warnings"] == [warning]


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.kind)
def test_a_running_job_of_any_kind_keeps_its_queue_name(kind: JobKind) -> None:
    """Source: Kueue's gate ValidateRayAndSparkJobUpdates, for the kinds that Kueue did not check before."""
    job = changed(EXAMPLES[kind], kind.suspend_path, kind.release(EXAMPLES[kind]).value)
    old, new = (changed(job, ("metadata", "labels"), labels) for labels in (QUEUE, {}))
    review = review_of(new, old=old, resource=kind.plural)
    found = jobs.validate(
        kind, parse(orjson.dumps(review)), Context(WebhookSettings(frameworks=frozenset({kind.framework})), cluster())
    )
    assert [cause.field for cause in found.causes] == ["metadata.labels[kueue.x-k8s.io/queue-name]"]
    assert "field is immutable while the job runs" in found.causes[0].detail


BY_QUEUE = [each for each in ALL if each.updates_checked_by_queue]


@pytest.mark.parametrize("kind", BY_QUEUE, ids=lambda kind: kind.kind)
@pytest.mark.parametrize(
    ("before", "after", "on", "checked"),
    [
        pytest.param(QUEUE, {}, True, True, id="removed, on"),
        pytest.param(QUEUE, {}, False, False, id="removed, off"),
        pytest.param({}, {}, True, False, id="never queued, on"),
        pytest.param({}, QUEUE, False, True, id="added, off"),
    ],
)
def test_updates_of_ray_and_spark_are_checked_by_queue(
    kind: JobKind, before: Raw, after: Raw, *, on: bool, checked: bool
) -> None:
    """The gate ValidateRayAndSparkJobUpdates; a change of the priority class shows whether there is a check."""
    assert {each.kind for each in BY_QUEUE} == {"RayCluster", "RayJob", "RayService", "SparkApplication"}
    job = changed(EXAMPLES[kind], kind.suspend_path, kind.release(EXAMPLES[kind]).value)
    old = changed(job, ("metadata", "labels"), before)
    new = changed(job, ("metadata", "labels"), after | {"kueue.x-k8s.io/priority-class": "high"})
    gates = {"ValidateRayAndSparkJobUpdates": on, "SparkApplicationIntegration": True}
    settings = WebhookSettings(frameworks=frozenset({kind.framework}), gates=gates)
    review = review_of(new, old=old, resource=kind.plural)
    found = jobs.validate(kind, parse(orjson.dumps(review)), Context(settings, cluster()))
    assert bool(found.causes) is checked


@pytest.mark.parametrize("kind", [each for each in ALL if each.managed_by is not None], ids=lambda kind: kind.kind)
@pytest.mark.parametrize("checked", [True, False], ids=["with worker clusters", "without"])
def test_a_job_of_a_queue_with_worker_clusters_is_left_to_them(kind: JobKind, checked: bool) -> None:
    """Also one that names its own controller, which the API server sets in every TrainJob; not one of another."""
    state, key = State(), Key("ns", "main")
    state.set_local_queue(key, LocalQueue(key, "all"))
    state.set_cluster_queue("all", ClusterQueue("all", checks=(CheckRule("workers"),) if checked else ()))
    state.set_admission_check("workers", AdmissionCheck("workers", MULTIKUEUE_CONTROLLER, active=True))
    context = Context(WebhookSettings(frameworks=frozenset({kind.framework})), Lookup(state, ready=lambda: True))
    metadata = {"name": "j", "namespace": "ns", "labels": QUEUE}
    plain: Raw = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}}
    assert kind.managed_by is not None and kind.own_controller
    for named, left in (("", True), (kind.own_controller, True), ("a.b/c", False)):
        job = changed(plain, kind.managed_by, named) if named else plain
        response = jobs.mutate(kind, parse(orjson.dumps(review_of(job, resource=kind.plural))), context)
        wanted = MULTIKUEUE_CONTROLLER if left and checked else named
        assert kind.manager(patch.apply(job, response.patch)) == wanted


@pytest.mark.parametrize(
    ("before", "after", "suspended"),
    [((0, 0), (0, 8), True), ((9, 0), (0, 8), True), ((9, 2), (0, 2), False)],
    ids=["workers after none", "fewer of one group and more of another", "fewer"],
)
def test_a_running_job_is_suspended_if_any_of_its_pod_sets_grows(
    before: Sequence[int], after: Sequence[int], suspended: bool
) -> None:
    def of(counts: Sequence[int]) -> Raw:
        found = ray(RAY_CLUSTER, *(group(name, count) for name, count in zip("ab", counts, strict=True)))
        metadata = {**found["metadata"], "labels": QUEUE}
        return {**found, "metadata": metadata, "spec": {**found["spec"], "suspend": False}}

    settings = WebhookSettings(frameworks=frozenset({RAY_CLUSTER.framework}))
    body = review_of(of(after), old=of(before), resource="rayclusters")
    response = ask("/mutate-ray-io-v1-raycluster", body, settings=settings)
    assert ("patch" in response) == suspended
