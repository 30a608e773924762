"""The series that a dashboard made for Kueue looks for: their names, what they count, and that they go with their
objects.

``kueue_metrics.json`` has name, type and labels of each of Kueue's metrics, from its reference.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from api.metrics.custom_labels import CustomLabels, PromotedLabel
from api.metrics.families import FAMILIES, ROLE, UNROLED, full_name, hidden
from api.objects import Raw
from app.metrics import ProcessMetrics as Process
from controller.metrics.counters import QueueingMetrics
from controller.metrics.gauges import Gauges
from controller.metrics.series import Series
from core.model import Key, Plan, Requeue, StayPending
from core.model.policy import AdmissionFairSharing, SchedulingPolicy, Strategy
from core.queue.admission_fair_sharing import Consumed
from core.wire.timestamps import epoch
from tests.builders import cluster_queue
from tests.controller.test_caches import filled, made, workload

KUEUE: dict[str, Raw] = {
    each["name"]: each for each in json.loads(Path(__file__).with_name("kueue_metrics.json").read_text())
}
ABSENT: dict[str, str] = {}
NOW = 1_767_225_700.0
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [
        {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}, "count": 1},
    ],
}


class Page:
    """Metrics beside caches that tests change as the API server would; ``lines`` is what a scrape has."""

    def __init__(
        self,
        *,
        policy: SchedulingPolicy | None = None,
        gates: dict[str, bool] | None = None,
        custom: tuple[PromotedLabel, ...] = (),
    ) -> None:
        self.caches = filled(policy)
        self.version = 1
        self.process = Process()
        look: Callable[[str, Key], Raw | None] = lambda kind, key: self.stores[kind].get(key)  # noqa: E731
        self.stores = {
            "ClusterQueue": self.caches.cluster_queues,
            "LocalQueue": self.caches.local_queues,
            "Cohort": self.caches.cohorts,
            "Workload": self.caches.workloads,
        }
        off = hidden(gates or {})
        self.metrics = QueueingMetrics(
            self.process.registry, cohorts=lambda name: ["all"], custom=CustomLabels(custom, look), hidden=off
        )
        self.gauges = Gauges(self.caches, self.metrics, resources=True, version="v1", hidden=off)
        self.process.sources.append(self.gauges.families)
        self.caches.start()
        Series(self.caches, self.metrics, clock=lambda: NOW).connect()

    def put(self, kind: str, name: str, change: Callable[[Raw], None] = lambda raw: None, **parts: Any) -> None:
        """Enter an object as it is after a change, or a new one with these parts."""
        namespace = "ns" if kind in ("LocalQueue", "Workload") else ""
        raw = copy.deepcopy(self.stores[kind].get(Key(namespace, name)) or made(kind, name, namespace=namespace))
        raw.update(copy.deepcopy(parts))
        change(raw)
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.stores[kind].observe("MODIFIED", raw)

    def delete(self, kind: str, name: str) -> None:
        namespace = "ns" if kind in ("LocalQueue", "Workload") else ""
        raw = copy.deepcopy(self.stores[kind].get(Key(namespace, name)))
        assert raw is not None
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.stores[kind].observe("DELETED", raw)

    def conditions(self, name: str, *, checks: Sequence[Raw] = (), **reasons: str) -> None:
        """Somebody writes these conditions as True (``False/reason`` for False) into a Workload, and these checks."""
        found = [
            {
                "type": kind,
                "status": "False" if reason.startswith("False/") else "True",
                "reason": reason.removeprefix("False/"),
                "lastTransitionTime": "2026-01-01T00:01:00Z",
            }
            for kind, reason in reasons.items()
        ]
        status: Raw = {"conditions": found, **({"admissionChecks": list(checks)} if checks else {})}
        if any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in found):
            status["admission"] = ADMISSION
        self.put("Workload", name, status=status)

    async def text(self) -> str:
        return (await self.process.page()).decode()

    async def lines(self) -> dict[str, float]:
        """The value of each of Kueue's series."""
        found = [line for line in (await self.text()).splitlines() if line.startswith("kueue_")]
        return {series: float(value) for series, _, value in (line.rpartition(" ") for line in found)}


BOTH = {"QuotaReserved": "QuotaReserved", "Admitted": "Admitted"}


def series(name: str, /, **labels: str) -> str:
    shown = ",".join(f'{label}="{value}"' for label, value in sorted({**labels, ROLE: "standalone"}.items()))
    return f"kueue_{name}{{{shown}}}"


