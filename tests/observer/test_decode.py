"""What the API server stores becomes values; Jobs and pods are made here with the encoder of the wire format."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from observer.decode import Job, Pod, Queue, Quota, Workload, amount, decoded, kind_of

Value = bytes | str | int
Message = dict[int, "Value | list[Value]"]


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def message(fields: Message) -> bytes:
    found = b""
    for number, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int):
                found += varint(number << 3) + varint(each)
            else:
                content = each.encode() if isinstance(each, str) else each
                found += varint(number << 3 | 2) + varint(len(content)) + content
    return found


def stored(fields: Message) -> bytes:
    return b"k8s\0" + message({1: message({1: "v1", 2: "Kind"}), 2: message(fields)})


def metadata(**labels: str) -> Message:
    entries: list[Value] = [message({1: key.replace("_", "/"), 2: value}) for key, value in labels.items()]
    return {1: "a", 3: "team", 5: "uid-a", 11: entries}


@pytest.mark.parametrize(
    ("spec", "status", "runs", "ended", "pods"),
    [
        ({1: 300}, {}, True, False, 300),
        ({1: 2, 2: 7, 10: 0}, {}, True, False, 7),
        ({1: 1, 10: 1}, {}, False, False, 1),
        ({10: 0}, {1: [message({1: "Suspended", 2: "False"}), message({1: "Complete", 2: "True"})]}, False, True, 1),
        ({10: 0}, {1: [message({1: "Failed", 2: "True"})]}, False, True, 1),
    ],
)
def test_a_job(spec: Message, status: Message, runs: bool, ended: bool, pods: int) -> None:
    labels = {"kueue.x-k8s.io_queue-name": "main"}
    value = stored({1: message(metadata(**labels)), 2: message(spec), 3: message(status)})
    assert decoded("Job", value) == Job("team/a", "uid-a", queued=True, runs=runs, ended=ended, pods=pods)


def test_a_job_that_is_being_deleted_does_not_run_and_one_without_a_queue_is_not_queued() -> None:
    value = stored({1: message(metadata() | {9: message({1: 5})}), 2: message({10: 0}), 3: b""})
    assert decoded("Job", value) == Job("team/a", "uid-a", queued=False, runs=False, ended=False)


def test_a_pod_uses_what_its_containers_request_until_it_ends() -> None:
    def container(cpu: str) -> bytes:
        return message({1: "main", 8: message({2: [message({1: "cpu", 2: message({1: cpu})})]})})

    labels = {"batch.kubernetes.io_controller-uid": "job-a"}
    fields: Message = {1: message(metadata(**labels)), 2: message({2: [container("500m"), container("1")]})}
    running = stored(fields | {3: message({1: "Running"})})
    ended = stored(fields | {3: message({1: "Succeeded"})})
    assert decoded("Pod", running) == Pod("team/a", "uid-a", "job-a", {"cpu": Fraction(3, 2)})
    assert decoded("Pod", ended) == Pod("team/a", "uid-a", "job-a", {})


def test_a_workload_holds_what_its_pods_still_need() -> None:
    given = {"name": "main", "count": 4, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "4"}}
    raw = {
        "metadata": {"namespace": "team", "name": "a", "uid": "wl", "labels": {"kueue.x-k8s.io/job-uid": "job"}},
        "status": {
            "admission": {"clusterQueue": "q", "podSetAssignments": [given]},
            "reclaimablePods": [{"name": "main", "count": 1}],
            "conditions": [
                {"type": kind, "status": value}
                for kind, value in (("QuotaReserved", "True"), ("Admitted", "True"), ("Evicted", "False"))
            ],
        },
    }
    found = decoded("Workload", json.dumps(raw).encode())
    assert isinstance(found, Workload)
    assert (found.usage, found.queue, found.job) == ({("spot", "cpu"): Fraction(3)}, "q", "job")
    assert (found.holds, found.runs, found.evicted) == (True, True, False)
    shrunk = {**raw, "spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": {}}}]}}
    found = decoded("Workload", json.dumps(shrunk).encode())
    assert isinstance(found, Workload) and found.usage == {("spot", "cpu"): Fraction(1)}


def test_a_queue_has_its_quotas_and_limits() -> None:
    resources = [{"name": "cpu", "nominalQuota": "2", "borrowingLimit": 0}, {"name": "memory", "nominalQuota": "1Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "spot", "resources": resources}]}
    raw = {"metadata": {"name": "q"}, "spec": {"cohortName": "all", "resourceGroups": [group]}}
    quotas = {
        ("spot", "cpu"): Quota(Fraction(2), Fraction(0), None),
        ("spot", "memory"): Quota(Fraction(2**30), None, None),
    }
    assert decoded("ClusterQueue", json.dumps(raw).encode()) == Queue("q", "all", quotas, {})


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", Fraction(1, 2)), ("2", 2), (3, 3), ("1.5Gi", 3 * 2**29), ("1e3", 1000), ("2k", 2000), ("1E", 10**18)],
)
def test_quantities(text: str | int, number: Fraction) -> None:
    assert amount(text) == number


def test_the_kind_follows_from_the_key() -> None:
    assert kind_of("/registry/jobs/team/a") == "Job"
    assert kind_of("/registry/kueue.x-k8s.io/cohorts/a") == "Cohort"
    assert kind_of("/registry/leases/kube-system/a") == ""
