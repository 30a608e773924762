"""Pods that have domains of a topology are started behind a gate, until each has its node selector."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import Annotation, Label, SchedulingGate
from core.actions import Patch
from core.jobs import template
from core.jobs.fields import at
from core.jobs.kinds import BATCH_JOB, POD
from core.jobs.kinds.appwrapper import APP_WRAPPER
from core.jobs.kinds.pod_group import POD_GROUP
from core.jobs.kinds.sparkapplication import SPARK_APPLICATION
from core.jobs.kinds.trainjob import TRAIN_JOB
from core.jobs.template import Injection
from core.jobs.workload import Copied
from core.model import Admission, PodSetAssignment, Raw, TopologyAssignment, TopologyDomain, TopologyRequest
from core.model.workload import replace
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs import test_pod_group as of_group
from tests.core.jobs.samples import FLAVORS, after, job, patches, read
from tests.core.jobs.test_appwrapper import app_wrapper
from tests.core.jobs.test_pod import decided, pod, workload_of
from tests.core.jobs.test_sparkapplication import spark
from tests.core.jobs.test_trainjob import made, train_job

OURS: Raw = {"name": SchedulingGate.TOPOLOGY}
OTHER: Raw = {"name": "example.com/other"}
DOMAINS = TopologyAssignment(("kubernetes.io/hostname",), (TopologyDomain(("n1",), 1),))
BY_TOPOLOGY = Copied(topology_requests=True)
GATED = Injection("any", 1, gates=(SchedulingGate.TOPOLOGY,))


def given(topology: TopologyAssignment | None, name: str = "main", count: int = 1) -> PodSetAssignment:
    return PodSetAssignment(name, {"cpu": "spot"}, {"cpu": 1000 * count}, count, topology)


def placed(found: Raw, topology: TopologyAssignment | None = DOMAINS) -> Raw:
    """The admitted Workload of a pod."""
    admission = Admission("cq", (given(topology),))
    return after(workload_of(found), lambda value: transitions.reserved(value, admission, 500.0))


def gates_after(found: Raw, write: Any) -> list[Raw]:
    assert isinstance(write, Patch)
    return list(merged(found, write.body)["spec"].get("schedulingGates") or [])


def waiting(**more: Any) -> Raw:
    """A new pod as admission leaves it while topologies have an effect."""
    found = pod(**more)
    found["spec"]["schedulingGates"].append(OURS)
    return found


@pytest.mark.parametrize(
    ("asked", "marked"),
    [
        (None, True),
        (TopologyRequest(slices=(("rack", 2),)), True),
        (TopologyRequest(required="rack"), False),
        (TopologyRequest(preferred="rack"), False),
        (TopologyRequest(unconstrained=True), False),
    ],
    ids=["asks for nothing", "only for slices", "required", "preferred", "unconstrained"],
)
def test_pods_with_domains_wait_behind_a_gate_and_are_marked_as_placed(
    asked: TopologyRequest | None, marked: bool
) -> None:
    value = read(placed(pod()))
    value = replace(value, pod_sets=(replace(value.pod_sets[0], topology=asked),))
    (found,) = template.injections(value, FLAVORS)
    assert found.gates == (SchedulingGate.TOPOLOGY,)
    assert (found.annotations.get(Annotation.UNCONSTRAINED_TOPOLOGY) == "true") == marked
    assert found.annotations[Annotation.WORKLOAD] == value.key.name
    assert found.labels[Label.POD_SET] == "main"


def test_pods_without_domains_and_pods_where_topologies_are_off_have_no_gate() -> None:
    (without,) = template.injections(read(placed(pod(), None)), FLAVORS)
    (off,) = template.injections(read(placed(pod())), FLAVORS, by_topology=False)
    for found in (without, off):
        assert found.gates == ()
        assert Annotation.UNCONSTRAINED_TOPOLOGY not in found.annotations


def test_a_pod_that_has_a_domain_keeps_the_gate_for_it_at_its_start() -> None:
    found = waiting()
    (write,) = decided(found, placed(found), copied=BY_TOPOLOGY).steps
    assert gates_after(found, write) == [OTHER, OURS]
    assert merged(found, write.body)["spec"]["nodeSelector"] == {"kind": "spot"}


@pytest.mark.parametrize(
    ("topology", "copied"),
    [(None, BY_TOPOLOGY), (DOMAINS, Copied())],
    ids=["admitted without domains", "topologies were turned off"],
)
def test_a_pod_that_is_placed_by_nobody_loses_both_gates(topology: TopologyAssignment | None, copied: Copied) -> None:
    found = waiting()
    (write,) = decided(found, placed(found, topology), copied=copied).steps
    assert gates_after(found, write) == [OTHER]


def test_a_pod_without_the_gate_is_started_without_because_none_can_be_added() -> None:
    found = pod()
    (write,) = decided(found, placed(found), copied=BY_TOPOLOGY).steps
    assert gates_after(found, write) == [OTHER]


def test_the_pods_of_a_group_keep_the_gate_where_their_role_has_domains() -> None:
    pods = [of_group.member("a", "driver"), of_group.member("b"), of_group.member("c")]
    for each in pods:
        each["spec"]["schedulingGates"] = [*each["spec"]["schedulingGates"], OURS]
    injections = [
        Injection(of_group.DRIVER, 1, node_selector={"a": "b"}),
        Injection(of_group.WORKER, 2, gates=(SchedulingGate.TOPOLOGY,)),
    ]
    writes = POD_GROUP.start(of_group.group(*pods), injections)
    assert [gates_after(found, write) for found, write in zip(pods, writes, strict=True)] == [
        [OTHER],
        [OTHER, OURS],
        [OTHER, OURS],
    ]


def test_a_pod_that_is_released_without_a_workload_loses_both_gates() -> None:
    assert POD.release(waiting()).value == [OTHER]


def test_kinds_with_other_fields_for_a_start_have_the_gate_there() -> None:
    (start,) = patches(TRAIN_JOB.start(train_job(), [GATED], [made()]))
    (patch,) = start.body["spec"]["runtimePatches"]
    (replicated,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"]["spec"] == {"schedulingGates": [OURS]}
    wrapped = app_wrapper()
    (start,) = patches(APP_WRAPPER.start(wrapped, [GATED] * len(APP_WRAPPER.slots(wrapped))))
    infos = [info for each in start.body["spec"]["components"] for info in each.get("podSetInfos", ())]
    assert infos
    assert all(info["schedulingGates"] == [OURS] for info in infos)


def test_a_spark_application_gets_the_gate_in_the_templates_of_its_roles_until_it_is_stopped() -> None:
    template_of_driver = {"metadata": {"labels": {"b": "2"}}, "spec": {"schedulingGates": [OTHER]}}
    application = spark(driver={"template": template_of_driver})
    (start,) = patches(SPARK_APPLICATION.start(application, [GATED] * 2))
    running = merged(application, start.body)
    path = ("template", "spec", "schedulingGates")
    assert at(running["spec"]["driver"], path) == [OTHER, OURS]
    assert at(running["spec"]["executor"], path) == [OURS]
    (stop,) = patches(SPARK_APPLICATION.stop(running, []))
    assert merged(running, stop.body)["spec"] == application["spec"]


def test_the_gate_of_a_job_is_removed_when_it_stops_and_its_own_gates_are_kept() -> None:
    found = job(pod={"schedulingGates": [OTHER]})
    (start,) = BATCH_JOB.start(found, [GATED])
    running = merged(found, start.body)
    path = ("spec", "template", "spec", "schedulingGates")
    assert at(running, path) == [OTHER, OURS]
    for stop in patches(BATCH_JOB.stop(running, BATCH_JOB.pod_sets(found))):
        running = merged(running, stop.body)
    assert at(running, path) == [OTHER]
