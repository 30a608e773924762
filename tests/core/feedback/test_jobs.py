"""The messages for a user who submits a job: each rule with its exact text, most of them as the table `jobs.yaml`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.feedback.jobs import JOB_RULES, of_job
from core.feedback.rules import LIMIT, fitted, shortened
from core.feedback.submission import OF_JOB, PodSpec, Submission, submission
from core.model import Key, Plan, PodSet, Raw
from core.model.forecast import StartForecast
from core.scheduling.cycle import schedule
from core.scheduling.snapshot import Snapshot
from core.state import what_if
from core.wire.active import Cause
from core.wire.pod_requests import RequestRules, limits
from core.workload.priority import PriorityClasses
from tests.core.feedback.table import WORLDS
from tests.core.feedback.table import cases as rows
from tests.core.feedback.test_resource_quotas import RESOURCE_QUOTAS
from tests.core.feedback.world import job, running, world
from tests.effort import cases

ALONE = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    %s
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: standard, resources: [{name: cpu, nominalQuota: 8}]}]}]
"""
PREEMPTING = ALONE % "preemption: {withinClusterQueue: LowerPriority}"
CASES = rows()
GROUPS = replace(OF_JOB, pods="replicas", unit="group")
SEVERAL = [
    pytest.param(
        replace(job(requests={"cpu": "2"}), units=10, words=replace(OF_JOB, pods="replicas")),
        "",
        "only-some-replicas",
        'at most 6 of 10 pods can run: each asks for 2 cpu, ClusterQueue "team-a" allows 12; set replicas to 6',
        id="more replicas than can ever run",
    ),
    pytest.param(
        replace(job(count=2, requests={"cpu": "1"}), units=4, words=GROUPS),
        running("one", "team-a", "team-a", "8"),
        "only-some-replicas",
        '2 of 4 groups start now: each group asks for 2 cpu, 4 free in ClusterQueue "team-a"; the others start'
        " automatically",
        id="groups of which some fit beside what runs",
    ),
    pytest.param(
        replace(job(requests={"cpu": "2"}), units=4), "", "only-some-replicas", "", id="all replicas start now"
    ),
    pytest.param(
        replace(job(requests={"cpu": "2"}), units=6),
        running("one", "team-a", "team-a", "12"),
        "only-some-replicas",
        "",
        id="none starts now, which another rule reports",
    ),
    pytest.param(
        replace(job(requests={"cpu": "20"}), units=6),
        "",
        "only-some-replicas",
        "",
        id="none can ever start, which another rule reports",
    ),
]


@pytest.mark.parametrize(("submitted", "more", "rule", "message"), SEVERAL)
def test_of_parts_that_are_queued_one_by_one_is_told_how_many_can_run(
    submitted: Submission, more: str, rule: str, message: str
) -> None:
    found = [each.message for each in of_job(submitted, world(more)) if each.rule == rule]
    assert found == ([message] if message else [])


def test_a_hundred_thousand_replicas_are_counted_at_once() -> None:
    lookup = world()
    huge = replace(job(requests={"cpu": "1m"}), units=100_000)
    assert [each.rule for each in of_job(huge, lookup)] == ["only-some-replicas"]


def test_messages_have_the_word_of_the_kind() -> None:
    submitted = replace(job(requests={}), words=replace(OF_JOB, job="StatefulSet"))
    assert [each.message for each in of_job(submitted, world(WORLDS["stopped"]))] == [
        'LocalQueue "main" is stopped (stopPolicy Hold): the StatefulSet waits until an administrator resumes it',
        "no container requests anything (main): the StatefulSet uses no quota; add resources.requests",
    ]


ONE_BY_ONE = [
    pytest.param(
        job(),
        running("one", "team-a", "team-a", "1"),
        "pods-not-ready",
        "will wait until the pods of 1 workload are ready: waitForPodsReady.blockAdmission admits one at a time;"
        " see one",
        id="the pods of another are not ready",
    ),
    pytest.param(
        job(),
        running("one", "team-b", "team-b", "1") + running("two", "team-b", "team-b", "1"),
        "pods-not-ready",
        "will wait until the pods of 2 workloads are ready (waitForPodsReady.blockAdmission);"
        " they are in other namespaces",
        id="nor those of two in other namespaces",
    ),
    pytest.param(job(), "", "pods-not-ready", "", id="all pods are ready"),
]


