"""Changes of a job here that reach the job in its worker while it runs."""

from __future__ import annotations

from dataclasses import replace

from api.names import MULTIKUEUE_CONTROLLER, CheckState
from api.objects import Raw
from core.actions import Patch, Wait
from core.jobs.kinds.rayservice import RAY_SERVICE
from core.multikueue.group import Group, Policy, Worker
from core.multikueue.there import decide
from tests.core.multikueue.groups import copy, group


def service(config: str | None, *, size: int = 1, **metadata: str) -> Raw:
    head = {"rayStartParams": {"size": str(size)}, "template": {"spec": {"containers": []}}}
    spec: Raw = {"rayClusterConfig": {"suspend": False, "headGroupSpec": head}, "managedBy": MULTIKUEUE_CONTROLLER}
    return {
        "metadata": {"name": "s", "namespace": "ns", "uid": "u", "resourceVersion": "4", **metadata},
        "spec": {**spec, **({"serveConfigV2": config} if config is not None else {})},
    }


def decided(here: Raw, there: Raw, policy: Policy | None = None) -> object:
    given: Group = replace(group(check=CheckState.READY, cluster="w1"), kind=RAY_SERVICE, job=here)
    worker = Worker("w1", workload=copy(Admitted="True"), jobs=(there,))
    return decide(replace(given, policy=policy or Policy()), worker)


def test_a_new_configuration_of_a_service_reaches_its_worker() -> None:
    found = decided(service("two"), service("one", size=2))
    assert isinstance(found, Patch) and found.why == "forward"
    assert found.body == {"spec": {"serveConfigV2": "two"}, "metadata": {"uid": "u", "resourceVersion": "4"}}


def test_it_is_removed_there_too() -> None:
    found = decided(service(None), service("one"))
    assert isinstance(found, Patch) and found.why == "forward"
    assert found.body["spec"] == {"serveConfigV2": None}


def test_nothing_else_is_changed_there() -> None:
    assert decided(service("one"), service("one", size=2)) == Wait()
    assert decided(service("two"), service("one"), Policy(forwards=False)) == Wait()
    assert decided(service("two"), service("one", deletionTimestamp="2027-01-15T08:00:00Z")) == Wait()
