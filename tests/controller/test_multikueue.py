"""What the controller of MultiKueue keeps between events, and how it treats workers that come and go."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from api import resources
from api.names import MULTIKUEUE_CONTROLLER, CheckState
from api.objects import Key, Raw, Resource, key_of
from controller.cache.caches import Caches
from controller.cache.churn import FREE, Churn
from controller.cache.refusals import REPORT_SECONDS
from controller.cache.sweeps import Sweeps
from controller.kube import config
from controller.kube.config import Connection
from controller.kube.errors import AlreadyExists, ApiError, Fenced, Forbidden, Unreachable, from_status
from controller.kube.store import Store, verbatim
from controller.metrics.counters import QueueingMetrics
from controller.multikueue import files
from controller.multikueue.clusters import FAILED_SECONDS, WorkerCluster
from controller.multikueue.orphans import AT_ONCE
from controller.multikueue.remote import CHANGED_SECONDS, Remote
from controller.multikueue.there import TAKE_OVER_SECONDS
from controller.multikueue.workloads import MultiKueueController
from controller.run.watched import rows
from controller.settings import ControllerSettings
from core.actions import Action, Patch, Wait
from core.jobs.kinds import BATCH_JOB
from core.model.events import Event
from core.multikueue import there as rules_there
from core.multikueue.here import REFUSED_SECONDS
from core.multikueue.kubeconfig import Allowed
from core.multikueue.profile import Provider
from core.state.state import State
from core.wire.merge import merged
from tests.core.multikueue.groups import EARLIER, NOW, conditions, copy, job, there, word, workload
from tests.eventually import PATIENCE

KEY = key_of(workload())
LOST_SECONDS = ControllerSettings().multikueue.policy.worker_lost_timeout


class Told:
    """The recorder of events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.events.append(event)


class Api:
    """The manager's API server: patches enter the stores."""

    def __init__(self) -> None:
        self.patches: list[tuple[Key, Raw]] = []

    def turn(self, namespace: str, *, first: bool) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def patch(self, resource: Resource, key: Key, body: Raw, *, subresource: str = "", **more: Any) -> None:
        self.patches.append((key, body))


class World:
    """The manager with one MultiKueueConfig, and remotes that the test fills; no connection is opened."""

    def __init__(self, *clusters: str, lead: bool = True) -> None:
        self.now, self.told, self.api = NOW, Told(), Api()
        self.caches = Caches(State(), rows([BATCH_JOB]))
        self.multikueue = MultiKueueController(
            self.caches,
            cast(Any, self.api),
            cast(Any, None),
            cast(Any, self.told),
            QueueingMetrics(CollectorRegistry()),
            ControllerSettings(),
            clock=lambda: self.now,
        )
        self.versions = 1000
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
        spec = {"controllerName": MULTIKUEUE_CONTROLLER, "parameters": parameters}
        self.observe(resources.ADMISSION_CHECKS, {"metadata": {"name": "mk"}, "spec": spec})
        self.configure(*clusters)
        self.caches.start()
        self.multikueue.connect()
        if lead:
            self.multikueue.clusters.lead()

    def observe(self, resource: Resource, raw: Raw, *, event: str = "MODIFIED") -> None:
        self.versions += 1
        metadata = {"uid": raw["metadata"]["name"], **raw["metadata"], "resourceVersion": str(self.versions)}
        assert self.caches.stores[resource].observe(event, {**raw, "metadata": metadata})

    def configure(self, *clusters: str) -> None:
        self.observe(resources.MULTIKUEUE_CONFIGS, {"metadata": {"name": "config"}, "spec": {"clusters": [*clusters]}})

    def workload(
        self, *, check: str | None, cluster: str = "", held: bool = True, nominated: Sequence[str] = (), **found: str
    ) -> None:
        """The Workload has this status; its job runs here as MultiKueue's."""
        self.observe(BATCH_JOB.resource, job(status={"active": 1}))
        status: Raw = {"conditions": conditions(QuotaReserved="True" if held else "False", **found)}
        status["admissionChecks"] = [{"name": "mk", "state": check, "message": ""}] if check else []
        if held:
            status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
        status |= {"clusterName": cluster} if cluster else {"nominatedClusterNames": [*nominated]}
        self.observe(resources.WORKLOADS, workload(status=status))

    def worker(self, name: str, *, connected: bool = True, copied: Raw | None = None, runs: bool = False) -> Remote:
        """Adds a connection to a worker."""
        clusters = self.multikueue.clusters
        remote = Remote(
            name,
            Connection(f"http://{name}"),
            self.multikueue.kinds.every,
            "multikueue",
            rows=self.caches.rows.values(),
            may_write=lambda: True,
            changed=lambda remote, key: None,
            turned=lambda remote: clusters._remote_turned(cluster, remote),
            clock=lambda: self.now,
        )
        cluster = clusters._known[name] = WorkerCluster(remote=remote)
        if connected:
            remote.lost_since = None
        if copied is not None:
            remote.stores[resources.WORKLOADS].observe("ADDED", copied)
        if runs:
            label = {"kueue.x-k8s.io/prebuilt-workload-name": KEY.name}
            found = merged(there(suspend=False, status={"active": 1}), {"metadata": {"labels": label}})
            remote.stores[BATCH_JOB.resource].observe("ADDED", found)
        return remote

    def cluster(self, name: str, source: Raw) -> None:
        """A MultiKueueCluster with this source of its kubeconfig."""
        self.observe(resources.MULTIKUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})

    def there(self, remote: Remote) -> str:
        """What is written in a worker."""
        group = self.multikueue.groups.group(KEY)
        return word(rules_there.decide(group, self.multikueue.groups.with_former(KEY, group, remote)))

    def here(self) -> Action:
        """What is written here."""
        group = self.multikueue.here.gather(KEY)
        return self.multikueue.here.decide(group) if group is not None else Wait()