RESIZED = [
    pytest.param(
        replace(job(count=5), runs_with=3),
        "running-job-resized",
        "changing from 3 to 5 pods suspends this running job and requeues it; for 2 more pods submit another job",
        id="more pods",
    ),
    pytest.param(
        replace(job(count=2), runs_with=3),
        "running-job-resized",
        "changing from 3 to 2 pods suspends this running job and requeues it; with 3 it continues to run",
        id="fewer pods",
    ),
    pytest.param(
        replace(job(count=50), runs_with=3),
        "request-too-large",
        'never starts: 50 pods ask for 50 cpu, ClusterQueue "team-a" allows 12 in standard;'
        " set parallelism to 12 or less",
        id="more pods than there can be",
    ),
]


@pytest.mark.parametrize(("submitted", "rule", "message"), RESIZED)
def test_resizing_a_running_job_gives_a_warning_with_the_consequence(
    submitted: Submission, rule: str, message: str
) -> None:
    found = of_job(submitted, world(running("self", "team-a", "team-a", "12")))
    assert (rule, message) in {(each.rule, each.message) for each in found}
    assert "will-wait" not in {each.rule for each in found}, "what it holds itself is free then"


@pytest.mark.parametrize(("submitted", "more", "rule", "message"), ONE_BY_ONE)
def test_if_jobs_start_one_after_the_other_the_awaited_one_is_named(
    submitted: Submission, more: str, rule: str, message: str
) -> None:
    found = [each.message for each in of_job(submitted, world(more, one_by_one=True)) if each.rule == rule]
    assert found == ([message] if message else [])
    assert not [each for each in of_job(submitted, world(more)) if each.rule == rule], "otherwise nobody waits for pods"


@pytest.mark.parametrize(("submitted", "more", "rule", "message"), CASES)
def test_the_messages_of_each_case(submitted: Submission, more: str, rule: str, message: str) -> None:
    found = of_job(submitted, world(more))
    assert [(finding.rule, finding.message) for finding in found if finding.rule == rule or not rule] == (
        [(rule, message)] if message else []
    )


DEFAULTED = limits(
    [{"metadata": {"name": "d"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}}]
)


@pytest.mark.parametrize(
    ("rules", "resources", "spec"),
    [
        pytest.param(RequestRules(limits=DEFAULTED), {}, {}, id="a LimitRange gives them a request"),
        pytest.param(
            RequestRules(limits=DEFAULTED), {"limits": {"cpu": "4"}}, {}, id="that, and not the limit, counts"
        ),
        pytest.param(RequestRules(excluded_prefixes=("cpu",)), {"limits": {"cpu": "4"}}, {}, id="cpu is not counted"),
        pytest.param(
            RequestRules(), {"limits": {"cpu": "4"}}, {"resources": {"requests": {"cpu": "1"}}}, id="the pod requests"
        ),
    ],
)
def test_containers_without_requests_give_no_warning_if_other_requests_count(
    rules: RequestRules, resources: Raw, spec: Raw
) -> None:
    pods = PodSpec("main", 1, {"containers": [{"name": "main", "image": "i", "resources": resources}], **spec})
    assert of_job(submission("team-a", "main", "", [pods], rules), world()) == ()


def test_a_resource_in_no_queue_gives_no_warning_if_undeclared_resources_are_ignored() -> None:
    asked = job(requests={"cpu": "1", "nvidia.com/gpu": "2"})
    assert [each.rule for each in of_job(asked, world())] == ["resource-not-covered"]
    assert of_job(asked, world(undeclared=True)) == ()


HELD = """
- kind: LocalQueue
  metadata: {name: main, namespace: team-a}
  spec: {clusterQueue: team-a, stopPolicy: Hold}
- kind: LocalQueue
  metadata: {name: spare, namespace: team-a}
  spec: {clusterQueue: %s}
- kind: ClusterQueue
  metadata: {name: gpus}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: standard, resources: [
      {name: nvidia.com/gpu, nominalQuota: 4}]}]}]
"""
STUCK = 'LocalQueue "main" is stopped (stopPolicy Hold): the job waits until an administrator resumes it'


