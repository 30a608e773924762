"""A made-up kind: what a new kind takes is one file like this one, and one line in the table of kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.builtin import INTEGER, METADATA, POD_TEMPLATE, fields
from api.objects import Resource
from api.structural import Form
from core.jobs.fields import at
from core.jobs.job_reader import Outcome, Slot, outcome
from core.jobs.kind import JobKind
from core.model import Raw


class Gang(JobKind):
    """A made-up kind: leader and workers, held back by a gate in a list, with its own word for the end."""

    framework = "example.com/gang"
    counted = "`leader` and `worker`: size"
    makes = ("Job",)
    resource = Resource("example.com", "v1", "gangs", "Gang")
    pods_path = ("spec",)
    suspend_path = ("spec", "gates")
    uid_label = "example.com/gang-uid"
    pods_label = "example.com/gang"
    form = Form(fields(metadata=METADATA, spec=fields(size=INTEGER, leader=POD_TEMPLATE, worker=POD_TEMPLATE)))

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        return [Slot("leader", 1, ("spec", "leader")), Slot("worker", job["spec"]["size"] - 1, ("spec", "worker"))]

    def hold(self, job: Raw) -> Any:
        return super().hold(job)._replace(value=[*self.release(job).value, "queue"])

    def release(self, job: Raw) -> Any:
        others = [gate for gate in at(job, self.suspend_path) or () if gate != "queue"]
        return super().release(job)._replace(value=others)

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        return bool((job.get("status") or {}).get("pods"))

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        return outcome(job, success="Done", failure="Broken")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        return bool((job.get("status") or {}).get("ready"))


GANG = Gang()


def gang(**metadata: Any) -> Raw:
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"size": 4, "gates": ["other", "queue"], "leader": pod, "worker": pod}
    metadata = {"name": "g", "namespace": "ns", "uid": "gang-uid", "resourceVersion": "5", **metadata}
    return {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": metadata, "spec": spec}