def test_a_job_whose_check_is_removed_runs_on_and_is_followed() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(Admitted="True"), runs=True)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.workload(check=None, cluster="w1", Admitted="True")
    assert world.there(remote) == ""
    world.multikueue.here.queue.drop()
    remote.queue.drop()
    world.workload(check=None, Evicted="True")
    assert (len(world.multikueue.here.queue), len(remote.queue)) == (1, 1)
    assert world.there(remote) == "deactivate"
    world.multikueue.here.queue.drop()
    remote.queue.drop()
    world.workload(check=None, held=False, Evicted="True")
    assert len(remote.queue) == 1
    assert world.there(remote) == "withdraw"


def test_only_workers_that_the_config_names_are_offered_a_workload() -> None:
    world = World("w1")
    first, other = world.worker("w1"), world.worker("w9")
    world.workload(check=CheckState.PENDING, nominated=("w1", "w9"))
    assert (world.there(first), world.there(other)) == ("offer", "")
    world.configure("w9")
    first.stores[resources.WORKLOADS].observe("ADDED", copy(Admitted="True"))
    assert (world.there(first), world.there(other)) == ("withdraw", "offer")


def test_a_job_whose_config_is_deleted_runs_on_and_gives_its_quota_back_when_it_is_evicted() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(Admitted="True"), runs=True)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.observe(resources.MULTIKUEUE_CONFIGS, {"metadata": {"name": "config"}}, event="DELETED")
    assert (world.here(), world.there(remote)) == (Wait(), "")
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True", Evicted="True")
    assert (world.here(), world.there(remote)) == (Wait(), "deactivate")
    for resource in (resources.WORKLOADS, BATCH_JOB.resource):
        for raw in tuple(remote.stores[resource]):
            remote.stores[resource].observe("DELETED", raw)
    assert word(world.here()) == "copy"


def test_a_job_whose_config_is_deleted_finishes_and_is_withdrawn() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(Admitted="True", Finished=f"True/Succeeded@{EARLIER}"))
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.observe(resources.MULTIKUEUE_CONFIGS, {"metadata": {"name": "config"}}, event="DELETED")
    action = world.here()
    assert isinstance(action, Patch) and action.why == "finish"
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True", Finished="True")
    assert world.there(remote) == "withdraw"


def test_a_changed_config_is_looked_at_in_steps_for_many_workloads() -> None:
    world = World("w1")
    for number in range(3 * AT_ONCE):
        world.observe(
            resources.WORKLOADS, merged(workload(), {"metadata": {"name": f"w{number}", "uid": f"u{number}"}})
        )
    world.workload(check=CheckState.PENDING, nominated=("w1",))
    sweeps = Sweeps()
    world.caches.in_steps = sweeps.add
    world.multikueue.here.queue.drop()
    world.multikueue.respecified(None, {"spec": {"clusters": ["w1", "w2"]}})
    world.multikueue.respecified(None, {"spec": {"clusters": ["w1"]}})
    assert (len(sweeps), len(world.multikueue.here.queue)) == (1, 0)
    assert sum(1 for _ in iter(sweeps.step, False)) == 3 + 1
    assert len(world.multikueue.here.queue) == 1


def test_a_malformed_copy_in_one_worker_does_not_stop_the_choice_of_another() -> None:
    world = World("w1", "w2")
    world.worker("w1", copied=copy(Admitted="True"))
    remote = world.worker("w2", copied=merged(copy(), {"status": {"conditions": "x"}}))
    world.workload(check=CheckState.PENDING, nominated=("w1", "w2"))
    action = world.here()
    assert isinstance(action, Patch) and action.after is not None
    assert (action.why, action.after.cluster_name) == ("admit", "w1")
    wrong = "serves a malformed Workload: status.conditions: must be a list"
    assert remote.seen(KEY).hopeless == wrong


ODD_JOBS: dict[str, Raw] = {
    "labels": {"metadata": {"labels": "x"}},
    "conditions": {"status": {"conditions": "x"}},
    "status": {"status": "x"},
}


@pytest.mark.parametrize("change", ODD_JOBS.values(), ids=ODD_JOBS)
def test_a_malformed_job_in_one_worker_does_not_stop_what_is_decided_by_another(change: Raw) -> None:
    """A worker that was lost for long, and is back, serves it; the Workload has moved on."""
    world = World("w1", "w2")
    remote = world.worker("w1", copied=copy(Admitted="True"), runs=True)
    store, (made,) = remote.stores[BATCH_JOB.resource], remote.jobs(KEY)
    odd = [merged(merged(made, change), {"metadata": {"resourceVersion": version}}) for version in ("8", "9")]
    assert store.observe("MODIFIED", odd[0])
    assert store.replace(odd[1:], "9") == 0
    world.worker("w2", copied=copy(Admitted="True", Finished=f"True/Succeeded@{EARLIER}"))
    world.workload(check=CheckState.READY, cluster="w2", Admitted="True")
    action = world.here()
    assert isinstance(action, Patch) and action.why == "finish"