def busy() -> Page:
    """A page on which everything that can be counted has been counted."""
    rules = AdmissionFairSharing(half_life=60.0)
    page = Page(policy=SchedulingPolicy(fair_sharing=tuple(Strategy), admission_fair_sharing=rules))
    page.put("Cohort", "all")
    page.put("ClusterQueue", "cq", lambda raw: raw["spec"].update(cohortName="all"))
    page.caches.state.local_queue_usage.set_consumed(Key("ns", "lq"), Consumed({"cpu": 2.0}, 0.0))
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted")
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted", PodsReady="Started")
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted", PodsReady="Started", Evicted="Preempted")
    page.conditions("w", QuotaReserved="False/PendingEvaluation", Admitted="False/NoReservation", Evicted="Preempted")
    page.caches.workloads.observe("ADDED", workload("held"))
    page.conditions("held", QuotaReserved="QuotaReserved")
    page.conditions("held", QuotaReserved="QuotaReserved", Admitted="Admitted")
    page.caches.workloads.observe("ADDED", workload("done"))
    page.conditions("done", QuotaReserved="QuotaReserved", Admitted="Admitted")
    page.conditions("done", QuotaReserved="QuotaReserved", Admitted="Admitted", Finished="WorkloadSliceReplaced")
    waiting = page.caches.get(Key("ns", "w"))
    assert waiting is not None
    wait = StayPending(waiting, "cq", "WaitingForQuota", "", Requeue.HEAP)
    page.metrics.cycle(Plan((wait,), {"cq": 1}, (("cq", "deferred_fit"),)), 0.01)
    page.metrics.preempted("cq", "InClusterQueue")
    page.metrics.workload_created("batch/v1/Job", 0.1, Key("ns", "lq"))
    page.metrics.gate_removed("cq", 0.1, is_group=True)
    page.metrics.dispatched_to_worker("cq", "worker1")
    page.metrics.admitted_by_worker("cq", "worker1")
    return page


async def test_every_metric_has_kueues_name_type_and_labels_and_a_text_that_explains_its_labels() -> None:
    families = list(text_string_to_metric_families(await busy().text()))
    wanted = {name: each for name, each in KUEUE.items() if name not in ABSENT}
    shown = {f"{each.name}_total" if each.type == "counter" else each.name: each for each in families}
    ours = {name: each for name, each in shown.items() if name.startswith(("kueue_", "multikueue_"))}
    assert sorted(ours) == sorted(wanted)
    assert {name: each.type for name, each in ours.items()} == {name: each["type"] for name, each in wanted.items()}
    labels = {name: {frozenset(sample.labels) - {"le"} for sample in each.samples} for name, each in ours.items()}
    assert labels == {name: {frozenset(each["labels"])} for name, each in wanted.items()}, (
        "nothing that has a sample has other labels, and everything has a sample"
    )
    texts = [each.documentation for each in ours.values()]
    assert len(set(texts)) == len(texts), "each says something of its own"
    for name, family in FAMILIES.items():
        told = {"status", "result", "reason", "underlying_cause", "active"} & set(family.labels)
        assert all(f"{label} " in family.help for label in told), f"{name} has to say what its labels can be"


def test_the_table_is_kueues_but_for_what_is_listed_with_a_reason() -> None:
    table = {
        full_name(name): (family.kind, [*family.labels, *([] if name in UNROLED else [ROLE])])
        for name, family in FAMILIES.items()
    }
    assert {name: (kind, sorted(labels)) for name, (kind, labels) in table.items()} == {
        name: (each["type"], sorted(each["labels"])) for name, each in KUEUE.items() if name not in ABSENT
    }


async def test_no_series_has_the_creation_time_of_a_counter() -> None:
    assert "_created" not in await busy().text()


