"""The observer finds each promise that is broken: it is of use only if it can fail."""

from __future__ import annotations

from fractions import Fraction

import pytest

from observer.decode import Decoded, Job, Pod, Queue, Quota, Workload
from observer.rules import Change, Judge

CPU = ("default", "cpu")


def quota(nominal: int, borrowing: int | None = None, lending: int | None = None) -> dict[tuple[str, str], Quota]:
    limits = [None if each is None else Fraction(each) for each in (borrowing, lending)]
    return {CPU: Quota(Fraction(nominal), *limits)}


def queue(name: str, nominal: int, borrowing: int | None = None, lending: int | None = None, **more: object) -> Queue:
    return Queue(name, str(more.get("cohort", "")), quota(nominal, borrowing, lending), more.get("status", {}))  # type: ignore[arg-type]


def workload(name: str, *true: str, cpu: float = 2, queue: str = "q", job: str = "", uid: str = "") -> Workload:
    return Workload(
        name=f"team/{name}",
        uid=uid or f"wl-{name}",
        job=job or f"job-{name}",
        owner="Job",
        queue=queue,
        usage={CPU: Fraction(cpu)},
        reserved="reserved" in true or "admitted" in true,
        admitted="admitted" in true,
        evicted="evicted" in true,
        finished="finished" in true,
    )


def job(name: str, *, runs: bool = False, ended: bool = False) -> Job:
    return Job(f"team/{name}", f"job-{name}", queued=True, runs=runs, ended=ended)


def pod(name: str, job: str, cpu: float) -> Pod:
    return Pod(f"team/{name}", f"pod-{name}", f"job-{job}", {"cpu": Fraction(cpu)} if cpu else {})


PREFIX = {Job: "jobs/", Pod: "pods/", Workload: "kueue.x-k8s.io/workloads/", Queue: "kueue.x-k8s.io/clusterqueues/"}


def judged(*states: Decoded | tuple[Decoded, None]) -> Judge:
    """The states in order; a state with None is the deletion of that object."""
    judge = Judge()
    for revision, state in enumerate(states):
        value, deleted = (state[0], True) if isinstance(state, tuple) and state[1:] == (None,) else (state, False)
        kind = type(value).__name__ if not isinstance(value, Queue) else "ClusterQueue"
        if isinstance(value, Queue) and value.name.startswith("cohort"):
            kind = "Cohort"
        key = f"/registry/{PREFIX[type(value)]}{value.name}"  # type: ignore[union-attr]
        judge.see(Change(revision, kind, key, None if deleted else value))  # type: ignore[arg-type]
    return judge


