"""What a person who submits a job is told: each rule by the very sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feedback.jobs import JOB_RULES, of_job
from core.feedback.rules import LIMIT
from core.feedback.submission import Submission
from tests.core.feedback.world import job, running, waiting, world

STOPPED = """
- kind: LocalQueue
  metadata: {name: main, namespace: team-a}
  spec: {clusterQueue: team-a, stopPolicy: Hold}
"""
LOST = """
- kind: LocalQueue
  metadata: {name: main, namespace: team-a}
  spec: {clusterQueue: taem-a}
"""
DRAINED = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec: {namespaceSelector: {}, stopPolicy: HoldAndDrain}
"""
MISSING = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu, memory], flavors: [{name: gone, resources: [
      {name: cpu, nominalQuota: 8}, {name: memory, nominalQuota: 32Gi}]}]}]
"""
GOING = """
- kind: ClusterQueue
  metadata: {name: team-a, deletionTimestamp: "2026-01-01T00:00:00Z"}
  spec: {namespaceSelector: {}}
"""
NOBODY = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec: {resourceGroups: []}
"""

ALONE = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    %s
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: standard, resources: [{name: cpu, nominalQuota: 8}]}]}]
"""
STRICT = ALONE % "queueingStrategy: StrictFIFO"
PREEMPTING = ALONE % "preemption: {withinClusterQueue: LowerPriority}"

CASES = [
    pytest.param(job(), "", "", "", id="nothing to say of a good job"),
    pytest.param(
        job(queue="mian"),
        "",
        "local-queue-not-found",
        'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?',
        id="a misspelt queue",
    ),
    pytest.param(
        job(queue=""),
        "",
        "no-queue",
        "names no queue and waits until it does: set label kueue.x-k8s.io/queue-name to main",
        id="a job without a queue where all jobs wait",
    ),
    pytest.param(
        job(queue="gpu-experiments"),
        "",
        "local-queue-not-found",
        'LocalQueue "gpu-experiments" does not exist in namespace "team-a": there are: main',
        id="a queue like no other",
    ),
    pytest.param(
        job(namespace="team-c"),
        "",
        "local-queue-not-found",
        'LocalQueue "main" does not exist in namespace "team-c": there are no LocalQueues yet',
        id="a namespace without queues",
    ),
    pytest.param(
        job(),
        STOPPED,
        "local-queue-stopped",
        'LocalQueue "main" is stopped (stopPolicy Hold): the job waits until it is resumed',
        id="a stopped LocalQueue",
    ),
    pytest.param(
        job(),
        LOST,
        "cluster-queue-not-found",
        'LocalQueue "main" leads to ClusterQueue "taem-a", which does not exist: did you mean "team-a"?',
        id="a LocalQueue that leads nowhere",
    ),
    pytest.param(
        job(),
        DRAINED,
        "cluster-queue-stopped",
        'ClusterQueue "team-a" is stopped (stopPolicy HoldAndDrain): the job waits until it is resumed',
        id="a ClusterQueue that is drained",
    ),
    pytest.param(
        job(),
        MISSING,
        "cluster-queue-inactive",
        'ClusterQueue "team-a" admits nothing until an administrator mends it:'
        " references missing ResourceFlavor(s): gone",
        id="a ClusterQueue without its flavor",
    ),
    pytest.param(
        job(),
        GOING,
        "cluster-queue-inactive",
        'ClusterQueue "team-a" is being deleted: the job waits until one of its name is made again',
        id="a ClusterQueue that is being deleted",
    ),
    pytest.param(
        job(),
        NOBODY,
        "namespace-not-selected",
        'ClusterQueue "team-a" admits no namespace at all: its namespaceSelector is not set',
        id="a ClusterQueue for nobody",
    ),
    pytest.param(
        job(namespace="team-b", queue="other"),
        "[{kind: LocalQueue, metadata: {name: other, namespace: team-b}, spec: {clusterQueue: team-a}}]",
        "namespace-not-selected",
        'ClusterQueue "team-a" does not admit namespace "team-b": it wants team=a',
        id="a namespace that is not selected",
    ),
    pytest.param(
        job(priority_class="urgnet"),
        "",
        "priority-class-not-found",
        'WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?',
        id="a misspelt priority class",
    ),
    pytest.param(
        job(priorityClassName="hgih-priority"),
        "",
        "priority-class-not-found",
        'PriorityClass "hgih-priority" does not exist, so no pod can be made: did you mean "high-priority"?',
        id="a misspelt PriorityClass of the pods",
    ),
    pytest.param(
        job(requests={"cpu": "20"}),
        "",
        "request-too-large",
        'never starts: asks for 20 cpu, ClusterQueue "team-a" gives at most 12 in standard (8 own, 4 borrowed)',
        id="more than could ever be borrowed",
    ),
    pytest.param(
        job(requests={"cpu": "2"}, count=10),
        "",
        "request-too-large",
        'never starts: asks for 20 cpu, ClusterQueue "team-a" gives at most 12 in standard (8 own, 4 borrowed)',
        id="so many pods count together",
    ),
    pytest.param(
        job(requests={"cpu": "2"}, count=10, min_count=7),
        "",
        "min-parallelism-too-large",
        'never starts: even 7 pods ask for 14 cpu, ClusterQueue "team-a" gives 12;'
        " set job-min-parallelism to 6 or less",
        id="min-parallelism that cannot fit",
    ),
    pytest.param(
        job(requests={"memory": "33Gi"}, count=2, min_count=1),
        "",
        "min-parallelism-too-large",
        'never starts: even 1 pod asks for 33Gi memory, ClusterQueue "team-a" gives 32Gi; not even one pod fits',
        id="a minimum of pods none of which fits",
    ),
    pytest.param(
        job(requests={"cpu": "2"}, count=10, min_count=3),
        "",
        "only-partly",
        'starts with 6 of its 10 pods at most: ClusterQueue "team-a" cannot give more',
        id="never with all of its pods",
    ),
    pytest.param(job(requests={"cpu": "2"}, count=6, min_count=3), "", "only-partly", "", id="or with all of them"),
    pytest.param(
        job(namespace="team-b", requests={"cpu": "20"}, tolerations=[{"key": "spot", "operator": "Exists"}]),
        "",
        "request-too-large",
        'never starts: asks for 20 cpu, ClusterQueue "team-b" gives at most 16 in standard, 4 in spot',
        id="two flavors, each with its most",
    ),
    pytest.param(
        job(requests={"memory": "40Gi"}),
        "",
        "nobody-lends",
        'never starts: asks for 40Gi memory, ClusterQueue "team-a" owns 32Gi, nobody in cohort "research" lends',
        id="a cohort in which nobody lends memory",
    ),
    pytest.param(
        job(requests={"nvidia.com/gpu": "2"}, count=2),
        "",
        "resource-not-covered",
        'ClusterQueue "team-a" gives no nvidia.com/gpu (asked: 4): it covers cpu, memory',
        id="a resource that the queue has not",
    ),
    pytest.param(
        job(nodeSelector={"pool": "fast"}),
        "",
        "no-matching-flavor",
        'no flavor of ClusterQueue "team-a" takes pod set main: standard has pool=standard, not fast',
        id="a node selector that no flavor has",
    ),
    pytest.param(
        job(namespace="team-b", nodeSelector={"pool": "spot"}),
        "",
        "no-matching-flavor",
        "no flavor takes pod set main: standard has pool=standard, not spot;"
        " spot needs a toleration of spot=true:NoSchedule",
        id="a toleration is missing",
    ),
    pytest.param(
        job(requests={}),
        "",
        "no-requests",
        "no container requests anything (main): the job takes no quota; add resources.requests",
        id="no requests at all",
    ),
    pytest.param(
        job(requests={"memory": "1Gi"}, limits={"cpu": "4", "memory": "2Gi"}),
        "",
        "limits-as-requests",
        "container main limits cpu to 4 but requests none: the limit counts as request",
        id="a limit stands in",
    ),
    pytest.param(
        job(requests={"cpu": "4"}, limits={"cpu": "2"}),
        "",
        "invalid-pods",
        "never admitted: containers[0] asks for 4 cpu, its limit is 2",
        id="requests above limits",
    ),
    pytest.param(
        job(requests={"cpu": "10"}),
        "",
        "only-by-borrowing",
        'asks for 10 cpu, 8 is its own: starts only while 2 can be borrowed in cohort "research"',
        id="only by borrowing",
    ),
    pytest.param(
        job(requests={"cpu": "4"}),
        running("big", "team-a", "team-a", "10"),
        "will-wait",
        'will wait: asks for 4 cpu, 2 is free in ClusterQueue "team-a"; it is next in line',
        id="next in line",
    ),
    pytest.param(
        job(requests={"cpu": "4"}),
        running("big", "team-a", "team-a", "10") + waiting("w-1", "team-a", "9") + waiting("w-2", "team-a", "3"),
        "will-wait",
        'will wait: asks for 4 cpu, 2 is free in ClusterQueue "team-a"; place 3 in line, 2 workloads ahead',
        id="two ahead",
    ),
    pytest.param(
        job(requests={"cpu": "4"}, priorityClassName="high-priority"),
        running("big", "team-a", "team-a", "10") + waiting("w-1", "team-a", "9") + waiting("w-2", "team-a", "3"),
        "will-wait",
        'will wait: asks for 4 cpu, 2 is free in ClusterQueue "team-a"; it is next in line',
        id="the priority of the pods counts where no class of Kueue's is named",
    ),
    pytest.param(
        job(requests={"cpu": "4"}),
        PREEMPTING + running("big", "team-a", "team-a", "6"),
        "will-wait",
        'will wait unless it can preempt: asks for 4 cpu, 2 is free in ClusterQueue "team-a"; it is next in line',
        id="a queue that preempts",
    ),
    pytest.param(
        job(requests={"cpu": "1"}),
        STRICT + running("big", "team-a", "team-a", "6") + waiting("w-1", "team-a", "4", told=True),
        "will-wait",
        'will wait: ClusterQueue "team-a" is StrictFIFO and its head does not fit; place 2 in line, 1 workload ahead',
        id="a strict queue whose head does not fit",
    ),
    pytest.param(
        job(requests={"cpu": "1"}),
        STRICT + running("big", "team-a", "team-a", "6") + waiting("w-1", "team-a", "4"),
        "",
        "",
        id="a strict queue whose head has yet to be looked at",
    ),
    pytest.param(
        job(requests={"cpu": "4"}, priority_class="urgent"),
        running("big", "team-a", "team-a", "10") + waiting("w-1", "team-a", "9", 2000) + waiting("w-2", "team-a", "3"),
        "will-wait",
        'will wait: asks for 4 cpu, 2 is free in ClusterQueue "team-a"; place 2 in line, 1 workload ahead',
        id="an urgent job goes before those of less priority",
    ),
]


@pytest.mark.parametrize(("submitted", "more", "rule", "message"), CASES)
def test_what_is_said(submitted: Submission, more: str, rule: str, message: str) -> None:
    found = of_job(submitted, world(more))
    assert [(finding.rule, finding.message) for finding in found if finding.rule == rule or not rule] == (
        [(rule, message)] if message else []
    )


def test_every_rule_has_its_case() -> None:
    assert {rule.name for rule in JOB_RULES} == {case.values[2] for case in CASES} - {""}


def test_cold_caches_say_nothing() -> None:
    assert of_job(job(queue="mian"), world(synced=False)) == ()


def test_a_job_without_a_queue_is_told_only_that() -> None:
    assert [finding.rule for finding in of_job(job(queue="", asks={"cpu": "900"}), world())] == ["no-queue"]


names = st.text(alphabet="abcdefghij-", min_size=1, max_size=253)


@given(names, names, names, st.integers(1, 10**15), st.integers(1, 10**6))
def test_every_message_fits_whatever_the_names(
    namespace: str, queue: str, priority_class: str, amount: int, count: int
) -> None:
    more = f"""
- kind: LocalQueue
  metadata: {{name: "{queue}", namespace: "{namespace}"}}
  spec: {{clusterQueue: team-a}}
"""
    lookup = world(more)
    lookup.state.set_namespace(namespace, {})
    for asked in ({"cpu": str(amount)}, {"memory": str(amount)}, {"x/y": "1"}, {}):
        submitted = job(namespace, queue, priority_class, count, requests=asked, limits={"cpu": str(amount)})
        for finding in (*of_job(submitted, lookup), *of_job(submitted, world())):
            assert 0 < len(finding.message) <= LIMIT
            assert finding.message.isprintable()