async def test_a_change_of_a_workload_is_counted_once_whichever_client_writes_it() -> None:
    page = busy()
    lines = await page.lines()
    of_queue = {"cluster_queue": "cq", "priority_class": ""}
    local = {"name": "lq", "namespace": "ns", "priority_class": ""}
    counts = {
        series("quota_reserved_workloads_total", **of_queue): 3,
        series("admitted_workloads_total", **of_queue): 3,
        series("local_queue_admitted_workloads_total", **local): 3,
        series("admission_checks_wait_time_seconds_count", **of_queue): 1,
        series("cohort_subtree_admitted_workloads_total", cohort="all", priority_class=""): 3,
        series("ready_wait_time_seconds_count", **of_queue): 1,
        series("local_queue_admitted_until_ready_wait_time_seconds_count", **local): 1,
        series("evicted_workloads_total", reason="Preempted", underlying_cause="", **of_queue): 1,
        series("evicted_workloads_once_total", reason="Preempted", underlying_cause="", **of_queue): 1,
        series("local_queue_evicted_workloads_total", reason="Preempted", underlying_cause="", **local): 1,
        series(
            "pods_ready_to_evicted_time_seconds_count", cluster_queue="cq", reason="Preempted", underlying_cause=""
        ): 1,
        series("workload_eviction_latency_seconds_count", cluster_queue="cq", reason="Preempted"): 1,
        series("finished_workloads_total", **of_queue): 1,
        series("replaced_workload_slices_total", cluster_queue="cq"): 1,
        series("local_queue_finished_workloads_total", **local): 1,
        series("execution_time_seconds_count", **of_queue): 1,
        series("local_queue_execution_time_seconds_count", **local): 1,
        series("admission_cycle_preemption_skips", cluster_queue="cq"): 1,
        series("preemption_target_recomputations_total", cluster_queue="cq", result="deferred_fit"): 1,
        series("preempted_workloads_total", preempting_cluster_queue="cq", reason="InClusterQueue"): 1,
        series("finished_workloads", cluster_queue="cq"): 1,
        series("local_queue_finished_workloads", name="lq", namespace="ns"): 1,
        series(
            "unadmitted_workloads", cluster_queue="cq", reason="NoReservation", underlying_cause="PendingEvaluation"
        ): 1,
        series("pending_scheduling_hashes", cluster_queue="cq", status="active"): 1,
    }
    assert {name: lines.get(name) for name in counts} == counts
    listed = list(page.caches.workloads)
    for raw in listed:  # a watch that was cut shows everything again
        page.caches.workloads.observe("MODIFIED", raw)
    page.caches.workloads.replace(copy.deepcopy(listed), str(page.version))
    assert await page.lines() == lines


