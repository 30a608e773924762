"""A stand-in for cluster-autoscaler, and the objects with which nodes are asked for."""

from __future__ import annotations

import time
from typing import Any

from api.objects import Raw
from core.wire.timestamps import stamp
from tests.cluster.world import World, ours

CLASS = "check-capacity.autoscaling.x-k8s.io"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME = "autoscaling.x-k8s.io/provisioning-class-name"
SOON = {"backoffBaseSeconds": 1, "backoffLimitCount": 1, "backoffMaxSeconds": 1}


class Autoscaler:
    """A stand-in for cluster-autoscaler: it writes the conditions that it is told, and makes no nodes."""

    def __init__(self, world: World) -> None:
        self.world = world

    def answer(self, name: str, *, message: str = "", details: Raw | None = None, **conditions: str) -> None:
        """Sets conditions of a request."""
        old = self.world.get("provisioningrequests", name).get("status", {}).get("conditions") or []
        kept = [each for each in old if each["type"] not in conditions]
        new = [a_condition(kind, status, message=message) for kind, status in conditions.items()]
        status = {"conditions": [*kept, *new], **({"provisioningClassDetails": details} if details else {})}
        self.world.patch("provisioningrequests", name, {"status": status}, subresource="status")


def a_condition(kind: str, status: str = "True", *, reason: str = "", message: str = "") -> Raw:
    now = stamp(time.time())
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "lastTransitionTime": now}


def config(name: str, **spec: Any) -> Raw:
    return ours("ProvisioningRequestConfig", name, {"provisioningClassName": CLASS, "retryStrategy": SOON, **spec})


def check(name: str) -> Raw:
    """An AdmissionCheck with the config of its name."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    spec = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    return ours("AdmissionCheck", name, spec)


def asks(name: str) -> Raw:
    """The checks of a ClusterQueue: this one."""
    return {"admissionChecks": [{"name": name}]}


def state(world: World, job: str) -> tuple[str, str]:
    """State and message of the only check of a Job's Workload."""
    checks = world.workload(job).get("status", {}).get("admissionChecks") or [{"state": "", "message": ""}]
    return checks[0]["state"], checks[0].get("message", "")


def request_name(world: World, job: str, attempt: int, of: str) -> str:
    return f"{world.workload(job)['metadata']['name']}-{of}-{attempt}"


def requests(world: World, job: str) -> list[str]:
    """The requests of a Job's Workload, by name."""
    uid = world.workload(job).get("metadata", {}).get("uid")
    return sorted(
        each["metadata"]["name"]
        for each in world.get("provisioningrequests").get("items", [])
        if each["metadata"]["ownerReferences"][0]["uid"] == uid and "deletionTimestamp" not in each["metadata"]
    )


def owner(raw: Raw) -> str:
    references = raw.get("metadata", {}).get("ownerReferences") or [{"uid": ""}]
    return str(references[0]["uid"])


def uid(raw: Raw) -> str:
    return str(raw["metadata"]["uid"])