def test_a_job_that_its_worker_serves_malformed_is_queued_again_after_a_minute() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(Admitted="True"), runs=True)
    (good,) = remote.jobs(KEY)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    odd = merged(good, {"metadata": {"resourceVersion": "8"}, "status": {"conditions": "x"}})
    remote.stores[BATCH_JOB.resource].observe("MODIFIED", odd)
    assert world.here() == Wait(REFUSED_SECONDS)
    world.now += REFUSED_SECONDS
    action = world.here()
    assert isinstance(action, Patch) and action.why == "refused"
    assert 'Worker cluster "w1" serves a malformed Job: cannot be read: TypeError' in action.events[0].message
    remote.stores[BATCH_JOB.resource].observe("MODIFIED", merged(good, {"metadata": {"resourceVersion": "9"}}))
    assert remote.seen(KEY).job_refused == ""


def test_an_object_that_the_job_creates_in_a_worker_with_its_labels_stays() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(Admitted="True"), runs=True)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    (made,) = remote.jobs(KEY)
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": "u-there", "controller": True}
    child = merged(made, {"metadata": {"name": "j-child", "uid": "u-child", "ownerReferences": [owner]}})
    remote.stores[BATCH_JOB.resource].observe("ADDED", child)
    assert remote.jobs(KEY) == (made,)
    assert world.there(remote) == ""


def test_a_worker_without_an_object_loses_its_job_after_the_timeout() -> None:
    world = World("w1")
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    assert world.here() == Wait(LOST_SECONDS)
    world.now += LOST_SECONDS
    action = world.here()
    assert isinstance(action, Patch) and action.why == "retry"


def test_an_evicted_job_does_not_wait_for_another_worker_that_is_lost() -> None:
    world = World("w1", "w2", "w3")
    world.worker("w1")
    world.worker("w3", connected=False)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.workload(check=CheckState.PENDING, Evicted="True")
    action = world.here()
    assert isinstance(action, Patch) and action.why == "copy" and action.body["status"] == {"active": None}


@pytest.mark.parametrize("connected", [True, False])
def test_an_evicted_job_waits_for_its_worker_that_the_config_names_no_more(connected: bool) -> None:
    world = World("w1", "w2")
    world.worker("w1", connected=connected, copied=copy(Admitted="True"), runs=True)
    world.worker("w2")
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.configure("w2")
    world.workload(check=CheckState.PENDING, Evicted="True")
    assert world.here() == Wait(None if connected else LOST_SECONDS)


def test_a_lost_worker_is_reported_once_with_its_first_trouble() -> None:
    world = World("w1")
    remote, clusters = world.worker("w1"), world.multikueue.clusters
    for number in range(3):
        remote._connection(resources.WORKLOADS, Unreachable(0, "Refused", f"watch {number}"))
        assert (len(clusters.queue), len(world.multikueue.turned)) == ((1, 1) if number == 0 else (0, 0))
        clusters.queue.drop()
        world.multikueue.turned.drop()
    assert remote.trouble == "Refused: watch 0"


def test_a_worker_that_was_never_reached_is_reported() -> None:
    world = World("w1")
    world.worker("w1", connected=False)._connection(resources.WORKLOADS, Unreachable(0, "Refused", "watch"))
    assert len(world.multikueue.clusters.queue) == 1