async def test_the_wait_for_admission_checks_is_that_from_the_reservation_to_the_admission() -> None:
    """A Workload without checks has none, and one whose checks were ready before waits for no time."""
    page = Page()
    page.put("ClusterQueue", "cq")
    ready = [{"name": "nodes", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:30Z"}]
    for name, checks, steps in (
        ("checked", [], ({"QuotaReserved": "QuotaReserved"}, BOTH)),
        ("ready before", ready, (BOTH,)),
        ("unchecked", [], (BOTH,)),
    ):
        page.caches.workloads.observe("ADDED", workload(name))
        for step in steps:
            page.conditions(name, checks=checks, **step)
    lines, waited = await page.lines(), NOW - epoch("2026-01-01T00:01:00Z")
    for prefix, labels in (("", {"cluster_queue": "cq"}), ("local_queue_", {"name": "lq", "namespace": "ns"})):
        found = {
            each: lines[series(f"{prefix}admission_checks_wait_time_seconds_{each}", **labels, priority_class="")]
            for each in ("count", "sum")
        }
        assert found == {"count": 2, "sum": waited}


async def test_changes_before_the_leadership_are_not_counted() -> None:
    page = Page()
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted", Finished="Succeeded")
    page.metrics = QueueingMetrics(CollectorRegistry())
    Series(page.caches, page.metrics).connect()
    page.put("Workload", "w")
    assert list(page.metrics.subjects()) == []


async def test_a_workload_that_stops_waiting_leaves_no_series_behind() -> None:
    page = Page()
    assert any(name.startswith("kueue_unadmitted_workloads{") for name in await page.lines())
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted")
    assert not any("unadmitted" in name for name in await page.lines())


@pytest.mark.parametrize("scraped", [False, True], ids=["made again at once", "gone when somebody scrapes"])
async def test_series_of_queues_and_cohorts_go_with_them(scraped: bool) -> None:
    page = busy()
    gone = [("Workload", each) for each in ("w", "held", "done")]
    again = {kind: copy.deepcopy(page.stores[kind].get(key)) for kind, key in QUEUES}
    for kind, name in [*gone, ("LocalQueue", "lq"), ("ClusterQueue", "cq"), ("Cohort", "all")]:
        page.delete(kind, name)
    if not scraped:
        for kind, raw in again.items():
            assert raw is not None
            raw["metadata"].update(uid=f"{kind}-again", resourceVersion="900")
            page.stores[kind].observe("ADDED", raw)
    about = ('cluster_queue="cq"', 'name="lq"', 'cohort="all"')
    lines = await page.lines()
    left = {name: value for name, value in lines.items() if any(each in name for each in about)}
    counted = {name for name in left if any(end in name.partition("{")[0] for end in ("_total", "_count", "_bucket"))}
    assert counted == set()
    assert bool(left) is not scraped, "gauges are of what is there"


QUEUES = (("LocalQueue", Key("ns", "lq")), ("ClusterQueue", Key("", "cq")), ("Cohort", Key("", "all")))


async def test_a_cohort_that_was_only_named_by_a_cluster_queue_leaves_with_it() -> None:
    page = Page()
    page.put("ClusterQueue", "cq", lambda raw: raw["spec"].update(cohortName="all"))
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted")
    name = series("cohort_subtree_admitted_workloads_total", cohort="all", priority_class="")
    assert name in await page.lines()
    page.put("ClusterQueue", "cq", lambda raw: raw["spec"].pop("cohortName"))
    assert name not in await page.lines()


@pytest.mark.parametrize("again", ["another admission below it", "another Cohort of the name"])
async def test_the_series_of_a_cohort_end_with_its_object_also_where_a_cluster_queue_still_names_it(again: str) -> None:
    page = busy()
    there = {name for name in await page.lines() if 'cohort="all"' in name and name.startswith("kueue_cohort_")}
    assert len({name.partition("{")[0] for name in there}) == 6
    page.delete("Cohort", "all")
    assert not there & set(await page.lines())
    if again == "another admission below it":
        page.conditions("w", QuotaReserved="False/Pending", Admitted="False/NoReservation")
        page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted")
    else:
        page.put("Cohort", "all")
    assert series("cohort_subtree_admitted_active_workloads", cohort="all") in await page.lines()


async def test_a_cohort_shows_all_that_is_reserved_below_it_also_of_what_its_queues_do_not_lend() -> None:
    page = busy()
    name = series("cohort_subtree_resource_reservations", cohort="all", flavor="default", resource="cpu")
    before = (await page.lines())[name]
    assert before > 0

    def lend_nothing(raw: Raw) -> None:
        raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "0"

    page.put("ClusterQueue", "cq", lend_nothing)
    assert (await page.lines())[name] == before


async def test_all_pending_workloads_of_an_inactive_cluster_queue_are_inadmissible() -> None:
    page = Page()
    active = series("pending_workloads", cluster_queue="cq", status="active")
    inadmissible = series("pending_workloads", cluster_queue="cq", status="inadmissible")
    local = series("local_queue_pending_workloads", name="lq", namespace="ns", status="inadmissible")
    classes = series("pending_scheduling_hashes", cluster_queue="cq", status="inadmissible")
    lines = await page.lines()
    assert (lines[active], lines[inadmissible], lines[local], lines[classes]) == (1, 0, 0, 0)
    page.put("ClusterQueue", "cq", lambda raw: raw["spec"].update(stopPolicy="Hold"))
    lines = await page.lines()
    assert (lines[active], lines[inadmissible], lines[local], lines[classes]) == (0, 1, 1, 1)


async def test_a_quota_without_limits_shows_infinite_ones() -> None:
    lines = await Page().lines()
    labels = {"cohort": "", "cluster_queue": "cq", "flavor": "default", "resource": "cpu"}
    shown = [lines[series(f"cluster_queue_{name}", **labels)] for name in ("nominal_quota", "borrowing_limit")]
    assert shown == [4, float("inf")]
    assert lines[series("cluster_queue_lending_limit", **labels)] == float("inf")


async def test_gauges_show_the_content_of_the_caches() -> None:
    lines = await Page().lines()
    assert {
        series("pending_workloads", cluster_queue="cq", status="active"): 1,
        series("cluster_queue_status", cluster_queue="cq", status="active"): 1,
        series("cluster_queue_status", cluster_queue="cq", status="pending"): 0,
        series("cluster_queue_resource_pending", cluster_queue="cq", resource="cpu"): 2,
        series("local_queue_pending_workloads", name="lq", namespace="ns", status="active"): 1,
    }.items() <= lines.items()


async def test_objects_deleted_while_the_gauges_are_read_are_left_out() -> None:
    page = Page()
    names = [f"more-{number}" for number in range(3)]
    for name in names:
        page.caches.state.set_cluster_queue(name, cluster_queue(name, 1))

    def paused() -> Iterator[Metric | None]:
        for family in page.gauges.families():
            yield family
            if names:
                page.caches.state.set_cluster_queue(names.pop(), None)

    page.process.sources[:] = [paused]
    lines = await page.lines()
    assert any('cluster_queue="cq"' in line for line in lines)
    assert not any('cluster_queue="more-2"' in line for line in lines)


async def test_no_metrics_are_shown_before_the_caches_have_been_read() -> None:
    caches = filled()
    gauges = Gauges(caches, QueueingMetrics(CollectorRegistry()))
    assert [family.name for family in gauges.families() if family is not None] == ["kueue_build_info"]


async def test_a_local_queue_that_is_not_chosen_has_no_series() -> None:
    page = busy()
    page.metrics.local_queues = lambda key: False
    assert not any("local_queue" in line for line in await page.lines())


@pytest.mark.parametrize(
    ("gate", "prefixes"),
    [
        ("LocalQueueMetrics", ("kueue_local_queue_",)),
        ("MetricsForCohorts", ("kueue_cohort_", "kueue_cluster_queue_info")),
        ("MetricForWorkloadCreationLatency", ("kueue_workload_creation_latency_seconds",)),
        ("SchedulingEquivalenceHashing", ("kueue_pending_scheduling_hashes",)),
        ("UnadmittedWorkloadsObservability", ("kueue_unadmitted_workloads", "kueue_local_queue_unadmitted_workloads")),
    ],
)
async def test_metrics_of_a_feature_gate_that_is_off_are_not_there(gate: str, prefixes: tuple[str, ...]) -> None:
    with_gate, without = await Page().text(), await Page(gates={gate: False}).text()
    assert all(prefix in with_gate for prefix in prefixes)
    assert not any(prefix in without for prefix in prefixes)


@dataclass(frozen=True)
class Promoted:
    """A custom label and what one series shows of it."""

    label: PromotedLabel
    name: str
    labels: dict[str, str]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Promoted(
                PromotedLabel("team"),
                "cluster_queue_info",
                {"cluster_queue": "cq", "parent_cohort": "", "root_cohort": ""},
            ),
            id="the label of a ClusterQueue on a gauge",
        ),
        pytest.param(
            Promoted(
                PromotedLabel("team", label_key="example.com/team"),
                "admitted_workloads_total",
                {"cluster_queue": "cq", "priority_class": ""},
            ),
            id="another key, on a counter",
        ),
        pytest.param(
            Promoted(
                PromotedLabel("team", "LocalQueue", annotation_key="team"),
                "local_queue_reserving_active_workloads",
                {"name": "lq", "namespace": "ns"},
            ),
            id="the annotation of a LocalQueue",
        ),
        pytest.param(
            Promoted(
                PromotedLabel("team", "Workload", tracked=("red",)),
                "admitted_active_workloads",
                {"cluster_queue": "cq"},
            ),
            id="the label of a Workload splits what is counted",
        ),
    ],
)
async def test_labels_of_objects_are_promoted_to_metrics(case: Promoted) -> None:
    page = Page(custom=(case.label,))
    key = case.label.label_key or case.label.annotation_key or case.label.name
    name = {"ClusterQueue": "cq", "LocalQueue": "lq", "Workload": "w"}[case.label.kind]
    where = "annotations" if case.label.annotation_key else "labels"

    def marked(raw: Raw) -> None:
        raw["metadata"][where] = {key: "red"}

    page.put(case.label.kind, name, marked)
    page.conditions("w", QuotaReserved="QuotaReserved", Admitted="Admitted")
    assert (await page.lines())[series(case.name, **case.labels, custom_team="red")] == 1


async def test_a_value_that_is_not_tracked_shows_as_untracked_and_a_changed_label_leaves_no_old_gauge() -> None:
    page = Page(custom=(PromotedLabel("team", tracked=("red", "blue")),))

    async def shown() -> set[str]:
        page.put("ClusterQueue", "cq", lambda raw: raw["metadata"].update(labels={"team": team}))
        return {line.partition('custom_team="')[2].partition('"')[0] for line in await page.lines() if "_info{" in line}

    team = "red"
    assert await shown() == {"", "red"}
    team = "green"
    assert await shown() == {"", "kueue.x-k8s.io/_UNTRACKED_VALUE_"}
