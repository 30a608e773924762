"""What is not queued, what Kubernetes will not change, Workloads that a person deletes: each rule by its sentence."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import Label
from core.feedback.change import Change
from core.feedback.fixed import FixedParts, fixed, of_pods
from core.feedback.rules import Finding
from core.feedback.strangers import Deletion, Stranger, of_deletion, of_stranger
from core.model import Raw
from tests.core.feedback.world import world

QUEUE = {Label.QUEUE_NAME: "main"}


def made(
    kind: str,
    namespace: str = "team-a",
    labels: Raw | None = None,
    *,
    jobs_queued: bool = False,
    queued: tuple[str, ...] = ("Job",),
) -> Change[Stranger]:
    return Change(None, Stranger(kind, namespace, QUEUE if labels is None else labels, jobs_queued, queued))


def pod(image: str = "i", **spec: Any) -> Raw:
    return {"containers": [{"name": "main", "image": image}], **spec}


def changed(old: Raw, new: Raw, *, waits: bool = False) -> Change[FixedParts]:
    return Change(fixed("Job", [{"spec": old}], waits=waits), fixed("Job", [{"spec": new}], waits=waits))


def relabelled(labels: Raw, *, waits: bool = False) -> Change[FixedParts]:
    before, after = ({"metadata": {"labels": each}, "spec": pod()} for each in ({}, labels))
    return Change(fixed("Job", [before], waits=waits), fixed("Job", [after], waits=waits))


TEMPLATE = "this Job's pod template cannot change: delete the Job and create it again (kubectl replace --force -f FILE)"
MISSPELT = {"kueue.x-k8s.io/queue-nmae": "main"}
CASES = [
    pytest.param(
        made("Deployment"),
        "kind-not-queued",
        'label kueue.x-k8s.io/queue-name queues no Deployment: its pods start now; enable "deployment" in'
        " integrations.frameworks",
        id="a Deployment",
    ),
    pytest.param(
        made("Pod", labels=MISSPELT),
        "kind-not-queued",
        'label kueue.x-k8s.io/queue-nmae queues no Pod: it starts now; enable "pod" in integrations.frameworks',
        id="a Pod, misspelt",
    ),
    pytest.param(
        made("StatefulSet", labels={"kueue.x-k8s.io/queue_name": "main", "queue-name": "emails"}),
        "kind-not-queued",
        'label kueue.x-k8s..queue_name queues no StatefulSet: its pods start now; enable "statefulset" in'
        " integrations.frameworks",
        id="a StatefulSet",
    ),
    *(
        pytest.param(made(kind, labels={"queue-name": "emails"}), "", "", id=f"a {kind} with a label of its own queue")
        for kind in ("Pod", "Deployment", "StatefulSet")
    ),
    pytest.param(made("Pod", labels={"app": "web"}), "", "", id="a Pod that names no queue"),
    pytest.param(
        Change(Stranger("Deployment", "team-a", QUEUE), Stranger("Deployment", "team-a", {**QUEUE, "a": "b"})),
        "",
        "",
        id="a Deployment that named it before",
    ),
    pytest.param(
        made("CronJob"),
        "queue-on-cron-job",
        "label kueue.x-k8s.io/queue-name has no effect on the CronJob itself: set it in"
        " spec.jobTemplate.metadata.labels",
        id="a CronJob itself",
    ),
    pytest.param(made("CronJob", jobs_queued=True), "", "", id="a CronJob with the same labels everywhere"),
    pytest.param(
        made("Job", "kube-system"),
        "namespace-not-managed",
        'namespace "kube-system" is never managed: this Job is not queued and starts immediately; use another'
        " namespace",
        id="a Job of the system",
    ),
    pytest.param(
        made("JobSet", "kube-system", queued=("Job", "JobSet")),
        "namespace-not-managed",
        'namespace "kube-system" is never managed: this JobSet is not queued and starts immediately; use another'
        " namespace",
        id="a JobSet of the system",
    ),
    pytest.param(
        Deletion("job-train-1a2b3", "train", running=True),
        "workload-of-job-deleted",
        'Job "train" is suspended and requeued; to end it delete the Job; to hold it set spec.active: false in the'
        " Workload",
        id="the Workload of a Job that runs",
    ),
    pytest.param(
        Deletion("job-train-1a2b3", "train", running=False),
        "workload-of-job-deleted",
        'Job "train" gets a new Workload; to end it delete the Job; to hold it set spec.active: false in the Workload',
        id="the Workload of a Job that waits",
    ),
    pytest.param(Deletion("by-hand", "", running=False), "", "", id="a Workload without a Job"),
    pytest.param(changed(pod(), pod("other")), "pods-immutable", TEMPLATE, id="another image"),
    pytest.param(changed(pod(), pod("other"), waits=True), "pods-immutable", TEMPLATE, id="another image, waiting"),
    pytest.param(changed(pod(), pod(nodeSelector={"a": "b"})), "pods-immutable", TEMPLATE, id="other nodes, running"),
    pytest.param(changed(pod(), pod(nodeSelector={"a": "b"}), waits=True), "", "", id="other nodes, waiting"),
    pytest.param(relabelled({"a": "b"}), "pods-immutable", TEMPLATE, id="another label of the pods, running"),
    pytest.param(relabelled({"a": "b"}, waits=True), "", "", id="another label of the pods, waiting"),
    pytest.param(relabelled({}), "", "", id="labels that are absent or empty"),
]


@pytest.mark.parametrize(("subject", "rule", "message"), CASES)
def test_the_messages_of_each_case(subject: Change[Any] | Deletion, rule: str, message: str) -> None:
    lookup = world()
    if isinstance(subject, Deletion):
        found = of_deletion(subject, lookup)
    elif isinstance(subject.new, Stranger):
        found = of_stranger(subject, lookup)
    else:
        found = of_pods(subject, lookup)
    assert found == ((Finding(rule, message),) if rule else ())