@pytest.mark.parametrize(
    ("asked", "more", "message"),
    [
        pytest.param(job(), HELD % "gpus", STUCK, id="one without the resources"),
        pytest.param(job(requests={"cpu": "30"}), HELD % "team-b", STUCK, id="one that is too small"),
        pytest.param(job(nodeSelector={"pool": "fast"}), HELD % "team-b", STUCK, id="one on other nodes"),
        pytest.param(
            job(),
            HELD % "team-b",
            f'{STUCK.replace(" an administrator resumes it", " resumed")}; LocalQueue "spare" is active',
            id="one that takes it",
        ),
        pytest.param(
            job(queue=""),
            HELD % "gpus",
            "has no queue name and waits: set label kueue.x-k8s.io/queue-name",
            id="none of those there",
        ),
        pytest.param(
            job(queue=""),
            HELD % "team-b",
            "has no queue name and waits: set label kueue.x-k8s.io/queue-name to spare",
            id="the one of those there",
        ),
    ],
)
def test_only_a_queue_on_which_the_job_can_run_is_recommended(asked: Submission, more: str, message: str) -> None:
    assert message in [each.message for each in of_job(asked, world(more))]


GPU_NODES = """
- kind: ClusterQueue
  metadata: {name: gpu}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{name: standard, resources: [
      {name: cpu, nominalQuota: 8}, {name: memory, nominalQuota: 32Gi}, {name: nvidia.com/gpu, nominalQuota: %s}]}]}]
- kind: LocalQueue
  metadata: {name: a-gpu, namespace: team-a}
  spec: {clusterQueue: gpu}
"""


@pytest.mark.parametrize(
    ("gpus", "asked", "instead"),
    [(4, {"cpu": "6"}, "spare"), (0, {"cpu": "6"}, "a-gpu"), (4, {"cpu": "6", "nvidia.com/gpu": "1"}, "a-gpu")],
    ids=["nobody is sent to the nodes with devices", "quota of 0 is none", "who asks for the device is"],
)
def test_only_jobs_that_ask_for_a_device_are_sent_to_quota_that_has_it(
    gpus: int, asked: dict[str, str], instead: str
) -> None:
    lookup = world(WORLDS["stopped"] + WORLDS["spare"] + GPU_NODES % gpus)
    messages = [each.message for each in of_job(job(requests=asked), lookup)]
    assert [f'LocalQueue "{instead}" ' in each for each in messages if "is stopped" in each] == [True]


def test_where_more_is_used_than_there_is_it_is_told_how_much_must_be_released() -> None:
    lowered = world(ALONE % "" + running("one", "team-a", "team-a", "6") + running("two", "team-a", "team-a", "4"))
    assert [each.message for each in of_job(job(requests={"cpu": "1"}), lowered)] == [
        'will wait: asks for 1 cpu, 0 free in ClusterQueue "team-a", 3 must be released; queue position 1; starts'
        " automatically"
    ]


def test_a_job_that_waits_is_told_when_it_starts_if_the_forecast_of_one_like_it_is_known() -> None:
    full = world(ALONE % "" + running("one", "team-a", "team-a", "8"))
    asked = []

    def expected(queue: Key, priority: int, pod_sets: tuple[PodSet, ...]) -> StartForecast | None:
        asked.append((queue, priority, pod_sets[0].requests["cpu"]))
        return StartForecast(Key("team-a", "0?"), "team-a", 1000.0, p10=300.0, p50=720.0, p90=2400.0)

    known = replace(full, newcomer_forecast=expected)
    assert [each.message for each in of_job(job(requests={"cpu": "1"}), known)] == [
        'will wait: asks for 1 cpu, 0 free in ClusterQueue "team-a", 1 missing; queue position 1, about 12'
        " min (5 to 40)"
    ]
    assert asked[0] == (Key("team-a", "main"), 0, 1000)
    unknown = replace(full, newcomer_forecast=lambda *_: StartForecast(Key("team-a", "0?"), "team-a", 1000.0))
    assert "queue position 1; starts automatically" in of_job(job(requests={"cpu": "1"}), unknown)[0].message


