"""The warning that no worker cluster could ever take a job, and why, by what is known of the workers' queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from core.feedback.jobs import of_job
from core.feedback.rules import LIMIT, plain
from core.feedback.workers import why_never
from core.multikueue.hopeless import NO_WORKER, sentence
from core.state.lookup import Lookup
from core.state.state import State
from tests.core.feedback.world import job, world

CHECKED = """
- kind: AdmissionCheck
  metadata: {name: mk}
  spec: {controllerName: kueue.x-k8s.io/multikueue}
  status: {conditions: [{type: Active, status: "True"}]}
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    admissionChecksStrategy: {admissionChecks: [{name: mk}]}
    resourceGroups:
    - coveredResources: [cpu, memory]
      flavors:
      - name: standard
        resources: [{name: cpu, nominalQuota: 99}, {name: memory, nominalQuota: 99Gi}]
"""
STOPPED = """
- kind: LocalQueue
  metadata: {name: main, namespace: team-a}
  spec: {clusterQueue: team-a, stopPolicy: Hold}
"""
DRAINED = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec: {namespaceSelector: {}, stopPolicy: HoldAndDrain}
"""
OTHERS_ONLY = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec: {namespaceSelector: {matchLabels: {team: b}}}
"""
ELSEWHERE = """
- kind: LocalQueue
  metadata: {name: main, namespace: team-a}
  spec: {clusterQueue: gone}
"""
INACTIVE = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: gone, resources: [{name: cpu, nominalQuota: 8}]}]}]
"""
LARGE = {"cpu": "20"}


def without_namespace() -> Lookup:
    return Lookup(State())


NEVER: dict[str, tuple[Lookup, dict[str, object], str]] = {
    "it fits": (world(), {}, ""),
    "it fits with what can be borrowed": (world(), {"requests": {"cpu": "12"}}, ""),
    "nothing is known of the worker": (world(synced=False), {"requests": LARGE}, ""),
    "the namespace is missing": (without_namespace(), {}, 'no namespace "team-a"'),
    "the LocalQueue is missing": (world(), {"queue": "other"}, 'no LocalQueue "other"'),
    "the ClusterQueue is missing": (world(ELSEWHERE), {}, 'no ClusterQueue "gone"'),
    "the LocalQueue is stopped": (world(STOPPED), {}, 'LocalQueue "main" is stopped'),
    "the ClusterQueue is stopped": (world(DRAINED), {}, 'ClusterQueue "team-a" is stopped'),
    "the namespace is not admitted": (world(OTHERS_ONLY), {}, 'ClusterQueue "team-a" does not admit the namespace'),
    "the ClusterQueue is inactive": (world(INACTIVE), {}, 'ClusterQueue "team-a" is inactive'),
    "a resource has no quota": (world(), {"requests": {"nvidia.com/gpu": "1"}}, "no quota for nvidia.com/gpu"),
    "no flavor matches": (world(), {"nodeSelector": {"pool": "fast"}}, "no flavor matches the pods"),
    "it is too large": (world(), {"requests": LARGE}, "asks for 20 cpu, at most 12 is allowed"),
    "all pods together are too large": (world(), {"count": 13}, "asks for 13 cpu, at most 12 is allowed"),
    "fewer pods would fit": (world(), {"count": 13, "min_count": 12}, ""),
}


@pytest.mark.parametrize("case", NEVER)
def test_why_a_worker_could_never_take_a_job(case: str) -> None:
    worker, asked, wanted = NEVER[case]
    found = why_never(job(**asked), worker)  # type: ignore[arg-type]
    assert plain(found) == wanted


def warned(workers: Mapping[str, Lookup | None], **asked: object) -> list[str]:
    lookup = replace(world(CHECKED), workers=lambda check: workers if check == "mk" else {})
    found = of_job(job(**asked), lookup)  # type: ignore[arg-type]
    return [each.message for each in found if each.rule == "no-worker-cluster"]


CASES = [
    pytest.param(
        {"west": world(), "east": without_namespace()},
        "no-worker-cluster",
        f'{NO_WORKER}: west: asks for 20 cpu, at most 12 is allowed; east: no namespace "team-a"',
        id="the reason of each worker",
    ),
    pytest.param(
        {"west": world(), "east": world()},
        "no-worker-cluster",
        f"{NO_WORKER}: west, east: asks for 20 cpu, at most 12 is allowed",
        id="equal reasons are written once",
    ),
    pytest.param(
        {f"worker-{number}": world(more) for number, more in enumerate(["", DRAINED, STOPPED, OTHERS_ONLY])},
        "no-worker-cluster",
        f"{NO_WORKER}: worker-0: asks for 20 cpu, at most 12 is allowed; and 3 more",
        id="of many workers the first is named",
    ),
]


@pytest.mark.parametrize(("workers", "rule", "message"), CASES)
def test_a_job_that_no_worker_could_take_is_reported(
    workers: Mapping[str, Lookup | None], rule: str, message: str
) -> None:
    assert warned(workers, requests=LARGE) == [message]
    assert len(message) <= LIMIT


@pytest.mark.parametrize(
    "workers",
    [
        {},
        {"w1": world(), "w2": None},
        {"w1": world(), "w2": world(synced=False)},
    ],
    ids=["it is not a check of MultiKueue", "a worker is not connected", "the queues of a worker are not read"],
)
def test_nothing_is_reported_while_a_worker_may_take_it(workers: Mapping[str, Lookup | None]) -> None:
    assert warned(workers, requests=LARGE) == []


def test_nothing_is_reported_if_one_worker_could_take_it() -> None:
    assert warned({"w1": world(), "w2": without_namespace()}) == []


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        pytest.param({"requests": {}}, False, id="nothing"),
        pytest.param({"requests": {"example.com/licence": "0"}}, False, id="nothing of what is counted"),
        pytest.param({"requests": {"cpu": "0"}}, True, id="zero of what is counted"),
        pytest.param({"requests": {}, "limits": {"cpu": "1"}}, True, id="a limit, which counts"),
    ],
)
def test_a_job_that_gets_no_flavor_has_no_check_and_no_worker(asked: dict[str, object], offered: bool) -> None:
    told = (
        'no worker cluster gets it: this job requests nothing of what ClusterQueue "team-a" counts;'
        " add resources.requests"
    )
    assert len(told) <= LIMIT
    assert warned({"w1": world(), "w2": None}, **asked) == ([] if offered else [told])


def test_a_job_without_requests_gets_a_flavor_where_pods_are_counted() -> None:
    counted = CHECKED.replace("[cpu, memory]", "[cpu, memory, pods]").replace(
        "{name: memory, nominalQuota: 99Gi}", "{name: memory, nominalQuota: 99Gi}, {name: pods, nominalQuota: 9}"
    )
    lookup = replace(world(counted), workers=lambda check: {"w1": world()})
    found = of_job(job(requests={}), lookup)
    assert [each.rule for each in found] == ["no-requests"]


def test_the_sentence_of_the_check_has_all_reasons() -> None:
    assert sentence({"a": "x", "b": "y", "c": "x"}) == f"{NO_WORKER}: a, c: x; b: y"