WAITS, ADMITTED = workload("a"), workload("a", "admitted")
AT_A_MOMENT: dict[str, tuple[list[Decoded], str]] = {
    "a Job that waits, starts and ends": (
        [
            *(queue("q", 2), job("a"), WAITS, ADMITTED, job("a", runs=True), pod("p", "a", 2)),
            *(pod("p", "a", 0), job("a", ended=True), workload("a", "admitted", "finished"), workload("b", "admitted")),
        ],
        "",
    ),
    "more is reserved than the ClusterQueue has": (
        [queue("q", 2), ADMITTED, workload("b", "reserved", cpu=0.5)],
        "ClusterQueue q uses 2.5 of default/cpu, and may use 2",
    ),
    "more is borrowed than the borrowing limit": (
        [queue("q", 2, borrowing=1, cohort="cohort"), queue("r", 9, cohort="cohort"), workload("a", "admitted", cpu=4)],
        "ClusterQueue q uses 4 of default/cpu, and may use 3",
    ),
    "as much is borrowed as may be": (
        [queue("q", 2, borrowing=1, cohort="cohort"), queue("r", 9, cohort="cohort"), workload("a", "admitted", cpu=3)],
        "",
    ),
    "more is borrowed than others lend": (
        [queue("q", 2, cohort="cohort"), queue("r", 9, lending=1, cohort="cohort"), workload("a", "admitted", cpu=4)],
        "Cohort cohort uses 4 of default/cpu, and may use 3",
    ),
    "what is not lent is used by its own queue": (
        [
            *(queue("q", 2, cohort="cohort"), queue("r", 9, lending=1, cohort="cohort")),
            *(workload("a", "admitted", cpu=3), workload("b", "admitted", cpu=8, queue="r")),
        ],
        "",
    ),
    "more is used than a cohort of cohorts has": (
        [
            *(queue("cohort-top", 1), queue("cohort-low", 1, cohort="cohort-top"), queue("q", 1, cohort="cohort-low")),
            *(workload("a", "admitted", cpu=3), workload("b", "admitted", cpu=1)),
        ],
        "Cohort cohort-top uses 4 of default/cpu, and may use 3",
    ),
    "a quota that is lowered below what is in use breaks nothing": ([queue("q", 2), ADMITTED, queue("q", 1)], ""),
    "a reservation in a queue that does not exist": ([ADMITTED], "reserves in q, which does not exist"),
    "pods use more than there is quota for": (
        [queue("q", 2), ADMITTED, job("a", runs=True), pod("p", "a", 1.5), pod("r", "a", 1.5)],
        "pods of 3 cpu run on 2",
    ),
    "two Workloads of one Job hold quota": (
        [queue("q", 2), *(workload(name, "admitted", cpu=1, job="j") for name in "ab")],
        "two Workloads hold quota for its Job",
    ),
    "a Job runs that waits": ([queue("q", 2), WAITS, job("a", runs=True)], "runs without an admitted Workload"),
    "a Job runs whose Workload only reserves": (
        [queue("q", 2), workload("a", "reserved"), job("a", runs=True)],
        "runs without an admitted Workload",
    ),
    "a Job runs whose Workload has finished": (
        [queue("q", 2), workload("a", "admitted", "finished"), job("a", runs=True)],
        "runs without an admitted Workload",
    ),
    "a Workload is admitted again without an eviction": (
        [queue("q", 2), ADMITTED, WAITS, ADMITTED],
        "admitted again without an eviction",
    ),
    "a Workload is admitted again after an eviction": (
        [queue("q", 2), ADMITTED, workload("a", "admitted", "evicted"), WAITS, ADMITTED],
        "",
    ),
    "an admitted Workload changes its queue": (
        [queue("q", 2), queue("r", 2), ADMITTED, workload("a", "admitted", queue="r")],
        "moved from q to r while it was admitted",
    ),
}


@pytest.mark.parametrize(("states", "broken"), AT_A_MOMENT.values(), ids=AT_A_MOMENT.keys())
def test_a_broken_promise_is_found_at_its_moment(states: list[Decoded], broken: str) -> None:
    found = [each.partition(": ")[2] for each in judged(*states).broken]
    assert found == ([broken] if broken else [])


def status(reserved: float, used: float, reserving: int, admitted: int) -> dict[str, object]:
    def flavors(total: float) -> list[object]:
        return [{"name": "default", "resources": [{"name": "cpu", "total": f"{total:g}"}]}]

    counts = {"reservingWorkloads": reserving, "admittedWorkloads": admitted}
    return {"flavorsReservation": flavors(reserved), "flavorsUsage": flavors(used), **counts}