def test_a_complaint_names_the_container_and_the_limit_range() -> None:
    ranges = [
        {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **bounds}]}}
        for name, bounds in (
            ("a", {"max": {"cpu": "9"}}),
            ("b", {"max": {"cpu": "8"}, "default": {"cpu": "1"}}),
            ("c", {"max": {"cpu": "10"}, "min": {"memory": "1Gi"}}),
        )
    ]

    def told(requests: dict[str, str], limits_of: dict[str, str], kind: str = "containers") -> str:
        other = {"name": "other", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
        wrong = {"name": "wrong", "resources": {"requests": requests, "limits": limits_of}}
        spec = {"containers": [other], kind: [other, wrong]}
        found = submission("team-a", "main", "", [PodSpec("main", 1, spec)], RequestRules(limits=limits(ranges)))
        return next(iter(found.complaints), "")

    assert [
        told({"cpu": "4"}, {}),
        told({"cpu": "4"}, {"cpu": "2"}, "initContainers"),
        told({"cpu": "9"}, {"cpu": "9"}),
        told({"memory": "1Mi"}, {}),
    ] == [
        f'container {shortened("wrong")} asks for 4 {shortened("cpu")}, LimitRange "{shortened("b")}" limits it to 1'
        " by default; set a limit of 4 or more",
        f"init container {shortened('wrong')} asks for 4 {shortened('cpu')}, its limit is 2; ask for 2 or raise the"
        " limit",
        f'container {shortened("wrong")} asks for 9 {shortened("cpu")}, LimitRange "{shortened("b")}" allows 8 at'
        " most; ask for 8 or less",
        f'container {shortened("wrong")} asks for 1Mi {shortened("memory")}, LimitRange "{shortened("c")}" wants 1Gi'
        " at least; ask for 1Gi or more",
    ]


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (
            Cause("west", 'Secret "west-secret" not found'),
            'AdmissionCheck "budget" is inactive: MultiKueueCluster "west": Secret "west-secret" not found',
        ),
        (
            Cause("", "the budget service does not answer"),
            'ClusterQueue "team-a" admits nothing: AdmissionCheck "budget" is inactive: the budget service does not'
            " answer",
        ),
    ],
    ids=["a worker cluster of MultiKueue", "another controller"],
)
def test_an_inactive_check_is_told_with_its_cause(cause: Cause, message: str) -> None:
    lookup = replace(world(WORLDS["checked"] + WORLDS["idle-check"]), cause=lambda check: cause)
    assert [each.message for each in of_job(job(), lookup)] == [message]


def test_a_flavor_that_is_too_small_is_not_recommended() -> None:
    (text,) = [each.message for each in of_job(job(requests={"cpu": "30"}, nodeSelector={"pool": "x"}), world())]
    assert (
        text
        == "no flavor matches pod set main: standard has pool=standard, not x; and asks for 30 cpu, the maximum is 12"
    )


GPUS = """
- kind: ClusterQueue
  metadata: {name: team-a}
  spec:
    namespaceSelector: {}
    resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: standard, resources: [
      {name: nvidia.com/gpu, nominalQuota: 4}]}]}]
"""


@pytest.mark.parametrize("written", ["nvidia.com/gpus", "nvidia.com/GPU", "nvidia/gpu", "amd.com/gpu"])
def test_the_resource_that_was_meant_is_named(written: str) -> None:
    (text,) = [each.message for each in of_job(job(requests={written: "1"}), world(GPUS))]
    assert text == f'ClusterQueue "team-a" has no quota for {written} (asked: 1): did you mean nvidia.com/gpu?'


