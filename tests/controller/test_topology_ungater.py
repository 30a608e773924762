"""Each pod of an admitted workload gets one domain by one write, whatever happens to writes and watches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from api import resources
from api.names import Annotation, Label, SchedulingGate
from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import ApiError, Conflict, Invalid, Unreachable
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.topology_ungater import AT_ONCE, MOST_REFUSED, TopologyUngater
from controller.run.watched import rows
from core.jobs.kinds import BATCH_JOB
from core.model import Admission, Key, PodSetAssignment, Raw, TopologyAssignment, TopologyDomain
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.state import State
from core.workload import transitions, ungating
from tests.controller.test_provisioning import Api as AnyApi
from tests.core.jobs import samples

HOSTNAME, INDEX = "kubernetes.io/hostname", "batch.kubernetes.io/job-completion-index"
OURS, OTHER, ELASTIC = (
    {"name": name} for name in (SchedulingGate.TOPOLOGY, "example.com/x", SchedulingGate.ELASTIC_JOB)
)
NOW = 560.0


def topology(*counts: int) -> TopologyAssignment:
    """Nodes n0, n1, ... with so many pods each."""
    domains = (TopologyDomain((f"n{place}",), count) for place, count in enumerate(counts))
    return TopologyAssignment((HOSTNAME,), tuple(domains))


def workload(*counts: int, request: Raw | None = None, **metadata: Any) -> Raw:
    """The Workload of the Job, admitted on these nodes at 500."""
    raw = samples.workload_of(samples.job())
    raw["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    raw["spec"]["podSets"][0] |= {"count": sum(counts), "topologyRequest": request or {"required": "rack"}}
    given = PodSetAssignment("main", {"cpu": "spot"}, {"cpu": 1000}, sum(counts), topology(*counts))
    return samples.after(raw, lambda value: transitions.reserved(value, Admission("cq", (given,)), 500.0))


WORKLOAD = workload(2, 1)["metadata"]["name"]
KEY = Key("ns", WORKLOAD)
RANKED = {"required": "rack", "podIndexLabel": INDEX}


def pod(name: str, index: int | None = None, *, gates: tuple[Raw, ...] = (OURS,), slices: str = "") -> Raw:
    """A pod of the Job as its controller creates it after the start."""
    labels = {Label.POD_SET: "main", **({} if index is None else {INDEX: str(index)})}
    marks = {Annotation.WORKLOAD: WORKLOAD, Annotation.REQUIRED_TOPOLOGY: "rack"}
    marks |= {Annotation.WORKLOAD_SLICE_NAME: slices} if slices else {}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": labels, "annotations": marks},
        "spec": {"nodeSelector": {"pool": "a"}, "schedulingGates": list(gates)},
        "status": {"phase": "Pending"},
    }


class Api(AnyApi):
    """An API server that can be asked for one pod."""

    async def pages(
        self, resource: Resource, namespace: str, *, field_selector: str, **_: Any
    ) -> AsyncGenerator[Raw, None]:
        key = Key(namespace, field_selector.removeprefix("metadata.name="))
        yield {"metadata": {}, "items": [self.objects[resource, key]] if (resource, key) in self.objects else []}

    def pod(self, name: str) -> Raw:
        return self.objects[resources.PODS, Key("ns", name)]

    @property
    def nodes(self) -> dict[str, str]:
        """The node of each pod without the gate."""
        pods = (raw for (resource, _), raw in self.objects.items() if resource == resources.PODS)
        return {
            raw["metadata"]["name"]: raw["spec"]["nodeSelector"].get(HOSTNAME, "")
            for raw in pods
            if OURS not in (raw["spec"].get("schedulingGates") or ())
        }


class Process:
    """A process that leads. ``see`` is the watch of pods, which may be late; ``after`` whether another one led when the
    pods were created.
    """

    def __init__(self, api: Api, *workloads: Raw, after: bool = False) -> None:
        self.api = api
        self.registry = CollectorRegistry()
        self.caches = Caches(State(SchedulingPolicy(topology=TopologyPolicy())), rows([BATCH_JOB]))
        for raw in workloads:
            self.change(raw)
        self.caches.start()
        client: Any = api
        self.ungater = TopologyUngater(
            self.caches, Writer(client, self.caches.stores), client, QueueingMetrics(self.registry), clock=lambda: NOW
        )
        if after:
            self.see()
        for _ in self.ungater.everything():
            pass
        self.see()

    def change(self, raw: Raw) -> None:
        entered = self.api.enter(resources.WORKLOADS, raw)
        self.caches.workloads.observe("MODIFIED", entered)

    def see(self) -> None:
        """The watch reports all pods as they are now."""
        pods = [raw for (resource, _), raw in self.api.objects.items() if resource == resources.PODS]
        self.ungater.pods.replace(pods, str(self.api.versions))

    async def rest(self) -> None:
        """Reconciles until nothing is written any more; what fails is tried again."""
        for _ in range(5):
            try:
                await self.ungater.reconcile(KEY)
            except ApiError:
                continue


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    assert all(each == "patch pods" for each in made.writes)


def enter(api: Api, *pods: Raw) -> None:
    for each in pods:
        api.enter(resources.PODS, each)


async def test_each_pod_gets_the_domain_of_its_rank_by_one_write(api: Api) -> None:
    enter(api, pod("c", 0, gates=(OTHER, OURS)), pod("b", 1), pod("a", 2))
    process = Process(api, workload(2, 1, request=RANKED))
    assert KEY in process.ungater.queue
    await process.rest()
    assert api.nodes == {"c": "n0", "b": "n0", "a": "n1"}
    assert len(api.writes) == 3
    assert api.pod("c")["spec"] == {"nodeSelector": {"pool": "a", HOSTNAME: "n0"}, "schedulingGates": [OTHER]}
    name = "kueue_pod_scheduling_gate_removal_seconds"
    labels = {
        "name": "kueue.x-k8s.io/topology",
        "cluster_queue": "cq",
        "is_group": "false",
        "replica_role": "standalone",
    }
    assert process.registry.get_sample_value(f"{name}_count", labels) == 3
    assert process.registry.get_sample_value(f"{name}_sum", labels) == 3 * (NOW - 500.0)


async def test_a_late_watch_leads_to_no_second_domain(api: Api) -> None:
    enter(api, pod("b"))
    process = Process(api, workload(1, 1))
    await process.rest()
    enter(api, pod("a"))
    process.ungater.pods.observe("ADDED", api.pod("a"))
    await process.rest()
    assert api.nodes == {"b": "n0", "a": "n1"}
    assert len(api.writes) == 2


@pytest.mark.parametrize("applied", [True, False], ids=["the write was made", "it was not"])
async def test_a_pod_whose_write_has_no_answer_is_read_before_others_get_a_domain(api: Api, applied: bool) -> None:
    enter(api, pod("b"))
    process = Process(api, workload(1, 1))
    api.fails = (Unreachable(0, "Reset", "cut"), applied)
    with pytest.raises(Unreachable):
        await process.ungater.reconcile(KEY)
    enter(api, pod("a"))  # by its name before the other one: the domain of that is its own, if it was not written
    process.ungater.pods.observe("ADDED", api.pod("a"))
    await process.rest()
    assert sorted(api.nodes.values()) == ["n0", "n1"]
    assert len(api.writes) == 2


async def test_a_pod_that_was_deleted_while_its_write_had_no_answer_leaves_its_domain(api: Api) -> None:
    enter(api, pod("b"))
    process = Process(api, workload(1))
    api.fails = (Unreachable(0, "Reset", "cut"), True)
    with pytest.raises(Unreachable):
        await process.ungater.reconcile(KEY)
    del api.objects[resources.PODS, Key("ns", "b")]
    enter(api, pod("a"))
    process.ungater.pods.observe("ADDED", api.pod("a"))
    await process.rest()
    assert api.nodes == {"a": "n0"}


async def test_a_pod_that_changed_meanwhile_is_decided_again(api: Api) -> None:
    enter(api, pod("a"))
    process = Process(api, workload(1))
    enter(api, pod("a", gates=(OURS, OTHER)))
    with pytest.raises(Conflict):
        await process.ungater.reconcile(KEY)
    await process.rest()
    assert api.pod("a")["spec"]["schedulingGates"] == [OTHER]
    assert api.nodes == {"a": "n0"}


async def test_a_pod_that_the_api_server_refuses_stops_no_other(api: Api) -> None:
    enter(api, pod("a"), pod("b"))
    process = Process(api, workload(1, 1))
    api.fails = (Invalid(422, "Invalid", "spec: Forbidden"), False)
    with pytest.raises(Invalid):
        await process.ungater.reconcile(KEY)
    assert api.nodes == {"b": "n1"}
    await process.rest()
    assert api.nodes == {"a": "n0", "b": "n1"}


class Refuses(Api):
    """Refuses the patches of pods whose names begin with a."""

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **options: Any) -> Raw:
        if name.startswith("a"):
            raise Invalid(422, "Invalid", "spec.nodeSelector: Invalid value")
        return await super().patch(resource, name, namespace, body, **options)


async def test_pods_that_are_always_refused_stop_none_of_many_others() -> None:
    refuses = Refuses()
    enter(refuses, *(pod(f"a{number:02}") for number in range(AT_ONCE)), pod("b"))
    process = Process(refuses, workload(AT_ONCE, 1))
    await process.rest()
    assert refuses.nodes == {"b": "n1"}


async def test_not_all_of_many_pods_are_tried_if_they_are_refused(api: Api) -> None:
    class Refuses(Api):
        tried = 0

        async def patch(self, *_: Any, **options: Any) -> Raw:
            self.tried += 1
            raise Invalid(422, "Invalid", "spec: Forbidden")

    refuses = Refuses()
    enter(refuses, *(pod(f"a{number:03}") for number in range(3 * MOST_REFUSED)))
    process = Process(refuses, workload(3 * MOST_REFUSED))
    with pytest.raises(Invalid):
        await process.ungater.reconcile(KEY)
    assert refuses.tried == MOST_REFUSED


async def test_a_pod_whose_own_selector_excludes_its_domain_is_left_alone(api: Api) -> None:
    elsewhere = pod("a")
    elsewhere["spec"]["nodeSelector"] = {HOSTNAME: "n7"}
    enter(api, elsewhere, pod("b"))
    process = Process(api, workload(1, 1))
    await process.rest()
    assert api.nodes == {"b": "n1"}
    assert len(api.writes) == 1


async def test_pods_wait_while_their_workload_may_not_run(api: Api) -> None:
    enter(api, pod("a"))
    given = workload(1)
    process = Process(api, samples.evicted(given))
    await process.rest()
    process.change(samples.workload_of(samples.job()) | {"status": {}})
    await process.rest()
    assert api.writes == []
    assert KEY not in process.ungater.queue
    process.change(given)
    assert KEY in process.ungater.queue
    await process.rest()
    assert api.nodes == {"a": "n0"}


async def test_the_pods_of_an_elastic_job_get_a_domain_after_they_have_quota(api: Api) -> None:
    enter(api, pod("a", gates=(OURS, ELASTIC), slices="all"), pod("b", slices="all"))
    marks = {Annotation.WORKLOAD_SLICE_NAME: "all", Annotation.ELASTIC_JOB: "true"}
    process = Process(api, workload(1, 1, annotations=marks))
    await process.ungater.reconcile(Key("ns", "all"))
    assert api.nodes == {"b": "n0"}
    enter(api, pod("a", slices="all"))
    process.see()
    await process.ungater.reconcile(Key("ns", "all"))
    assert api.nodes == {"b": "n0", "a": "n1"}


async def test_a_new_pod_and_a_pod_that_ends_queue_the_workload_and_other_changes_do_not(api: Api) -> None:
    enter(api, pod("a"))
    process = Process(api, workload(1))
    await process.rest()
    queue = process.ungater.queue
    queue.add_after = cast(Any, lambda key, *_, **__: added.append(key))  # type: ignore[method-assign]
    added: list[Key] = []
    enter(api, api.pod("a") | {"status": {"phase": "Running"}})
    process.see()
    assert added == []
    enter(api, pod("b"))
    process.see()
    assert added == [KEY]
    process.ungater.pods.observe("DELETED", api.pod("a"))
    assert added == [KEY, KEY]


async def test_no_node_has_more_pods_than_it_is_assigned_when_every_write_fails_once(api: Api) -> None:
    names = [f"p{number}" for number in range(6)]
    enter(api, *map(pod, names))
    process = Process(api, workload(1, 2, 3))
    for number in range(12):
        api.fails = (Unreachable(0, "Reset", "cut"), bool(number % 2))
        try:
            await process.ungater.reconcile(KEY)
        except ApiError:
            continue
    api.fails = None
    await process.rest()
    assert Counter(api.nodes.values()) == {"n0": 1, "n1": 2, "n2": 3}
    assert len(api.writes) == 6


def test_the_key_of_a_pod_is_that_of_its_object() -> None:
    process = Process(Api())
    raw = pod("a")
    raw["metadata"]["resourceVersion"] = "7"
    process.ungater.pods.observe("ADDED", raw)
    assert [each.key for each in process.ungater.pods.by_index("workload", KEY)] == [key_of(raw)]


async def test_a_late_write_of_the_process_that_led_before_fills_no_domain_twice(api: Api) -> None:
    """That process knew only the pod b, and gives it the first domain after the next one has given that to a."""
    enter(api, pod("b"))
    before = Process(api, workload(1, 1))
    (decided,) = ungating.given(
        before.caches.decoded[KEY], api.objects[resources.WORKLOADS, KEY]["spec"], before.ungater.pods
    )
    enter(api, pod("a"))
    process = Process(api, workload(1, 1), after=True)
    await process.rest()
    assert api.nodes == {"a": "n0", "b": "n1"}
    with pytest.raises(Conflict):
        await before.ungater.writer.patch(resources.PODS, Key("ns", "b"), decided.body)
    assert [each for each in api.writes if each == "patch pods"] == ["patch pods"] * 4  # two fences, two domains


@pytest.mark.parametrize("when", ["before the fence", "after the fence"])
async def test_no_domain_is_filled_twice_whenever_the_late_write_arrives(api: Api, when: str) -> None:
    enter(api, pod("b"))
    before = Process(api, workload(1, 1))
    (decided,) = ungating.given(
        before.caches.decoded[KEY], api.objects[resources.WORKLOADS, KEY]["spec"], before.ungater.pods
    )
    enter(api, pod("a"))
    process = Process(api, workload(1, 1), after=True)
    late = before.ungater.writer.patch(resources.PODS, Key("ns", "b"), decided.body)
    if when == "before the fence":
        await late
    else:
        await process.ungater._fence(KEY, next(each for each in process.ungater.pods if each.pod.name == "b"))
        with pytest.raises(Conflict):
            await late
    await process.rest()
    await process.rest()
    assert sorted(api.nodes.values()) == ["n0", "n1"]


async def test_pods_that_were_created_since_this_process_leads_cost_one_write(api: Api) -> None:
    enter(api, pod("a"))
    process = Process(api, workload(1, 1), after=True)
    await process.rest()
    enter(api, pod("b"))
    process.see()
    await process.rest()
    assert len(api.writes) == 3
    assert process.ungater._unfenced == {}


async def test_a_pod_that_may_not_be_fenced_delays_no_other() -> None:
    refuses = Refuses()
    enter(refuses, pod("a"), pod("b"))
    process = Process(refuses, workload(1, 1), after=True)
    await process.rest()
    assert refuses.nodes == {"b": "n1"}


async def test_jobs_that_were_placed_before_topology_was_switched_off_get_their_domains(api: Api) -> None:
    process = Process(api)
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)

    process.ungater.run = run  # type: ignore[method-assign]
    task = asyncio.create_task(process.ungater.run_for_placed())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not runs, "without such a job nothing is followed"
    process.change(workload(2, 1))
    await task
    assert runs == [1]
    assert process.caches.observers == [process.ungater._workload]
