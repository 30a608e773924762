"""One forecast: the warning at create, the dry run, `when`, the visibility API, `explain`, the Python client and what
the scheduler then does agree, on random worlds; to the second where run times are known.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from api import visibility
from api.objects import Key, Raw, key_of
from api.visibility import Page, VisibilityRequest
from app.access import User
from app.standing import Standings
from cli import explain
from cli.cluster_state import ClusterState
from cli.learned import NOTHING
from cli.live import Seen
from cli.manifests import Document
from cli.scenario import LIVE, Scenario
from cli.simulator import play
from cli.when import When, of_server, when
from core.forecast import document
from core.forecast.basis import Basis
from core.forecast.forecast import forecast
from core.forecast.learned import FEWEST
from core.forecast.newcomers import NewcomerKind, kind_of, of_newcomers
from core.forecast.situation import situation
from core.model import PodSet, Workload
from core.model.forecast import StartForecast, span
from core.simulation.simulation import Arrival, Course, Simulation
from core.state.lookup import Lookup
from seiretsu.client.standing import job_standing
from tests.webhook.cluster import job, review
from webhook.hooks import HOOKS
from webhook.routes import Route, routes
from webhook.settings import Context, WebhookSettings

NOW = 1_000_000.0
VALIDATE = "/validate-batch-v1-job"
FLAVORS = ("fa", "fb")


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pods(cpu: int) -> Raw:
    return {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}],
        }
    }


def workload(name: str, queue: str, cpu: int, *, created: float, priority: int = 0, **status: Any) -> Raw:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"j-{name}", "controller": True}
    metadata = {"name": f"job-{name}", "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": stamp(created)}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": pods(cpu)}],
        },
        "status": status,
    }


def conditions(**since: float) -> list[Raw]:
    return [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": stamp(at)}
        for kind, at in since.items()
    ]


@dataclass
class World:
    """Objects as an API server has them, and how long the jobs of each LocalQueue run."""

    objects: list[Raw]
    run_for: dict[str, int]
    waiting: list[Raw]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = [f"q{number}" for number in range(draw(st.integers(1, 3)))]
    run_for = {name: draw(st.integers(2, 90)) for name in names}
    objects: list[Raw] = [{"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {}} for name in FLAVORS]
    for name in names:
        quotas = [
            {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": draw(st.integers(0, 5))}]}
            for flavor in FLAVORS
        ]
        preemption = {
            "withinClusterQueue": draw(st.sampled_from(["Never", "LowerPriority"])),
            "reclaimWithinCohort": draw(st.sampled_from(["Never", "Any"])),
        }
        spec = {
            "namespaceSelector": {},
            "cohortName": draw(st.sampled_from(["", "c"])),
            "queueingStrategy": draw(st.sampled_from(["StrictFIFO", "BestEffortFIFO"])),
            "preemption": preemption,
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
        }
        objects.append({"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        objects.append(
            {"kind": "LocalQueue", "metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": name}}
        )
        for number in range(FEWEST):
            began, ended = NOW - 5_000, NOW - 5_000 + run_for[name]
            done = conditions(QuotaReserved=began, Admitted=began, Finished=ended)
            objects.append(workload(f"done{name}x{number}", name, 1, created=NOW - 6_000, conditions=done))
    waiting = []
    for number in range(draw(st.integers(1, 7))):
        name, cpu = draw(st.sampled_from(names)), draw(st.integers(1, 4))
        made = workload(
            f"w{number}", name, cpu, created=NOW - 200 - number, priority=draw(st.sampled_from([0, 0, 0, 100]))
        )
        if draw(st.booleans()):
            since = NOW - draw(st.integers(0, run_for[name] - 1))
            flavor = draw(st.sampled_from(FLAVORS))
            given = {"name": "main", "count": 1, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": str(cpu)}}
            made["status"] = {
                "admission": {"clusterQueue": name, "podSetAssignments": [given]},
                "conditions": conditions(QuotaReserved=since, Admitted=since),
            }
        else:
            waiting.append(made)
        objects.append(made)
    return World(objects, run_for, waiting)


class Server:
    """What a server of these objects knows, without a cluster."""

    def __init__(self, world: World, *more: Raw) -> None:
        self.world = world
        self.cluster = ClusterState()
        for raw in (*sorted(world.objects, key=lambda raw: raw["kind"] == "Workload"), *more):
            self.cluster.add(raw)
        self.cluster.state.set_namespace("ns", {})
        self.cluster.enter_workloads()
        self.run_times = NOTHING.run_times(self.cluster.workloads)
        self.state = self.cluster.state
        self.starts: dict[Key, StartForecast] = {}
        self.newcomers: dict[NewcomerKind, StartForecast] = {}
        for arena in sorted(self.state.reservations.arenas):
            about = situation(self.state, arena, NOW)
            self.starts |= forecast(about, self.run_times).starts
            for step in of_newcomers(about, self.run_times):
                self.newcomers |= dict(step or ())

    def newcomer(self, local_queue: Key, priority: int, pod_sets: tuple[PodSet, ...]) -> StartForecast | None:
        return self.newcomers.get(kind_of(local_queue, priority, pod_sets))

    def lookup(self, *, newcomers: bool = True) -> Lookup:
        return Lookup(self.state, newcomer_forecast=self.newcomer) if newcomers else Lookup(self.state)

    def played(self) -> dict[Key, Course] | None:
        """What the scheduler does with these objects; None if workloads preempt each other again and again, which State
        then delays.
        """
        there = [each for each in self.cluster.workloads if not each.holds("Finished")]
        cluster = ClusterState()
        for raw in self.world.objects:
            if raw["kind"] != "Workload":
                cluster.add(raw)
        cluster.state.set_namespace("ns", {})
        run = Simulation(cluster.state, [Arrival(0.0, each, self._rest(each)) for each in there], start=NOW)
        at: float | None = 0.0
        now = moments = 0.0
        while (at := run.next(now)) is not None and moments < 300:
            now, moments = at, moments + 1
            run.advance(now)
            run.schedule(now)
        courses = run.timeline.courses
        return courses if max(len(course.attempts) for course in courses.values()) <= 4 and moments < 300 else None

    def _rest(self, each: Workload) -> float:
        admitted = each.condition("Admitted")
        return self.world.run_for[each.queue] - (NOW - admitted.since if admitted is not None else 0.0)


def started(course: Course) -> tuple[float, tuple[str, ...]] | None:
    """When a waiting workload starts, and in which flavors."""
    for attempt in course.attempts[:1]:
        return attempt.started, tuple(
            dict.fromkeys(flavor for given in attempt.admission.pod_sets for flavor in given.flavors.values())
        )
    return None


@settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(worlds())
def test_all_that_show_the_start_of_a_waiting_workload_agree_with_the_scheduler(world: World) -> None:
    server = Server(world)
    courses = server.played()
    if courses is None:
        return

    def expected(key: Key) -> Raw | None:
        return document.written(server.starts[key], NOW) if key in server.starts else None

    raws = server.cluster.raws
    documents = tuple(Document(raw, LIVE) for raw in world.objects)
    simulated = play(Scenario(documents, start=NOW), until=100_000.0, times=NOTHING.run_times).timeline.courses
    stands = Standings(server.lookup(), raws.get, asyncio.Lock(), expected, clock=lambda: NOW)
    for raw in world.waiting:
        key, name = key_of(raw), raw["metadata"]["ownerReferences"][0]["name"]
        found = started(courses[key])
        seconds = None if found is None else found[0]
        mine = server.starts[key]
        assert (mine.p10, mine.p50, mine.p90) == (seconds,) * 3, "the forecast of the controller"
        assert found is None or mine.flavors == found[1]
        asked = VisibilityRequest("v1beta2", visibility.WORKLOADS, key.namespace, key.name, "standing")
        answer = asyncio.run(stands.answer(asked, Page(0, 50), User("ann", groups=("system:masters",)), None))  # type: ignore[arg-type]
        served = answer["forecast"]
        assert served.get("p50Seconds") == seconds, "the visibility API"
        line, client, by_when = explain.starts(served), job_standing(answer).forecast, of_server(served, name)
        assert (started(simulated[key]) or (None,))[0] == seconds, "simulate --from-cluster"
        alone = when(Seen(world.objects, ()), name, "ns", NOW)
        assert isinstance(alone, When)
        assert alone.seconds == seconds, "when, simulated with the objects"
        if seconds is None:
            assert "not known when it starts: it does not start as things are" in line
            assert client is None and by_when is None
            continue
        assert client is not None and client.median == seconds, "the Python client"
        assert by_when is not None and by_when.seconds == seconds, "when, from the server"
        assert f"It starts in about {span(seconds)}: " in line, "explain"


async def answered(route: Route, body: bytes) -> tuple[int, bytes]:
    return await route(body)


def text(world: World, *, cpu: int, queue: str, basis: Basis | None, server: Server, dry: bool) -> str:
    """The warnings about a job that is created, or tried."""
    made = job(labels={"kueue.x-k8s.io/queue-name": queue}, suspend=True, template=pods(cpu))
    made["metadata"] |= {"name": "new", "namespace": "ns"}
    context = Context(WebhookSettings(), server.lookup(newcomers=not dry), basis=basis)
    (hook,) = (hook for hook in HOOKS if hook.path == VALIDATE)
    body = orjson.dumps(review(made, namespace="ns", name="new", dryRun=dry))
    status, answer = asyncio.run(answered(routes(context, clock=lambda: NOW)[hook.path], body))
    assert status == 200
    return "; ".join(orjson.loads(answer)["response"].get("warnings", ()))


@settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(worlds())
def test_what_is_said_of_a_new_job_and_of_one_that_is_tried_is_what_happens(world: World) -> None:
    server, like = Server(world), world.objects[-1]
    queue, priority = like["spec"]["queueName"], like["spec"]["priority"]
    if priority:
        return  # jobs of these worlds have no priority classes
    cpu = int(like["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    new = workload("new", queue, cpu, created=NOW)
    courses = Server(world, new).played()
    if courses is None:
        return
    found = started(courses[key_of(new)])
    mine = server.newcomer(Key("ns", queue), 0, server.cluster.read(new).pod_sets)
    assert mine is not None and mine.p50 == (None if found is None else found[0])
    basis = Basis(server.run_times)
    created = text(world, cpu=cpu, queue=queue, basis=basis, server=server, dry=False)
    tried = text(world, cpu=cpu, queue=queue, basis=basis, server=server, dry=True)
    if found is None:
        assert "about" not in created
        assert "never start" in tried or "not known when it would start" in tried, tried
        return
    at, flavors = found
    said = re.search(r"(?:; |, )about (\d+ \w+)", created)
    assert (said is not None) == ("will wait" in created), created
    assert said is None or said[1] == span(at), "the warning at create"
    (first,) = flavors
    when_text = f"in about {span(at)}" if at else "now"
    assert re.search(rf'would start {when_text}( by preempting [^,]*)?, in flavor "{first}"', tried), (tried, at)