def test_a_class_of_the_system_that_does_not_order_the_queue_is_named() -> None:
    system = PriorityClasses({"urgent": 1000}, {"system-node-critical": 2000001000})
    lookup = replace(world(), classes=lambda: system)
    asked = job(priorityClassName="system-node-critical")
    assert [each.message for each in of_job(asked, lookup)] == [
        "PriorityClass system-node-critical does not order the queue in this namespace: the job waits with the default"
        " priority"
    ]
    assert of_job(replace(asked, priority_class="urgent"), lookup) == (), "its label orders the queue"
    everywhere = replace(system, system_namespaces=frozenset("*"))
    assert of_job(asked, replace(lookup, classes=lambda: everywhere)) == ()


@pytest.mark.parametrize(("seconds", "told"), [(86400, True), (301, True), (300, False), (30, False)])
def test_a_long_time_to_terminate_is_named(seconds: int, told: bool) -> None:
    found = [each.message for each in of_job(job(terminationGracePeriodSeconds=seconds), world())]
    text = (
        f"terminationGracePeriodSeconds {seconds}: when the job is stopped its pods may hold its quota for minutes;"
        " set 300 or less"
    )
    assert found == ([text] if told else [])


def test_no_message_recommends_a_priority_class_of_the_system() -> None:
    lookup = world()
    system = PriorityClasses({}, {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000})
    alone = replace(lookup, classes=lambda: system)
    asked = job(priorityClassName="system-node-critcal")
    assert [each.message for each in of_job(asked, alone)] == [
        'PriorityClass "system-node-critcal" does not exist, so no pod can be created: remove priorityClassName'
    ]
    both = replace(lookup, classes=lambda: PriorityClasses({}, {**system.pod, "high": 1000}))
    assert [each.message for each in of_job(asked, both)] == [
        'PriorityClass "system-node-critcal" does not exist, so no pod can be created; available: high'
    ]


LARGE_DEFAULT = limits(
    [{"metadata": {"name": "d"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "20"}}]}}]
)


@pytest.mark.parametrize(
    ("rules", "main", "init", "asks"),
    [
        pytest.param(RequestRules(limits=LARGE_DEFAULT), {}, [], "20 cpu (default of a LimitRange)", id="a LimitRange"),
        pytest.param(RequestRules(), {"cpu": "1"}, ["2", "20"], "20 cpu (init container i-1)", id="an init container"),
        pytest.param(RequestRules(), {"cpu": "20"}, ["2", "2"], "20 cpu", id="the container itself"),
    ],
)
def test_what_makes_the_request_is_named(rules: RequestRules, main: Raw, init: list[str], asks: str) -> None:
    def container(name: str, requests: Raw) -> Raw:
        return {"name": name, "image": "i", "resources": {"requests": requests}}

    spec = {
        "containers": [container("main", main)],
        "initContainers": [container(f"i-{number}", {"cpu": cpu}) for number, cpu in enumerate(init)],
    }
    found = of_job(submission("team-a", "main", "", [PodSpec("main", 1, spec)], rules), world())
    (text,) = [each.message for each in found if each.rule == "request-too-large"]
    assert text.startswith(f"never starts: asks for {asks}, ")


def test_every_rule_has_its_case() -> None:
    from tests.core.feedback import (  # they use the worlds of this module
        test_dry_run,
        test_nodes,
        test_outside,
        test_workers,
    )

    seen = {case.values[-2] for case in (*CASES, *ONE_BY_ONE, *SEVERAL, *RESIZED, *WITHOUT_NODES, *RESOURCE_QUOTAS)} - {
        ""
    }
    others = (*test_nodes.CASES, *test_outside.CASES, *test_workers.CASES, *test_dry_run.CASES)
    beside = {case.values[-2] for case in others} - {""}
    beside |= {
        "topology-level-not-found",
        "topology-too-small",
        "topology-full",
        "topology-slices-uneven",
        "topology-labels-not-found",
    }  # test_topology
    assert {rule.name for rule in JOB_RULES} == seen | beside


WITHOUT_NODES = [
    pytest.param(
        [{"pool": "other"}],
        "flavor-without-nodes",
        'no node has the labels of flavor "standard" (pool=standard): its pods stay pending until such a node is added',
        id="none with the labels",
    ),
    pytest.param([{"pool": "other"}, {"pool": "standard"}], "", "", id="one with the labels"),
    pytest.param([], "", "", id="a cluster without nodes, which is being made"),
    pytest.param(None, "", "", id="nodes are not watched"),
]


