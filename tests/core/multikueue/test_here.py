"""What is written about a Workload in the manager: one case for each rule, in the words of Kueue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import CheckState, DelayedTopology
from api.objects import Raw
from core.actions import Patch, Wait
from core.model import workload as workloads
from core.model.workload import replace as changed
from core.multikueue.group import Group, Policy, Worker
from core.multikueue.here import decide
from core.wire.merge import merged
from core.workload.transitions import awaits_topology
from tests.core.multikueue.groups import EARLIER, NOW, copy, group, job, there

READY = CheckState.READY
RUNNING: Raw = {"active": 1, "startTime": EARLIER}
COMPLETE: Raw = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}


def on(name: str, *, jobs: tuple[Raw, ...] = (), origin: str = "", **found: str) -> Worker:
    return Worker(name, workload=copy(spec=None, owned=False, origin=origin, **found), jobs=jobs)


def unnamed(found: Worker) -> Worker:
    """A worker that the MultiKueueConfig does not name."""
    return replace(found, configured=False)


def leaving(found: Worker) -> Worker:
    """A worker where the copy is being deleted."""
    assert found.workload is not None
    return replace(found, workload=merged(found.workload, {"metadata": {"deletionTimestamp": EARLIER}}))


def full(name: str) -> Worker:
    return on(name, QuotaReserved="False/ExceedsMaxQuota")


def summary(group: Group) -> tuple[str, ...]:
    """What the rules answer: why, the state and message of the check, and the chosen or nominated workers."""
    action = decide(group)
    if isinstance(action, Wait):
        return ("wait", "" if action.seconds is None else f"{action.seconds:g}")
    if isinstance(action, Patch) and action.why == "copy":
        return ("copy", str(action.body["status"]))
    assert isinstance(action, Patch) and action.after is not None
    if action.why == "finish":
        done = action.after.condition("Finished")
        assert done is not None
        return ("finish", done.reason, done.message)
    (check,) = (each for each in action.after.checks if each.name == "mk")
    if action.why == "nominate":
        return ("nominate", *action.after.nominated)
    return (action.why, check.state, check.message, action.after.cluster_name)


def being_deleted(worker: Worker) -> Group:
    """A Workload that is deleted while its job runs in this worker; the job is suspended already."""
    found = group(worker, check=READY, cluster="w1", of_job=job(status={"active": 1}))
    assert found.local is not None
    return replace(found, local=workloads.replace(found.local, deleting=True))


LOST = Worker("w1", connected=False, lost_since=NOW - 60)
CASES: dict[str, tuple[Group, tuple[str, ...]]] = {
    "a worker to which the Workload was never offered does not finish it": (
        group(Worker("w1"), unnamed(on("w9", Finished="True/Succeeded")), nominated=("w1",)),
        ("wait", ""),
    ),
    "a configured worker that was not nominated does not finish it": (
        group(
            Worker("w1"), on("w2", Finished="True/Succeeded"), nominated=("w1",), policy=Policy(dispatcher="external")
        ),
        ("wait", ""),
    ),
    "the copy of an earlier Workload of that name does not finish it": (
        group(on("w1", origin="u-earlier", Finished="True/Succeeded"), Worker("w2")),
        ("wait", ""),
    ),
    "the copy of an earlier Workload of that name is not chosen": (
        group(on("w1", origin="u-earlier", Admitted="True"), Worker("w2")),
        ("wait", ""),
    ),
    "a job that ended in a worker that was lost for long finishes the Workload that waits again": (
        group(unnamed(on("w1", origin="u-w", Finished="True/Succeeded")), Worker("w2"), nominated=("w2",)),
        ("finish", "Succeeded", "Finished it is"),
    ),
    "an evicted job does not wait for one in a worker to which it was never offered": (
        replace(
            group(
                Worker("w1"),
                unnamed(on("w9", jobs=(there(suspend=False, status=RUNNING),))),
                nominated=(),
                Evicted="True",
                of_job=job(status={"active": 1}),
            ),
            ran="w1",
        ),
        ("copy", str({"active": None})),
    ),
    "a new Workload is offered to every connected worker": (group(nominated=()), ("nominate", "w1", "w2")),
    "a worker that is not connected is not offered it": (
        group(Worker("w1", connected=False), Worker("w2"), nominated=()),
        ("nominate", "w2"),
    ),
    "a nominated worker that is lost stays nominated": (
        group(Worker("w1", connected=False), Worker("w2")),
        ("wait", ""),
    ),
    "nothing is offered before the other checks are ready": (
        group(nominated=(), other=CheckState.PENDING),
        ("wait", ""),
    ),
    "without quota it is not offered": (group(nominated=(), held=False), ("wait", "")),
    "an evicted Workload is not offered": (group(nominated=(), Evicted="True"), ("wait", "")),
    "a copy that only holds quota is not chosen yet": (
        group(on("w1", QuotaReserved="True"), Worker("w2")),
        ("wait", ""),
    ),
    "the worker that admits it is chosen": (
        group(Worker("w1"), on("w2", Admitted="True")),
        ("admit", READY, 'The workload was admitted on "w2"', "w2"),
    ),
    "of two workers the one that admitted it first is chosen": (
        group(on("w1", Admitted="True"), on("w2", Admitted=f"True/@{EARLIER}")),
        ("admit", READY, 'The workload was admitted on "w2"', "w2"),
    ),
    "of two that admitted it in one second the first of the MultiKueueConfig is chosen": (
        group(on("w1", Admitted="True"), on("w2", Admitted="True")),
        ("admit", READY, 'The workload was admitted on "w1"', "w1"),
    ),
    "a worker where the copy is being deleted is not chosen": (
        group(leaving(on("w1", Admitted=f"True/@{EARLIER}")), on("w2", Admitted="True")),
        ("admit", READY, 'The workload was admitted on "w2"', "w2"),
    ),
    "a worker that evicts the copy is not chosen while it is still admitted": (
        group(on("w1", Admitted="True", Evicted="True"), Worker("w2")),
        ("wait", ""),
    ),
    "a worker that was not nominated is not chosen": (
        group(on("w1", Admitted="True"), Worker("w2"), nominated=("w2",), policy=Policy(dispatcher="external")),
        ("wait", ""),
    ),
    "a job that another controller runs is rejected": (
        group(of_job=job(managed_by=None)),
        (
            "reject",
            CheckState.REJECTED,
            'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not "",'
            ' Previously: "Pending"',
            "",
        ),
    ),
    "a kind that cannot run elsewhere is rejected": (
        replace(group(), kind=None),
        (
            "reject",
            CheckState.REJECTED,
            'No multikueue adapter found for owner kind "batch/v1, Kind=Job", Previously: "Pending"',
            "",
        ),
    ),
    "a rejected Workload stays as it is": (group(check=CheckState.REJECTED, nominated=()), ("wait", "")),
    "the status of the running job is copied": (
        group(
            on("w1", jobs=(there(suspend=False, status=RUNNING),), Admitted="True"),
            check=READY,
            cluster="w1",
            of_job=job(suspend=False, status={"ready": 2}),
        ),
        ("copy", str({"active": 1, "ready": None, "startTime": EARLIER})),
    ),
    "the status of a running job is not copied before the job here is unsuspended": (
        group(on("w1", jobs=(there(suspend=False, status=RUNNING),), Admitted="True"), check=READY, cluster="w1"),
        ("wait", ""),
    ),
    "a Workload whose job was deleted in its worker has not finished": (
        group(
            on("w1", Admitted="True", Finished="True/OwnerNotFound"),
            check=READY,
            cluster="w1",
            of_job=job(suspend=False, status=RUNNING),
        ),
        ("retry", CheckState.RETRY, 'Admitting remote no longer exists, Previously: "Ready"', "w1"),
    ),
    "a Workload whose job was deleted in its worker after its end has finished": (
        group(
            on("w1", Admitted="True", Finished="True/OwnerNotFound"),
            check=READY,
            cluster="w1",
            of_job=job(suspend=False, status=COMPLETE),
        ),
        ("finish", "OwnerNotFound", "Finished it is"),
    ),
    "a copy whose job was deleted does not finish a Workload that waits again": (
        group(on("w1", Finished="True/OwnerNotFound"), Worker("w2")),
        ("wait", ""),
    ),
    "nor is the Workload admitted by it": (
        group(on("w1", Admitted="True", Finished="True/OwnerNotFound"), Worker("w2")),
        ("wait", ""),
    ),
    "the status of a finished job is copied first": (
        group(
            on("w1", jobs=(there(suspend=False, status=COMPLETE),), Finished="True/Succeeded"),
            check=READY,
            cluster="w1",
        ),
        ("copy", str(COMPLETE)),
    ),
    "a Workload that has finished in its worker is finished here": (
        group(
            on("w1", jobs=(there(suspend=False, status=COMPLETE),), Finished="True/Succeeded"),
            check=READY,
            cluster="w1",
            of_job=job(suspend=False, status=COMPLETE),
        ),
        ("finish", "Succeeded", "Finished it is"),
    ),
    "the end of the job's status is waited for": (
        group(
            on("w1", jobs=(there(suspend=False, status=RUNNING),), Finished="True/Succeeded"),
            check=READY,
            cluster="w1",
            of_job=job(suspend=False, status=RUNNING),
        ),
        ("wait", "10"),
    ),
    "the end of the job's status is not waited for without end": (
        group(
            on("w1", jobs=(there(suspend=False, status=RUNNING),), Finished=f"True/Succeeded@{EARLIER}"),
            check=READY,
            cluster="w1",
            of_job=job(suspend=False, status=RUNNING),
        ),
        ("finish", "Succeeded", "Finished it is"),
    ),
    "a copy that is out of sync with its job is offered again": (
        group(on("w1", Finished="True/OutOfSync"), check=READY, cluster="w1"),
        (
            "out of sync",
            CheckState.RETRY,
            'Remote workload on worker cluster "w1" is out of sync with its user job, resetting for re-dispatch,'
            ' Previously: "Ready"',
            "w1",
        ),
    ),
    "a Workload that its worker evicted is evicted here": (
        group(on("w1", Evicted="True", Admitted="False"), check=READY, cluster="w1"),
        (
            "retry",
            CheckState.RETRY,
            'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Ready"',
            "w1",
        ),
    ),
    "a worker that is lost for a moment keeps the Workload": (
        group(LOST, check=READY, cluster="w1"),
        ("wait", "840"),
    ),
    "a worker that is lost for longer than workerLostTimeout loses it": (
        group(replace(LOST, lost_since=NOW - 900), check=READY, cluster="w1"),
        ("retry", CheckState.RETRY, 'Admitting remote lost, Previously: "Ready"', "w1"),
    ),
    "a worker that has the Workload no more loses it immediately": (
        group(check=READY, cluster="w1"),
        ("retry", CheckState.RETRY, 'Admitting remote no longer exists, Previously: "Ready"', "w1"),
    ),
    "a worker that the MultiKueueConfig does not name any more loses it": (
        group(check=READY, cluster="w9"),
        ("retry", CheckState.RETRY, 'Admitting remote no longer exists, Previously: "Ready"', "w9"),
    ),
    "the worker that runs a Workload is recorded if it is not": (
        group(on("w2", Admitted="True"), check=READY, nominated=()),
        ("record", READY, "", "w2"),
    ),
    "a check that is ready without a worker is begun again": (
        group(check=READY, nominated=()),
        (
            "retry",
            CheckState.RETRY,
            "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it,"
            ' Previously: "Ready"',
            "",
        ),
    ),
    "the status of an evicted job is copied until its pods have ended": (
        group(
            on("w1", jobs=(there(status={"active": 0}),), Evicted="True"),
            nominated=(),
            Evicted="True",
            of_job=job(status={"active": 1}),
        ),
        ("copy", str({"active": 0})),
    ),
    "an evicted job keeps its status while its worker may come back": (
        group(LOST, nominated=(), Evicted="True", of_job=job(status={"active": 1})),
        ("wait", "840"),
    ),
    "an evicted job whose worker is gone has no pods": (
        group(replace(LOST, lost_since=NOW - 900), nominated=(), Evicted="True", of_job=job(status={"active": 1})),
        ("copy", str({"active": None})),
    ),
    "a Workload that is deleted waits for the job in its worker": (
        being_deleted(on("w1", jobs=(there(status={"active": 1}),), Admitted="True")),
        ("wait", ""),
    ),
    "the job of a deleted Workload has no pods when no worker has it": (
        being_deleted(Worker("w1")),
        ("copy", str({"active": None})),
    ),
    "an evicted job waits for the pods of its worker as long as the copy is being deleted there": (
        replace(
            group(leaving(on("w1", Admitted="True")), Worker("w2"), nominated=(), Evicted="True"),
            job=job(status={"active": 1}),
            ran="w1",
        ),
        ("wait", ""),
    ),
    "an evicted job whose worker is not known any more waits for a copy that a job there had adopted": (
        replace(
            group(Worker("w1", workload=copy(owned=True)), Worker("w2"), nominated=(), Evicted="True"),
            job=job(status={"active": 1}),
        ),
        ("wait", ""),
    ),
    "an evicted job does not wait for a copy in a worker in which it never ran": (
        replace(
            group(on("w1"), Worker("w2"), nominated=(), Evicted="True", of_job=job(status={"active": 1})),
            ran="w2",
        ),
        ("copy", str({"active": None})),
    ),
    "an evicted job does not wait for a lost worker in which it never ran": (
        replace(
            group(LOST, Worker("w2"), nominated=(), Evicted="True", of_job=job(status={"active": 1})),
            ran="w2",
        ),
        ("copy", str({"active": None})),
    ),
    "an evicted job waits for its worker that the MultiKueueConfig does not name any more": (
        group(
            Worker("w2"),
            replace(on("w1", jobs=(there(suspend=False, status=RUNNING),), Admitted="True"), configured=False),
            nominated=(),
            Evicted="True",
            of_job=job(status=RUNNING),
        ),
        ("wait", ""),
    ),
    "a running job loses a worker that the MultiKueueConfig does not name any more": (
        group(
            Worker("w2"),
            replace(on("w1", jobs=(there(suspend=False, status=RUNNING),), Admitted="True"), configured=False),
            check=READY,
            cluster="w1",
        ),
        ("retry", CheckState.RETRY, 'Admitting remote no longer exists, Previously: "Ready"', "w1"),
    ),
    "a worker that the MultiKueueConfig does not name is not offered the Workload": (
        group(Worker("w1", configured=False), Worker("w2"), nominated=()),
        ("nominate", "w2"),
    ),
    "the status of a running job without a check is copied": (
        group(
            on("w1", jobs=(there(suspend=False, status=RUNNING),), Admitted="True"),
            check=None,
            cluster="w1",
            of_job=job(suspend=False),
        ),
        ("copy", str(RUNNING)),
    ),
    "a Workload without a check that has finished in its worker is finished here": (
        group(
            on("w1", jobs=(there(suspend=False, status=COMPLETE),), Finished="True/Succeeded"),
            check=None,
            cluster="w1",
            of_job=job(suspend=False, status=COMPLETE),
        ),
        ("finish", "Succeeded", "Finished it is"),
    ),
    "a check that is added again to a job that runs in a worker is ready": (
        group(on("w1", jobs=(there(suspend=False, status=RUNNING),), Admitted="True"), Worker("w2"), cluster="w1"),
        ("admit", READY, 'The workload was admitted on "w1"', "w1"),
    ),
    "a check that is added again to a job whose worker is lost waits": (group(LOST, cluster="w1"), ("wait", "840")),
    "a check that is added again is to be retried when the worker has evicted the job": (
        group(on("w1", Evicted="True", Admitted="False"), cluster="w1"),
        (
            "retry",
            CheckState.RETRY,
            'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Pending"',
            "w1",
        ),
    ),
    "a check that is added again with other workers is to be retried": (
        group(Worker("w2"), replace(on("w1", Admitted="True"), configured=False), cluster="w1"),
        ("retry", CheckState.RETRY, 'Admitting remote no longer exists, Previously: "Pending"', "w1"),
    ),
    "without a check a Workload is not followed in workers that were not chosen": (
        group(on("w1", Finished="True/Succeeded"), check=None),
        ("wait", ""),
    ),
    "no worker can ever admit it": (
        group(full("w1"), Worker("w2", refused='namespaces "ns" not found')),
        (
            "hopeless",
            CheckState.PENDING,
            'No worker cluster can run it: w1: QuotaReserved it is; w2: namespaces "ns" not found',
            "",
        ),
    ),
    "one worker may admit it later": (group(full("w1"), on("w2", QuotaReserved="False/WaitingForQuota")), ("wait", "")),
    "a finished Workload needs nothing": (group(Finished="True"), ("wait", "")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_here(case: str) -> None:
    given, wanted = CASES[case]
    assert summary(given) == wanted


@pytest.mark.parametrize("case", CASES)
def test_a_write_is_not_repeated(case: str) -> None:
    """The state after a write asks for another action, or for none: rules do not alternate."""
    given, _ = CASES[case]
    action = decide(given)
    if isinstance(action, Patch) and action.after is not None:
        check = next((each for each in action.after.checks if each.name == "mk"), None)
        again = decide(replace(given, local=action.after, check=check))
        assert not (isinstance(again, Patch) and again.why == action.why)


CHOICES: dict[str, tuple[Group, bool]] = {
    "it is admitted in the write that chooses the worker": (group(on("w1", Admitted="True"), Admitted="False"), True),
    "one that is deactivated is not": (
        group(on("w1", Admitted="True"), Admitted="False", spec={"active": False}),
        False,
    ),
    "nor one that will be": (
        group(on("w1", Admitted="True"), Admitted="False", DeactivationTarget="True"),
        False,
    ),
    "a running one stays admitted when its checks are added again": (
        group(on("w1", Admitted="True"), cluster="w1", other=CheckState.PENDING, Admitted="True"),
        True,
    ),
    "nor one whose ClusterQueue asks for another check, which its status does not have yet": (
        replace(group(on("w1", Admitted="True"), Admitted="False"), required=("mk", "new")),
        False,
    ),
    "one whose checks are those of its ClusterQueue is": (
        replace(group(on("w1", Admitted="True"), Admitted="False", other=CheckState.READY), required=("mk", "other")),
        True,
    ),
    "a larger slice that waits for another check is not admitted": (
        group(on("w1", Admitted="True"), cluster="w1", other=CheckState.PENDING, Admitted="False"),
        False,
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_whether_the_choice_of_a_worker_admits_the_workload(case: str) -> None:
    given, wanted = CHOICES[case]
    action = decide(given)
    assert isinstance(action, Patch) and action.after is not None
    assert action.why == "admit" and action.after.holds("Admitted") == wanted


@pytest.mark.parametrize("follows", [False, True])
def test_with_wait_for_pods_ready_the_same_write_has_that_condition(*, follows: bool) -> None:
    policy = Policy(follows_pods=follows)
    action = decide(group(on("w1", Admitted="True"), policy=policy, Admitted="False"))
    assert isinstance(action, Patch) and action.after is not None
    true = {each.type: each.status for each in action.after.conditions}
    assert true == {"QuotaReserved": True, "Admitted": True} | ({"PodsReady": False} if follows else {})


def test_a_workload_whose_pods_are_placed_in_the_worker_is_admitted_here_without_a_place() -> None:
    """Its flavor here has a topology: the assignment that is decided later is never made here."""
    given = group(on("w1", Admitted="True"), Admitted="False")
    assert given.local is not None and given.local.admission is not None
    waits = tuple(changed(each, delayed=DelayedTopology.PENDING) for each in given.local.admission.pod_sets)
    local = changed(given.local, admission=changed(given.local.admission, pod_sets=waits))
    given = replace(given, local=local)
    action = decide(given)
    assert isinstance(action, Patch) and action.after is not None and action.after.admission is not None
    assert [each.delayed for each in action.after.admission.pod_sets] == [DelayedTopology.READY]
    assert action.after.holds("Admitted") and not awaits_topology(action.after)
