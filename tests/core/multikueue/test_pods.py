"""Pods and groups of pods that run in another cluster: the pods here keep their gates, and show what the worker has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.names import CheckState
from api.objects import Raw
from core.actions import Patch, Wait, Writes
from core.jobs.kinds import POD, POD_GROUP
from core.jobs.kinds.pod import Pod
from core.multikueue import here
from core.multikueue.group import Group, Worker
from core.multikueue.there import decide
from tests.core.multikueue.groups import NOW, copy, group, manifests, uids, withdrawn, word

GATE = "kueue.x-k8s.io/admission"
RUNNING: Raw = {
    "phase": "Running",
    "startTime": "2027-01-15T07:55:00Z",
    "qosClass": "Guaranteed",
    "podIP": "10.0.0.1",
    "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
}


def pod(name: str = "p", *, group_of: int = 0, gated: bool = True, status: Raw | None = None, **metadata: str) -> Raw:
    """A pod here, as the caches keep it, or one in a worker; ``group_of`` is the number of pods of its group."""
    found: Raw = {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": {"kueue.x-k8s.io/managed": "true"}}
    if group_of:
        found["labels"]["kueue.x-k8s.io/pod-group-name"] = "g"
        found["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(group_of)}
    gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
    spec: Raw = {"containers": [{"name": "c", "image": "i"}], **gates}
    raw = {"metadata": found | metadata, "spec": spec, "status": status or {"phase": "Pending"}}
    return {"apiVersion": "v1", "kind": "Pod", **POD.lean(raw, lambda shared, /, **own: shared | own)}


def of_pods(*pods: Raw, cluster: str = "w1", evicted: str = "False") -> Group:
    """A Workload of this pod, or of the group of these pods."""
    kind = POD_GROUP if len(pods) > 1 else POD
    return replace(
        group(check=CheckState.READY, cluster=cluster, Evicted=evicted),
        kind=kind,
        job=kind.whole(pods, NOW),
        workers=(Worker("w1", workload=copy(Admitted="True")),),
    )


def run(*pods: Raw) -> Worker:
    """The worker, where the Workload is admitted and these pods are."""
    return Worker("w1", workload=copy(Admitted="True"), jobs=pods)


def test_each_pod_of_a_group_is_created_in_the_worker_with_its_gate() -> None:
    found = decide(of_pods(pod("a", group_of=2), pod("b", group_of=2)), run(pod("a", group_of=2)))
    assert isinstance(found, Writes) and found.why == "begin"
    (made,) = manifests(found)
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("v1", "Pod", "b")
    assert made["spec"]["schedulingGates"] == [{"name": GATE}]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
    assert "status" not in made


def test_a_pod_that_has_ended_is_not_created_again() -> None:
    ended = pod("a", group_of=2, status=RUNNING | {"phase": "Succeeded"})
    assert decide(of_pods(ended, pod("b", group_of=2)), run(pod("b", group_of=2))) == Wait()


def test_a_pod_of_a_group_that_is_gone_here_is_deleted_in_the_worker() -> None:
    given = of_pods(pod("b", group_of=3), pod("c", group_of=3))
    found = decide(given, run(*(pod(name, group_of=3) for name in "abc")))
    assert withdrawn(found) == (uids(pod("a", group_of=3)), "")


def test_a_pod_that_replaces_one_of_its_name_gets_its_own_pod_in_the_worker() -> None:
    annotations = {"kueue.x-k8s.io/multikueue-origin-uid": "u-earlier"}
    earlier = pod(status=RUNNING, gated=False)
    earlier["metadata"] |= {"annotations": annotations}
    given = replace(of_pods(pod()), workers=(run(earlier),))
    found = decide(given, run(earlier))
    assert withdrawn(found)[1] == ""
    assert here.decide(given) == Wait()
    earlier["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    assert decide(given, run(earlier)) == Wait()
    made = decide(given, run())
    assert isinstance(made, Writes) and made.why == "begin"
    assert manifests(made)[0]["metadata"]["annotations"]["kueue.x-k8s.io/multikueue-origin-uid"] == "u-p"


STATUS: dict[str, tuple[Raw, Raw, Raw | None]] = {
    "a pod without a node shows nothing": (pod(), {"phase": "Pending", "conditions": []}, None),
    "a pod that runs": (pod(), RUNNING, {key: value for key, value in RUNNING.items() if key != "qosClass"}),
    "a pod that has the same status": (pod(status=RUNNING), RUNNING, RUNNING),
    "a pod that had no node in the worker": (
        pod(),
        {"phase": "Failed", "conditions": [{"type": "PodScheduled", "status": "False"}]},
        {"phase": "Failed", "conditions": []},
    ),
    "a pod that is being deleted here": (pod(deletionTimestamp="2027-01-15T08:00:00Z"), RUNNING, None),
}


@pytest.mark.parametrize(("local", "remote", "wanted"), STATUS.values(), ids=STATUS)
def test_a_pod_shows_the_status_of_the_pod_in_the_worker(local: Raw, remote: Raw, wanted: Raw | None) -> None:
    assert POD.status_from_worker(local, pod(gated=False) | {"status": remote}) == wanted


def test_the_caches_keep_the_whole_status_of_a_pod_that_runs_elsewhere() -> None:
    assert pod(status=RUNNING)["status"] == RUNNING
    assert "podIP" not in pod(gated=False, status=RUNNING)["status"]


def test_a_status_is_written_once() -> None:
    remote = pod(gated=False) | {"status": RUNNING}
    first = here.decide(replace(of_pods(pod()), workers=(run(remote),)))
    assert isinstance(first, Patch) and first.why == "copy"
    assert first.target is not None and first.target.resource == POD.resource
    assert first.body["status"]["podIP"] == "10.0.0.1"
    assert here.decide(replace(of_pods(pod(status=RUNNING)), workers=(run(remote),))) == Wait()


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_pod_that_its_worker_evicts_has_not_ended_here(phase: str, gone: bool) -> None:
    mark = {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted"}
    ends = RUNNING | {"phase": phase, "conditions": [*RUNNING["conditions"], mark]}
    jobs = () if gone else (pod(gated=False, deletionTimestamp="2027-01-15T08:00:00Z") | {"status": ends},)
    worker = Worker("w1", workload=copy(Evicted="True", Finished=f"True/{phase}"), jobs=jobs)
    found = here.decide(replace(of_pods(pod(status=RUNNING)), workers=(worker,)))
    assert isinstance(found, Patch) and found.why == "retry"
    evicted = of_pods(pod(status=RUNNING), cluster="", evicted="True")
    assert here.decide(replace(evicted, workers=(worker,))) == Wait()
    cleared = here.decide(replace(evicted, workers=(Worker("w1"),)))
    assert isinstance(cleared, Patch) and cleared.why == "copy" and cleared.body["status"]["phase"] == "Pending"


def stopped(name: str, phase: str) -> Raw:
    """A pod of a group of two that its worker has evicted: it keeps its finalizer until another one replaces it."""
    mark = {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted"}
    found = pod(name, group_of=2, gated=False, deletionTimestamp="2027-01-15T08:00:30Z")
    return found | {"status": RUNNING | {"phase": phase, "conditions": [*RUNNING["conditions"], mark]}}


def test_pods_of_a_group_that_its_worker_evicts_have_not_ended_here() -> None:
    def seen(*jobs: Raw) -> Worker:
        return Worker("w1", workload=copy(Evicted="True"), jobs=jobs)

    mine = [pod(name, group_of=2, status=RUNNING) for name in "ab"]
    first, last = stopped("a", "Failed"), stopped("b", "Failed")
    found = here.decide(replace(of_pods(*mine), workers=(seen(first, stopped("b", "Running")),)))
    assert isinstance(found, Patch) and found.why == "retry"
    evicted = of_pods(*mine, cluster="", evicted="True")
    assert here.decide(replace(evicted, workers=(seen(first, last),))) == Wait()
    assert decide(evicted, seen(first, stopped("b", "Running"))) == Wait()
    going = decide(evicted, seen(first, last))
    assert withdrawn(going) == ([], uids(copy())[0])


def test_a_pod_of_a_group_that_had_succeeded_before_its_worker_evicted_the_group_has_ended() -> None:
    mine = [pod(name, group_of=2, status=RUNNING) for name in "ab"]
    done = pod("a", group_of=2, gated=False) | {"status": RUNNING | {"phase": "Succeeded"}}
    worker = Worker("w1", workload=copy(Evicted="True"), jobs=(done, stopped("b", "Failed")))
    evicted = replace(of_pods(*mine, cluster="", evicted="True"), workers=(worker,))
    found = here.decide(evicted)
    assert isinstance(found, Patch) and found.why == "copy" and found.body["status"]["phase"] == "Succeeded"
    assert word(decide(evicted, worker)) == "withdraw"


def test_a_pod_that_ended_before_its_worker_evicted_it_has_ended() -> None:
    ends = RUNNING | {"phase": "Succeeded"}
    ended = pod(gated=False) | {"status": ends}
    worker = Worker("w1", workload=copy(Evicted="True", Finished="True/Succeeded"), jobs=(ended,))
    found = here.decide(replace(of_pods(pod(status=RUNNING)), workers=(worker,)))
    assert isinstance(found, Patch) and found.why == "copy" and found.body["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("pods", [(pod(status=RUNNING),), (pod("a", group_of=2, status=RUNNING), pod("b", group_of=2))])
def test_an_evicted_pod_shows_no_node_any_more_when_no_worker_has_it(pods: tuple[Raw, ...]) -> None:
    given = of_pods(*pods, cluster="", evicted="True")
    assert isinstance(given.kind, Pod) and given.job is not None and given.kind.active(given.job)
    found = here.decide(replace(given, workers=(Worker("w1"),)))
    assert isinstance(found, Patch) and found.why == "copy"
    assert found.body["status"] == {"phase": "Pending", "startTime": None, "podIP": None, "conditions": None}