@pytest.mark.parametrize(("nodes", "rule", "told"), WITHOUT_NODES)
def test_a_job_gets_a_warning_about_a_flavor_without_nodes(
    nodes: list[dict[str, str]] | None, rule: str, told: str
) -> None:
    assert [(each.rule, each.message) for each in of_job(job(), world(nodes=nodes))] == [(rule, told)] * bool(told)


def test_nothing_is_reported_before_the_caches_have_been_read() -> None:
    assert of_job(job(queue="mian"), world(synced=False)) == ()


def test_a_job_without_a_queue_gets_only_that_warning() -> None:
    assert [finding.rule for finding in of_job(job(queue="", asks={"cpu": "900"}), world())] == ["no-queue"]


names = st.text(alphabet="abcdefghij-", min_size=1, max_size=253)


@settings(max_examples=cases(20, 1_000))
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


LONG = {length: "".join(chr(ord("a") + number % 26) for number in range(length)) for length in (40, 63, 253)}


@pytest.mark.parametrize("length", LONG)
def test_long_names_lose_their_middle_and_numbers_and_fix_stay(length: int) -> None:
    name = LONG[length]
    resource = f"example.com/{name[:60]}"
    more = f"""
- kind: ResourceFlavor
  metadata: {{name: "{name}"}}
- kind: ClusterQueue
  metadata: {{name: "{name}"}}
  spec:
    cohortName: "{name}"
    namespaceSelector: {{}}
    resourceGroups: [{{coveredResources: ["{resource}"], flavors: [{{name: "{name}", resources: [
      {{name: "{resource}", nominalQuota: 17}}]}}]}}]
- kind: LocalQueue
  metadata: {{name: "{name}", namespace: team-a}}
  spec: {{clusterQueue: "{name}"}}
"""
    for asked, pods, least, figures in (
        ("23", 1, None, ("23", "17", "ask for 17 or less")),
        ("9", 2, None, ("2 pods", "18", "17", "set parallelism to 1 or less")),
        ("9", 4, 2, ("2 pods", "18", "17", "set job-min-parallelism to 1 or less")),
        ("9", 4, 1, ("1 of 4 pods", "36", "17", "set parallelism to 1")),
    ):
        (message,) = [
            each.message
            for each in of_job(job(queue=name, requests={resource: asked}, count=pods, min_count=least), world(more))
            if each.rule in ("nobody-lends", "request-too-large", "min-parallelism-too-large", "only-partly")
        ]
        assert len(message) <= LIMIT
        assert not [figure for figure in figures if figure not in message], message


@given(st.text(alphabet="abcdefghij-", max_size=253), st.text(alphabet="abcdefghij-", max_size=253))
def test_a_text_is_cut_in_its_names_before_it_is_cut_at_its_end(one: str, other: str) -> None:
    text = fitted(f'ClusterQueue "{shortened(one)}" in cohort "{shortened(other)}" lends 17 of 23')
    assert len(text) <= LIMIT
    assert text.endswith("lends 17 of 23")
    assert text == f'ClusterQueue "{one}" in cohort "{other}" lends 17 of 23' or ".." in text


def test_rules_that_ask_whether_a_job_preempts_share_one_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles: list[Snapshot] = []

    def counted(snapshot: Snapshot, *more: Any) -> Plan:
        cycles.append(snapshot)
        return schedule(snapshot, *more)

    monkeypatch.setattr(what_if, "schedule", counted)
    fungibility = "cohortName: research\n    flavorFungibility: {preference: PreemptionOverBorrowing}"
    preempting = PREEMPTING.replace("spec:", f"spec:\n    {fungibility}")
    lookup = world(preempting + running("big", "team-a", "team-a", "8") + running("other", "team-b", "team-b", "4"))
    asked = job(requests={"cpu": "10"})
    assert {finding.rule for finding in of_job(asked, lookup)} == {"only-by-borrowing", "will-wait"}
    assert len(cycles) == 1
    of_job(asked, lookup)
    assert len(cycles) == 2, "the next review sees what has changed"