async def test_without_the_lease_nothing_is_written_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections that ``Clusters`` makes ask the fence of the client of this cluster."""
    world = World("w1")
    clusters = world.multikueue.clusters
    clusters.client = cast(Any, Mock(may_write=lambda: False))
    monkeypatch.setattr(clusters, "_start", lambda work, name: work.close())
    cluster = clusters._known["w1"] = WorkerCluster()
    clusters._connect("w1", cluster, "", Connection("http://127.0.0.1:1"))
    remote = cluster.remote
    assert remote is not None
    remote.lost_since = None
    decided = []
    async with remote.client:
        for copied, status in (
            (None, {"check": CheckState.PENDING, "nominated": ("w1",)}),
            (copy(Admitted="True"), {"check": CheckState.READY, "cluster": "w1"}),
            (copy(Admitted="True"), {"check": CheckState.READY, "Finished": "True"}),
        ):
            if copied is not None:
                remote.stores[resources.WORKLOADS].observe("MODIFIED", copied)
            world.workload(**cast(Any, status))
            decided.append(world.there(remote))
            with pytest.raises(Fenced):
                await world.multikueue.reconcile_there(remote, KEY)
    assert decided == ["offer", "begin", "withdraw"]
    assert remote.client.fenced == 3


async def test_a_worker_that_never_answers_delays_no_other_and_no_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("w1", "w2")
    silent, other = world.worker("w1"), world.worker("w2")
    asked, answered = asyncio.Event(), asyncio.Event()

    async def never(resource: Resource, manifest: Raw) -> Raw:
        asked.set()
        return await asyncio.Future()

    async def at_once(resource: Resource, manifest: Raw) -> Raw:
        answered.set()
        return manifest

    monkeypatch.setattr(silent.writer, "create", never)
    monkeypatch.setattr(other.writer, "create", at_once)
    world.workload(check=CheckState.PENDING, nominated=("w1", "w2"))
    work = [asyncio.create_task(world.multikueue.reconcile_there(each, KEY)) for each in (silent, other)]
    await asyncio.wait_for(asyncio.gather(asked.wait(), answered.wait()), PATIENCE)
    assert set(world.multikueue.surveys("mk")) == {"w1", "w2"}  # all that webhooks ask: no call that waits
    other.stores[resources.WORKLOADS].observe("ADDED", copy(Admitted="True"))
    await asyncio.wait_for(world.multikueue.here.reconcile(KEY), PATIENCE)
    assert world.api.patches[-1][1]["status"]["clusterName"] == "w2"
    assert [each.done() for each in work] == [False, True]
    work[0].cancel()


async def test_a_worker_that_is_back_loses_what_is_left_there() -> None:
    world = World("w1")
    remote = world.worker("w1")
    world.cluster("w1", {})
    world.workload(check=CheckState.READY, cluster="w1")
    world.observe(resources.WORKLOADS, workload(), event="DELETED")
    remote.queue.drop()
    await world.multikueue.reconcile_turned("w1")
    assert len(remote.queue) == 1
    world.observe(resources.MULTIKUEUE_CLUSTERS, {"metadata": {"name": "w1"}}, event="DELETED")
    await world.multikueue.clusters.reconcile("w1")
    await world.multikueue.reconcile_turned("w1")
    assert not world.multikueue.orphans.of("w1")


async def test_a_job_whose_slice_is_deleted_here_waits_for_the_larger_one_to_take_it_over() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(owned=True, Admitted="True"), runs=True)
    worker = Answers(remote, lambda body: body)
    remote.writer = cast(Any, worker)
    world.multikueue.orphans._keys["w1"].add(KEY)
    world.observe(BATCH_JOB.resource, job(status={"active": 1}))

    def larger(**found: str) -> None:
        notes = {
            "kueue.x-k8s.io/elastic-job": "true",
            "kueue.x-k8s.io/workload-slice-replacement-for": str(KEY),
        }
        status: Raw = {"conditions": conditions(QuotaReserved="True", Admitted="True", **found), "clusterName": "w1"}
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
        status["admissionChecks"] = [{"name": "mk", "state": CheckState.READY, "message": ""}]
        made = workload(name="job-j-larger", uid="u-larger", annotations=notes, status=status)
        world.observe(resources.WORKLOADS, made)

    larger()
    assert await world.multikueue.reconcile_there(remote, KEY) == TAKE_OVER_SECONDS
    assert remote.jobs(KEY) and remote.seen(KEY).workload is not None
    larger(Evicted="True")
    assert await world.multikueue.reconcile_there(remote, KEY) is None
    assert (remote.jobs(KEY), remote.seen(KEY).workload) == ((), None)


def test_the_incremental_dispatcher_forgets_its_round_with_the_quota() -> None:
    world = World("w1")
    world.workload(check=CheckState.PENDING)
    world.multikueue.choices.rounds[KEY] = NOW
    world.workload(check=CheckState.PENDING, held=False)
    assert not world.multikueue.choices.rounds


async def test_no_quota_is_lowered_before_a_worker_is_lost_for_long() -> None:
    world = World("w1")
    world.worker("w1", connected=False)
    spec = {"clusters": ["w1"], "quotaManagement": "Automated"}
    world.observe(resources.MULTIKUEUE_CONFIGS, {"metadata": {"name": "config"}, "spec": spec})
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    checks = {"admissionChecks": [{"name": "mk"}]}
    queue = {"metadata": {"name": "cq"}, "spec": {"resourceGroups": groups, "admissionChecksStrategy": checks}}
    world.observe(resources.CLUSTER_QUEUES, queue)
    assert await world.multikueue.quotas.reconcile("cq") == LOST_SECONDS
    assert [sorted(body.keys() - {"metadata"}) for _, body in world.api.patches] == [["status"]]
    world.now += LOST_SECONDS
    assert await world.multikueue.quotas.reconcile("cq") is None
    (lowered,) = (body["spec"] for _, body in world.api.patches if "spec" in body)
    assert lowered["resourceGroups"][0]["flavors"][0]["resources"] == [{"name": "cpu", "nominalQuota": "0"}]


KUBECONFIG: Raw = {
    "current-context": "w",
    "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}],
    "clusters": [{"name": "w", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "w", "user": {"token": "t"}}],
}


def of_file(path: Path) -> Raw:
    """The source of a kubeconfig."""
    return {"kubeConfig": {"locationType": "Path", "location": str(path)}}


async def test_a_kubeconfig_that_may_not_be_used_is_read_once_and_turns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, parse = tmp_path / "config", Mock(wraps=config.parsed)
    path.write_text("users: [x]")
    monkeypatch.setattr(config, "parsed", parse)
    world = World("w1")
    world.multikueue.clusters._any_path = True
    world.cluster("w1", of_file(path))
    for _ in range(2):
        await world.multikueue.clusters.reconcile("w1")
    parse.assert_called_once()
    assert not len(world.multikueue.turned)
    assert "users[0] must be a mapping" in str(world.api.patches[0])


async def test_a_missing_kubeconfig_file_is_reported_in_the_words_of_kueue(tmp_path: Path) -> None:
    world, path = World("w1"), tmp_path / "missing"
    world.multikueue.clusters._any_path = True
    world.cluster("w1", of_file(path))
    await world.multikueue.clusters.reconcile("w1")
    (condition,) = world.api.patches[0][1]["status"]["conditions"]
    assert condition["message"] == f"load client config failed: open {path}: no such file or directory"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (lambda path: path.write_bytes(b"\xff"), "invalid start byte"),
        (lambda path: path.write_text("x" * 300_000), "more than 262144 bytes are no kubeconfig"),
    ],
    ids=["a pipe", "a directory", "no text", "too long"],
)
async def test_a_file_that_is_no_kubeconfig_is_reported_and_not_waited_for(
    tmp_path: Path, made: Callable[[Path], object], wanted: str
) -> None:
    world, path = World("w1"), tmp_path / "odd"
    made(path)
    world.multikueue.clusters._any_path = True
    world.cluster("w1", of_file(path))
    await world.multikueue.clusters.reconcile("w1")
    (condition,) = world.api.patches[0][1]["status"]["conditions"]
    assert wanted in condition["message"]


async def test_a_file_system_that_does_not_answer_stops_neither_the_loop_nor_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, path, other, read = threading.Event(), tmp_path / "w1", tmp_path / "w2", files._read
    for each in (path, other):
        each.write_text("users: [x]")

    def hangs(place: str, most: int, any_path: bool) -> str:
        return read(place, most, any_path) if place == str(other) or answers.wait(PATIENCE) else ""

    monkeypatch.setattr(files, "_read", hangs)
    monkeypatch.setattr(files, "READ_SECONDS", 0.1)
    world = World("w1", "w2")
    world.multikueue.clusters._any_path = True
    for name, place in (("w1", path), ("w2", other)):
        world.cluster(name, of_file(place))
    for _ in range(2 * files.THREADS):  # a file that is read has no second thread
        await world.multikueue.clusters.reconcile("w1")
    await world.multikueue.clusters.reconcile("w2")
    assert "no answer of its file system within 0.1 s" in str(world.api.patches[0])
    assert "users[0] must be a mapping" in str(world.api.patches[-1])
    answers.set()
    monkeypatch.setattr(files, "READ_SECONDS", PATIENCE)
    await world.multikueue.clusters.reconcile("w1")
    assert "users[0] must be a mapping" in str(world.api.patches[-1])


@pytest.mark.parametrize(
    ("cluster", "allowed", "wanted"),
    [
        ({"server": "http://127.0.0.1:1"}, Allowed(http=True), "is not https"),
        ({"server": "https://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2"}, Allowed(proxy=True), "is not allowed"),
    ],
    ids=["http", "a proxy"],
)
async def test_a_worker_without_tls_or_behind_a_proxy_is_connected_only_by_option(
    tmp_path: Path, cluster: Raw, allowed: Allowed, wanted: str
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps({**KUBECONFIG, "clusters": [{"name": "w", "cluster": cluster}]}))
    world = World("w1")
    clusters = world.multikueue.clusters
    clusters._any_path = True
    world.cluster("w1", of_file(path))
    await clusters.reconcile("w1")
    (condition,) = world.api.patches[-1][1]["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsecureKubeConfig")
    assert wanted in condition["message"] and clusters.remote("w1") is None
    clusters._allowed, clusters._known["w1"].text = allowed, None
    async with asyncio.TaskGroup() as group:
        clusters._group = group
        await clusters.reconcile("w1")
        remote = clusters.remote("w1")
        assert remote is not None and remote.client.connection.proxy == cluster.get("proxy-url")
        await clusters._drop("w1")


def test_of_a_lost_worker_only_what_it_has_is_remembered() -> None:
    world = World("w1", "w2")
    lost = world.worker("w1", connected=False, copied=copy(Admitted="True"))
    world.worker("w2", connected=False)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.observe(resources.WORKLOADS, workload(), event="DELETED")
    assert {name: keys for name, keys in world.multikueue.orphans._keys.items() if keys} == {"w1": {KEY}}
    assert lost.has(KEY) and not lost.has(Key("other", "one"))


async def test_a_secret_that_may_not_be_listed_is_reported_and_forgotten_with_the_last_cluster() -> None:
    world = World("w1")
    clusters = world.multikueue.clusters
    async with asyncio.TaskGroup() as group:
        clusters._group = group
        world.cluster("w1", {"kubeConfig": {"locationType": "Secret", "location": "s"}})
        await clusters.reconcile("w1")
        assert not world.api.patches
        clusters._secret_read("s", Forbidden(403, "Forbidden", "secrets is forbidden"))
        await clusters.reconcile("w1")
        (condition,) = world.api.patches[0][1]["status"]["conditions"]
        assert (condition["reason"], condition["status"]) == ("BadKubeConfig", "False")
        assert "secrets is forbidden" in condition["message"]
        world.observe(resources.MULTIKUEUE_CLUSTERS, {"metadata": {"name": "w1"}}, event="DELETED")
        await clusters.reconcile("w1")
        assert not clusters._secrets


async def test_a_cluster_of_the_inventory_is_reached_by_the_command_of_its_provider() -> None:
    world = World("w1")
    clusters = world.multikueue.clusters

    async def reported() -> tuple[str, str]:
        await clusters.reconcile("w1")
        (condition,) = world.api.patches[-1][1]["status"]["conditions"]
        return condition["reason"], condition["message"].removeprefix("load client config failed: ")

    world.cluster("w1", {"clusterProfileRef": {"name": "spoke"}})
    wanted = "MultiKueueClusterProfileFeatureDisabled", "MultiKueueClusterProfile feature gate is disabled"
    assert await reported() == wanted
    profiles = Store[Raw]("clusterprofiles", verbatim)
    synced = Mock(is_set=lambda: True)
    clusters._profiles, clusters._providers = cast(Any, Mock(store=profiles, synced=synced)), ()
    assert await reported() == ("BadClusterProfile", 'ClusterProfile.multicluster.x-k8s.io "spoke" not found')
    metadata = {"name": "spoke", "namespace": clusters.namespace, "uid": "u", "resourceVersion": "1"}
    status = {"accessProviders": [{"name": "cloud", "cluster": {"server": "https://spoke"}}]}
    profiles.observe("ADDED", {"metadata": metadata, "status": status})
    assert await reported() == ("BadClusterProfile", "no access provider configured")
    clusters._providers = (Provider("cloud", {"command": "login"}),)
    async with asyncio.TaskGroup() as group:
        clusters._group = group
        await clusters.reconcile("w1")
        remote = clusters.remote("w1")
        assert remote is not None and remote.client.connection.server == "https://spoke"
        assert isinstance(remote.client.connection.credentials, config.PluginCredentials)
        await clusters._drop("w1")


async def test_a_cancelled_reconcile_connects_nothing_more() -> None:
    """It waits for the end of the connection before, which is cancelled in the same moment."""
    world, ending = World(), asyncio.Event()

    async def connection() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await ending.wait()

    before = asyncio.create_task(connection())
    world.multikueue.clusters._known["gone"] = WorkerCluster(task=before)
    await asyncio.sleep(0)
    reconcile = asyncio.create_task(world.multikueue.clusters.reconcile("gone"))
    await asyncio.sleep(0)
    reconcile.cancel()
    ending.set()
    await asyncio.wait({before, reconcile})
    assert (before.cancelled(), reconcile.cancelled()) == (True, True)


async def test_an_error_in_what_reads_a_worker_ends_its_connection_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(KUBECONFIG))
    world = World("w1", "w2")
    clusters = world.multikueue.clusters
    clusters._any_path = True
    world.cluster("w1", of_file(path))

    async def fails(self: Remote, reconcile: object) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0, int("odd" if self.name == "w1" else "0")))

    with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
        patch.setattr(Remote, "run", fails)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            clusters._group = group
            assert await clusters.reconcile("w1") is None
        assert [each["event"] for each in logs][-1] == "worker cluster failed"
        assert clusters.remote("w1") is None and clusters.lost_since("w1") == NOW
        assert await clusters.reconcile("w1") == FAILED_SECONDS
        assert clusters.remote("w1") is None
        (condition,) = world.api.patches[-1][1]["status"]["conditions"]
        assert condition["message"].startswith("its answers cannot be read: ValueError(")
        world.now += FAILED_SECONDS
        async with asyncio.TaskGroup() as group:
            clusters._group = group
            await clusters.reconcile("w1")
            assert clusters.remote("w1") is not None


async def test_what_begins_while_the_controller_ends_is_closed() -> None:
    world, ran = World(), asyncio.sleep(0)
    world.multikueue.clusters._group = Mock(create_task=Mock(side_effect=RuntimeError("shutting down")))
    with pytest.raises(RuntimeError):
        world.multikueue.clusters._start(ran, "worker1")
    assert inspect.getcoroutinestate(ran) == inspect.CORO_CLOSED


async def test_a_replica_that_does_not_lead_follows_the_queues_of_workers_alone(tmp_path: Path) -> None:
    """Its webhooks use them; when it leads, a worker is lost from then on at the earliest."""
    path = tmp_path / "config"
    path.write_text("users: [x]")
    world = World("w1", lead=False)
    clusters = world.multikueue.clusters
    clusters._any_path = True
    world.cluster("w1", of_file(path))
    await clusters.reconcile("w1")
    assert not world.api.patches
    remote = world.worker("w1", connected=False)
    world.now += 2 * LOST_SECONDS
    clusters.lead()
    assert remote.lost_since == world.now
    await clusters.reconcile("w1")
    assert "InsecureKubeConfig" in str(world.api.patches)


def test_the_queues_of_the_workers_of_a_check_are_known_once_they_are_read() -> None:
    world = World("w1", "w2")
    remote = world.worker("w1")
    found = world.multikueue.surveys("mk")
    assert list(found) == ["w1", "w2"] and found["w2"] is None
    lookup = found["w1"]
    assert lookup is not None and not lookup.synced
    remote.survey.caches.start()
    assert lookup.synced
    assert world.multikueue.surveys("other") == {}


def test_a_workload_that_no_worker_could_take_by_its_queues_is_reported_before_any_answer() -> None:
    world = World("w1")
    remote = world.worker("w1")
    remote.survey.caches.start()
    world.workload(check=CheckState.PENDING, nominated=["w1"])
    action = world.here()
    assert isinstance(action, Patch) and action.why == "hopeless"
    assert action.events[0].message == 'No worker cluster can run it: w1: no namespace "ns"'


class Answers:
    """The API server of a worker: stores what it is given, or refuses it."""

    def __init__(self, remote: Remote, answer: Callable[[Raw], Raw]) -> None:
        self.remote, self.answer, self.created, self.churn = remote, answer, 0, Churn()

    async def create(self, resource: Resource, body: Raw) -> Raw:
        self.created += 1
        self.churn.created(resource, key_of(body))
        metadata = {**body["metadata"], "uid": f"u{self.created}", "resourceVersion": str(self.created)}
        raw = {**self.answer(body), "metadata": metadata}
        self.remote.stores[resource].put_from_write(raw)
        return raw

    async def delete(self, resource: Resource, key: Key, uid: str) -> None:
        self.remote.stores[resource].remove_from_write(key, uid)


async def test_a_copy_that_a_worker_deletes_each_time_is_offered_less_often_and_reported_on_the_workload() -> None:
    world = World("w1")
    remote = world.worker("w1")
    remote.writer = cast(Any, Answers(remote, lambda body: body))
    world.workload(check=CheckState.PENDING, nominated=["w1"])
    copies, waits = remote.stores[resources.WORKLOADS], []
    for _ in range(FREE + 2):
        waits.append(await world.multikueue.reconcile_there(remote, KEY))
        for raw in tuple(copies):
            copies.remove_from_write(KEY, raw["metadata"]["uid"])
    assert [wait is None for wait in waits] == [True] * FREE + [False] * 2
    assert [each.reason for each in world.told.events].count("WorkloadCreatedAgain") == 1


async def test_a_worker_that_changes_the_copy_is_reported_and_not_asked_again_immediately() -> None:
    world = World("w1")
    remote = world.worker("w1")
    worker = Answers(remote, lambda body: merged(body, {"spec": {"podSets": [{"name": "other", "count": 1}]}}))
    remote.writer = cast(Any, worker)
    world.workload(check=CheckState.PENDING, nominated=["w1"])
    assert await world.multikueue.reconcile_there(remote, KEY) is None
    assert remote.seen(KEY).hopeless == "worker changed spec.podSets"
    assert await world.multikueue.reconcile_there(remote, KEY) is None
    assert remote.seen(KEY).workload is None
    assert await world.multikueue.reconcile_there(remote, KEY) == CHANGED_SECONDS
    assert worker.created == 1
    worker.answer, world.now = lambda body: body, world.now + CHANGED_SECONDS
    await world.multikueue.reconcile_there(remote, KEY)
    assert (worker.created, remote.seen(KEY).hopeless) == (2, "")


def refusing(error: ApiError) -> Callable[[Raw], Raw]:
    """Raises this error for each object."""

    def refuse(body: Raw) -> Raw:
        raise error

    return refuse


async def test_a_taken_name_in_a_worker_is_reported() -> None:
    world = World("w1")
    remote = world.worker("w1")
    remote.writer = cast(Any, Answers(remote, refusing(AlreadyExists(409, "AlreadyExists", "it exists"))))
    world.workload(check=CheckState.PENDING, nominated=["w1"])
    with pytest.raises(AlreadyExists):
        await world.multikueue.reconcile_there(remote, KEY)
    assert remote.seen(KEY).hopeless == "exists without our origin label"


async def test_a_refusal_with_another_message_each_time_is_reported_once() -> None:
    """Another kind of refusal is reported at once, and another message after some time."""
    world = World("w1")
    remote = world.worker("w1")
    world.workload(check=CheckState.PENDING, nominated=["w1"])
    ids = count()

    async def reported(status: int) -> str:
        error = from_status({"code": status, "message": f"id {next(ids)}"})
        remote.writer = cast(Any, Answers(remote, refusing(error)))
        with pytest.raises(type(error)):
            await world.multikueue.reconcile_there(remote, KEY)
        return remote.seen(KEY).hopeless

    assert [await reported(status) for status in (403, 403, 422, 403)] == ["id 0", "id 0", "id 2", "id 2"]
    world.now += REPORT_SECONDS
    assert await reported(403) == "id 4"


async def test_a_job_that_its_worker_does_not_take_is_queued_again_after_a_minute() -> None:
    world = World("w1")
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    raw = world.caches.workloads.get(KEY)
    assert raw is not None
    remote = world.worker("w1", copied=merged(copy(Admitted="True"), {"spec": raw["spec"]}))
    remote.writer = cast(Any, Answers(remote, refusing(Forbidden(403, "Forbidden", "no jobs here"))))
    for _ in range(2):
        with pytest.raises(Forbidden):
            await world.multikueue.reconcile_there(remote, KEY)
        world.now += REFUSED_SECONDS / 2
        if world.now < NOW + REFUSED_SECONDS:
            assert world.here() == Wait(REFUSED_SECONDS / 2)
    action = world.here()
    assert isinstance(action, Patch) and action.why == "refused"
    assert action.events[0].message == 'Worker cluster "w1" does not take the job: no jobs here, Previously: "Ready"'


def test_queues_that_may_not_be_read_do_not_make_a_worker_lost() -> None:
    """The quotas are summed over the queues of the survey, which tells of their changes."""
    world, told = World("w1"), Mock()
    remote = Remote(
        "w1",
        Connection("http://w1"),
        world.multikueue.kinds.every,
        "multikueue",
        rows=world.caches.rows.values(),
        may_write=lambda: True,
        changed=Mock(),
        turned=Mock(),
        requoted=told,
    )
    assert set(remote.stores) == {resources.WORKLOADS, BATCH_JOB.resource}
    queue: Raw = {"metadata": {"name": "cq", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    remote.survey.caches.cluster_queues.observe("ADDED", queue)
    told.assert_called_once_with()
    world.multikueue.clusters._known["w1"] = WorkerCluster(remote=remote)
    remote.lost_since = None
    quotas = world.multikueue.quotas
    of_check: Raw = {"spec": {"clusters": ["w1"]}}
    assert quotas._queues("w1") is None and quotas._awaited(of_check) > 0
    for store in (remote.survey.caches.cluster_queues, remote.survey.caches.local_queues):
        store.synced = True
    found = quotas._queues("w1")
    assert quotas._awaited(of_check) == 0
    assert found is not None and [each["metadata"]["name"] for each in found.cluster_queues] == ["cq"]


def test_variants_that_a_worker_makes_of_a_copy_are_not_those_of_a_workload_that_is_gone() -> None:
    """A worker with concurrent admission copies the labels of a Workload to its variants, as Kueue does."""
    remote = World("w1").worker("w1", copied=copy())
    above = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": KEY.name, "uid": "u"}
    variant = merged(
        copy(), {"metadata": {"name": "v", "uid": "v", "ownerReferences": [{**above, "controller": True}]}}
    )
    remote.stores[resources.WORKLOADS].observe("ADDED", variant)
    assert set(remote.keys()) == {KEY}


async def test_why_workers_could_never_admit_a_workload_is_computed_for_this_cluster_alone() -> None:
    """Each worker would compute it for all workers."""
    world = World("w1", "w2")
    world.workload(check=CheckState.PENDING, nominated=["w1", "w2"])
    remotes = [world.worker("w1", copied=copy()), world.worker("w2", copied=copy())]
    world.multikueue.groups.with_never = Mock(side_effect=lambda group: group)  # type: ignore[method-assign]
    for remote in remotes:
        await world.multikueue.reconcile_there(remote, KEY)
    world.multikueue.groups.with_never.assert_not_called()
    await world.multikueue.here.reconcile(KEY)
    world.multikueue.groups.with_never.assert_called()


async def test_the_choice_of_a_worker_and_the_admission_are_one_write_with_two_events() -> None:
    world = World("w1")
    world.worker("w1", copied=copy(Admitted="True"))
    world.workload(check=CheckState.PENDING, nominated=["w1"], Admitted="False")
    world.now += 3
    await world.multikueue.here.reconcile(KEY)
    ((_, patch),) = world.api.patches
    true = {each["type"] for each in patch["status"]["conditions"] if each["status"] == "True"}
    assert (patch["status"]["clusterName"], true) == ("w1", {"QuotaReserved", "Admitted"})
    assert [(each.reason, each.message) for each in world.told.events] == [
        ("MultiKueue", 'The workload was admitted on "w1"'),
        ("Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 3s"),
    ]


async def test_the_groups_of_an_object_are_read_once_and_then_followed() -> None:
    """An object may have thousands: each of their changes must not look at all of them."""
    world = World("w1", "w2")
    notes = {
        "kueue.x-k8s.io/job-owner-gvk": "leaderworkerset.x-k8s.io/v1, Kind=LeaderWorkerSet",
        "kueue.x-k8s.io/job-owner-name": "l",
    }

    def enter(name: str, cluster: str = "", **found: str) -> None:
        status: Raw = {"conditions": conditions(QuotaReserved="True", **found)}
        status |= {"clusterName": cluster} if cluster else {}
        status["admissionChecks"] = [{"name": "mk", "state": CheckState.PENDING, "message": ""}]
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
        marks: Raw = {"labels": {"kueue.x-k8s.io/job-uid": "u-l"}, "annotations": notes, "ownerReferences": []}
        world.observe(resources.WORKLOADS, workload(status=status, name=name, uid=name, **marks))

    def seen(name: str) -> tuple[str, bool]:
        found = world.multikueue.groups.group(Key("ns", name))
        return found.place, found.awaits_another

    read = world.multikueue.siblings.groups = Mock(wraps=world.multikueue.siblings.groups)  # type: ignore[method-assign]
    for name in "abc":
        enter(name)
    read.reset_mock()
    assert [seen(name) for name in "abc"] == [("", False), ("", True), ("", True)]
    enter("a", "w2")
    assert [seen(name) for name in "bc"] == [("w2", False)] * 2
    enter("a", "w2", Evicted="True")
    assert [seen(name) for name in "bc"] == [("", False), ("", True)]
    enter("b", "w1")
    assert seen("c") == ("w1", False)
    world.observe(resources.WORKLOADS, workload(name="b", uid="b", labels={}, annotations={}))
    assert seen("c") == ("", False)
    assert read.call_count < 5, "once, and once for each that was the first to go to a worker"
