"""What the controller of MultiKueue keeps between events, and how it treats workers that come and go."""

from __future__ import annotations

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from api.names import MULTIKUEUE_CONTROLLER, CheckState
from api.objects import Key, Raw, Resource, key_of
from controller import resources
from controller.caches import Caches
from controller.events import Event
from controller.kube.config import Connection
from controller.metrics import QueueingMetrics
from controller.multikueue.clusters import Cluster
from controller.multikueue.remote import Remote
from controller.multikueue.workloads import MultiKueue
from controller.settings import Settings
from controller.watched import rows
from core.jobs.kinds import BATCH_JOB
from core.multikueue import here as rules_here
from core.multikueue import there as rules_there
from core.state.state import State
from core.wire.merge import merged
from tests.core.multikueue.groups import NOW, conditions, copy, job, there, workload

KEY = key_of(workload())
LOST_SECONDS = Settings().multikueue.policy.worker_lost_timeout


class Told:
    """The recorder of events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.events.append(event)


class Api:
    """The manager's API server: patches enter the stores."""

    def __init__(self) -> None:
        self.patches: list[tuple[Key, Raw]] = []

    async def patch(self, resource: Resource, key: Key, body: Raw, *, subresource: str = "") -> None:
        self.patches.append((key, body))


class World:
    """The manager with one MultiKueueConfig, and remotes that the test fills; no connection is opened."""

    def __init__(self, *clusters: str) -> None:
        self.now, self.told, self.api = NOW, Told(), Api()
        self.caches = Caches(State(), rows([BATCH_JOB]))
        self.multikueue = MultiKueue(
            self.caches,
            cast(Any, self.api),
            cast(Any, None),
            cast(Any, self.told),
            QueueingMetrics(CollectorRegistry()),
            Settings(),
            clock=lambda: self.now,
        )
        self.versions = 1000
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
        spec = {"controllerName": MULTIKUEUE_CONTROLLER, "parameters": parameters}
        self.observe(resources.ADMISSION_CHECKS, {"metadata": {"name": "mk"}, "spec": spec})
        self.configure(*clusters)
        self.caches.start()
        self.multikueue.connect()

    def observe(self, resource: Resource, raw: Raw, *, event: str = "MODIFIED") -> None:
        self.versions += 1
        metadata = {"uid": raw["metadata"]["name"], **raw["metadata"], "resourceVersion": str(self.versions)}
        assert self.caches.stores[resource].observe(event, {**raw, "metadata": metadata})

    def configure(self, *clusters: str) -> None:
        self.observe(resources.MULTIKUEUE_CONFIGS, {"metadata": {"name": "config"}, "spec": {"clusters": [*clusters]}})

    def workload(self, *, check: str | None, cluster: str = "", held: bool = True, **found: str) -> None:
        """The Workload has this status; its job runs here as MultiKueue's."""
        self.observe(BATCH_JOB.resource, job(status={"active": 1}))
        status: Raw = {"conditions": conditions(QuotaReserved="True" if held else "False", **found)}
        status["admissionChecks"] = [{"name": "mk", "state": check, "message": ""}] if check else []
        if held:
            status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
        status |= {"clusterName": cluster} if cluster else {}
        self.observe(resources.WORKLOADS, workload(status=status))

    def worker(self, name: str, *, connected: bool = True, copied: Raw | None = None, runs: bool = False) -> Remote:
        """Adds a connection to a worker."""
        clusters = self.multikueue.clusters
        remote = Remote(
            name,
            Connection(f"http://{name}"),
            self.multikueue.kinds,
            "multikueue",
            may_write=lambda: True,
            heard=lambda remote, key: None,
            turned=lambda remote: clusters._remote_turned(cluster, remote),
            clock=lambda: self.now,
        )
        cluster = clusters._known[name] = Cluster(remote=remote)
        if connected:
            remote.lost_since = None
        if copied is not None:
            remote.stores[resources.WORKLOADS].observe("ADDED", copied)
        if runs:
            label = {"kueue.x-k8s.io/prebuilt-workload-name": KEY.name}
            found = merged(there(suspend=False, status={"active": 1}), {"metadata": {"labels": label}})
            remote.stores[BATCH_JOB.resource].observe("ADDED", found)
        return remote

    def there(self, remote: Remote) -> str:
        """What is written in a worker."""
        group = self.multikueue.group(KEY)
        assert group is not None
        return type(rules_there.decide(group, remote.seen(KEY))).__name__

    def here(self) -> rules_here.Action:
        """What is written here."""
        group = self.multikueue.group(KEY)
        assert group is not None
        return rules_here.decide(group)


def test_a_job_whose_check_is_removed_runs_on_and_is_followed() -> None:
    world = World("w1")
    remote = world.worker("w1", copied=copy(Admitted="True"), runs=True)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.workload(check=None, cluster="w1", Admitted="True")
    assert world.there(remote) == "NoneType"
    world.multikueue.queue.drop()
    remote.queue.drop()
    world.workload(check=None, Evicted="True")
    assert (len(world.multikueue.queue), len(remote.queue)) == (1, 1)
    assert world.there(remote) == "Change"
    world.multikueue.queue.drop()
    remote.queue.drop()
    world.workload(check=None, held=False, Evicted="True")
    assert len(remote.queue) == 1
    assert world.there(remote) == "Withdraw"


def test_a_worker_without_an_object_loses_its_job_after_the_timeout() -> None:
    world = World("w1")
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    assert world.here() == rules_here.Wait(LOST_SECONDS)
    world.now += LOST_SECONDS
    action = world.here()
    assert isinstance(action, rules_here.Update) and action.why == "retry"


def test_an_evicted_job_does_not_wait_for_another_worker_that_is_lost() -> None:
    world = World("w1", "w2", "w3")
    world.worker("w1")
    world.worker("w3", connected=False)
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.workload(check=CheckState.PENDING, Evicted="True")
    action = world.here()
    assert isinstance(action, rules_here.CopyStatus) and action.patch["status"] == {"active": None}


@pytest.mark.parametrize("connected", [True, False])
def test_an_evicted_job_waits_for_its_worker_that_the_config_names_no_more(connected: bool) -> None:
    world = World("w1", "w2")
    world.worker("w1", connected=connected, copied=copy(Admitted="True"), runs=True)
    world.worker("w2")
    world.workload(check=CheckState.READY, cluster="w1", Admitted="True")
    world.configure("w2")
    world.workload(check=CheckState.PENDING, Evicted="True")
    assert world.here() == rules_here.Wait(None if connected else LOST_SECONDS)
