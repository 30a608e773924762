"""The pods of a group of pod sets get the domains of their ranks, however their controller numbers them."""

import itertools

import pytest

from api.objects import Raw
from core.model import Admission, Key, PodSet, PodSetAssignment, TopologyAssignment, TopologyDomain, Workload
from core.topology.nodes import HOSTNAME
from core.workload import ungating

COMPLETION, JOB = "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-index"
REPLICA, WORKER = "training.kubeflow.org/replica-index", "leaderworkerset.sigs.k8s.io/worker-index"
WORKERS = TopologyAssignment((HOSTNAME,), tuple(TopologyDomain((f"n{n}",), count) for n, count in enumerate((1, 2, 1))))
LEADER = TopologyAssignment((HOSTNAME,), (TopologyDomain(("n0",), 1),))


def pod(number: int, labels: dict[str, int]) -> ungating.PodOfWorkload:
    numbers = {label: str(value) for label, value in labels.items()}
    raw: Raw = {
        "metadata": {
            "name": f"p{number}",
            "namespace": "ns",
            "uid": f"u{number}",
            "resourceVersion": "1",
            "labels": {"kueue.x-k8s.io/podset": "workers", **numbers},
            "annotations": {"kueue.x-k8s.io/workload": "w"},
        },
        "spec": {"schedulingGates": [{"name": ungating.GATE}]},
    }
    return ungating.read(raw)


@pytest.mark.parametrize(
    ("request_of_workers", "labels"),
    [
        pytest.param(
            {"podIndexLabel": COMPLETION, "subGroupIndexLabel": JOB, "subGroupCount": 2},
            [{COMPLETION: number % 2, JOB: number // 2} for number in range(4)],
            id="jobset",
        ),
        pytest.param({"podIndexLabel": REPLICA}, [{REPLICA: number} for number in range(4)], id="mpijob"),
        pytest.param({"podIndexLabel": WORKER}, [{WORKER: number + 1} for number in range(4)], id="leaderworkerset"),
    ],
)
def test_workers_of_a_group_get_the_domain_of_their_rank_whichever_is_there_first(
    request_of_workers: Raw, labels: list[dict[str, int]]
) -> None:
    assignments = (
        PodSetAssignment("leader", {}, {}, 1, LEADER),
        PodSetAssignment("workers", {}, {}, 4, WORKERS),
    )
    pod_sets = (PodSet("leader", 1, {}), PodSet("workers", 4, {}))
    workload = Workload(Key("ns", "w"), "uid", 0.0, "q", 0, pod_sets, admission=Admission("q", assignments))
    group = {"podSetGroupName": "g"}
    spec: Raw = {
        "podSets": [
            {"name": "leader", "count": 1, "topologyRequest": group},
            {"name": "workers", "count": 4, "topologyRequest": group | request_of_workers},
        ]
    }
    for some in itertools.combinations(range(4), 3):
        found = ungating.given(workload, spec, [pod(number, labels[number]) for number in some])
        nodes = {each.pod.pod.name: each.body["spec"]["nodeSelector"][HOSTNAME] for each in found}
        assert nodes == {f"p{number}": ("n0", "n1", "n1", "n2")[number] for number in some}