RIGHT = queue("q", 9, status=status(2, 2, 1, 1))
NOTHING = queue("q", 9, status=status(0, 0, 0, 0))
AT_REST: dict[str, tuple[list[Decoded | tuple[Decoded, None]], list[str]]] = {
    "one runs and one waits": ([RIGHT, job("b"), workload("b"), ADMITTED, job("a", runs=True)], []),
    "a Job has no Workload": ([NOTHING, job("a")], ["Job team/a is lost: it has no Workload"]),
    "a Job has ended and its Workload has not": (
        [RIGHT, ADMITTED, job("a", ended=True)],
        ["Job team/a has ended, and its Workload has not finished"],
    ),
    "a Job is suspended and its Workload is admitted": (
        [RIGHT, ADMITTED, job("a")],
        ["Job team/a is suspended, and its Workload is admitted"],
    ),
    "a Job runs whose Workload was released after it had started": (
        [NOTHING, ADMITTED, job("a", runs=True), WAITS],
        ["Job team/a runs without an admitted Workload"],
    ),
    "quota is held for a Job that is gone": (
        [RIGHT, ADMITTED, job("a", runs=True), (job("a"), None)],
        ["Workload team/a holds quota, and its Job is gone"],
    ),
    "quota is held for pods whose Job is gone": (
        [RIGHT, ADMITTED, job("a", runs=True), pod("p", "a", 1), (job("a"), None)],
        [],
    ),
    "a status reports too much": (
        [queue("q", 9, status=status(3, 2, 1, 1)), ADMITTED, job("a", runs=True)],
        ["ClusterQueue q reports 3 of default/cpu in flavorsReservation, and it is 2"],
    ),
    "a status reports nothing": (
        [queue("q", 9), ADMITTED, job("a", runs=True)],
        [
            "ClusterQueue q reports 0 of default/cpu in flavorsReservation, and it is 2",
            "ClusterQueue q reports 0 of default/cpu in flavorsUsage, and it is 2",
            "ClusterQueue q reports 0 reservingWorkloads, and it is 1",
            "ClusterQueue q reports 0 admittedWorkloads, and it is 1",
        ],
    ),
    "what is reserved and not admitted is no usage": (
        [queue("q", 9, status=status(2, 0, 1, 0)), workload("a", "reserved"), job("a")],
        [],
    ),
}


@pytest.mark.parametrize(("states", "broken"), AT_REST.values(), ids=AT_REST.keys())
def test_a_promise_that_is_broken_when_all_is_quiet_is_found(
    states: list[Decoded | tuple[Decoded, None]], broken: list[str]
) -> None:
    judge = judged(*states)
    assert judge.broken == []
    assert judge.at_rest() == broken


def test_a_job_that_never_ends_is_lost_where_all_must_end() -> None:
    judge = judged(NOTHING, job("a"), workload("a"))
    assert (judge.at_rest(), judge.at_rest(drained=True)) == ([], ["Job team/a has not ended"])


def test_admissions_evictions_and_the_most_that_was_reserved_are_counted() -> None:
    evicted = workload("a", "admitted", "evicted")
    judge = judged(queue("q", 9), WAITS, ADMITTED, evicted, WAITS, ADMITTED, workload("b", "reserved", cpu=3))
    assert (judge.broken, dict(judge.admitted), judge.evictions) == ([], {"team/a": 2}, 1)
    assert judge.most == {"cpu": 5}


def test_other_namespaces_are_left_out() -> None:
    judge = Judge({"other"})
    judge.see(Change(1, "Job", "/registry/jobs/team/a", job("a", runs=True)))
    assert (judge.broken, judge.at_rest()) == ([], [])


def test_of_slices_of_an_elastic_job_the_newest_that_holds_quota_counts() -> None:
    old = workload("s", "admitted", cpu=2, job="job-j")
    new = workload("s-2", "admitted", cpu=4, job="job-j")._replace(slices="team/s")
    both = (Queue("q", "", quota(5), {}), old, new)
    assert judged(*both).broken == []
    assert judged(*both, workload("s", "admitted", "finished", cpu=2, job="job-j")).broken == []
    assert len(judged(*both, workload("other", "admitted", cpu=2)).broken) == 1
    smaller = (*both, (new, None), workload("other", "admitted", cpu=3))
    assert judged(*smaller).broken == [], "the first one counts again when the newest is gone"
    stranger = workload("stranger", "admitted", cpu=1, job="job-j")
    assert any("two Workloads" in each for each in judged(*both, stranger).broken)
