"""A Workload with quota whose check asks for nodes, and an API server that applies what the rules decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.names import AUTOSCALING_API_VERSION
from api.objects import Raw
from core.actions import Action, Create, Delete, Patch, Target, Wait
from core.model import Workload
from core.provisioning import rules
from core.provisioning.config import Config
from core.provisioning.rules import ProvisioningSituation
from core.wire import decode
from core.wire.decode import WorkloadContext
from core.wire.merge import merged
from tests.core.multikueue.groups import AT, NOW, conditions

CONFIG = Config("check-capacity.autoscaling.x-k8s.io", retries=1)
FLAVORS: Mapping[str, Raw] = {
    "spot": {"metadata": {"name": "spot"}, "spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot"}]}},
    "other": {"metadata": {"name": "other"}, "spec": {"nodeLabels": {"pool": "other"}}},
}


def pod_set(name: str = "main", count: int = 2, *, spec: Raw | None = None, **container: Raw) -> Raw:
    """A pod set with one container that asks for a CPU."""
    resources = {"requests": {"cpu": "1"}, **container}
    pods = {"containers": [{"name": "c", "image": "i", "resources": resources}], **(spec or {})}
    return {"name": name, "count": count, "template": {"metadata": {}, "spec": pods}}


def check(name: str = "nodes", state: str = "Pending", message: str = "", **fields: Any) -> Raw:
    """The state of a check as the status of a Workload has it."""
    return {"name": name, "state": state, "message": message, "lastTransitionTime": AT, **fields}


def workload(
    *checks: Raw,
    pod_sets: list[Raw] | None = None,
    counts: Mapping[str, int] | None = None,
    flavor: str = "spot",
    held: bool = True,
    active: bool = True,
    deleting: bool = False,
    annotations: Mapping[str, str] | None = None,
    **found: str,
) -> Raw:
    """The Workload with quota in a flavor; ``counts`` are the admitted pods if not all, ``found`` more conditions."""
    sets = pod_sets if pod_sets is not None else [pod_set()]
    metadata: Raw = {"name": "w", "namespace": "ns", "uid": "u-w", "resourceVersion": "3"}
    metadata |= {"annotations": dict(annotations)} if annotations else {}
    metadata |= {"deletionTimestamp": AT} if deleting else {}
    status: Raw = {
        "conditions": conditions(**({"QuotaReserved": "True" if held else "False"} | found)),
        "admissionChecks": list(checks or [check()]),
    }
    if held:
        given = [
            {"name": each["name"], "flavors": {"cpu": flavor}, "count": (counts or {}).get(each["name"], each["count"])}
            for each in sets
        ]
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": given}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"queueName": "lq", "podSets": sets, "active": active},
        "status": status,
    }


@dataclass
class Api:
    """Workload ``w``, its requests and PodTemplates. ``step`` applies one action; ``autoscaler`` answers as a stand-in
    for cluster-autoscaler. While it ``refuses``, nothing can be created.
    ``others`` are the uids of other Workloads and of their requests.
    """

    raw: Raw = field(default_factory=workload)
    checks: dict[str, Config | None] = field(default_factory=lambda: {"nodes": CONFIG})
    now: float = NOW
    flavors: Mapping[str, Raw] = field(default_factory=lambda: FLAVORS)
    cleans_up: bool = True
    requests: dict[str, Raw] = field(default_factory=dict)
    templates: dict[str, Raw] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    made: int = 0
    refuses: bool = False
    others: frozenset[str] = frozenset()

    @property
    def workload(self) -> Workload:
        return decode.workload(self.raw, WorkloadContext())

    @property
    def situation(self) -> ProvisioningSituation:
        return ProvisioningSituation(
            now=self.now,
            workload=self.workload,
            raw=self.raw,
            checks=self.checks,
            requests=tuple(self.requests[name] for name in sorted(self.requests)),
            template=self.templates.get,
            own_templates=tuple(each for each in self.templates.values() if controller(each) == "u-w"),
            exists=lambda owner: owner["uid"] in self.others,
            flavors=self.flavors,
            cleans_up=self.cleans_up,
        )

    def decide(self) -> Action:
        return rules.decide(self.situation)

    def step(self) -> str:
        """Applies the next action; returns what it is."""
        action = self.decide()
        stores = {"PodTemplate": self.templates, "ProvisioningRequest": self.requests}
        match action:
            case Create() if self.refuses:
                message = rules.refusal(action.resource.kind, action.manifest["metadata"]["name"], "you may not")
                report = rules.not_created(self.situation, action.part, message)
                self.raw = merged(self.raw, report.body) if report else self.raw
            case Patch(target=None):
                assert action.subresource == "status"
                self.raw = merged(self.raw, action.body)
                self.events += [event.message for event in action.events]
            case Create():
                store, name = stores[action.resource.kind], action.manifest["metadata"]["name"]
                assert name not in store
                store[name] = self.stored(action.manifest)
            case Patch(target=Target(resource, key)):
                store = stores[resource.kind]
                assert action.body["metadata"]["uid"] == store[key.name]["metadata"]["uid"]
                store[key.name] = merged(store[key.name], action.body)
            case Delete(uid, target=Target(resource, key)):
                gone = stores[resource.kind].pop(key.name)
                assert gone["metadata"]["uid"] == uid
            case _:
                assert isinstance(action, Wait)
                return "wait"
        return action.why

    def settle(self) -> list[str]:
        """Applies actions until there is nothing to do; returns what they were."""
        found: list[str] = []
        for _ in range(20):
            step = self.step()
            if step == "wait":
                return found
            found.append(step)
        raise AssertionError(f"no end: {found}")

    def stored(self, manifest: Raw) -> Raw:
        self.made += 1
        metadata = {**manifest["metadata"], "uid": f"u-{self.made}", "resourceVersion": str(self.made)}
        return {**manifest, "metadata": metadata}

    def autoscaler(self, name: str, *, message: str = "", details: Raw | None = None, **found: str) -> None:
        """The stand-in for cluster-autoscaler sets these conditions."""
        new = [{**each, "message": message or each["message"]} for each in conditions(**found)]
        old = (self.requests[name].get("status") or {}).get("conditions") or []
        kept = [each for each in old if each["type"] not in found]
        status = {"conditions": [*kept, *new], **({"provisioningClassDetails": details} if details else {})}
        self.requests[name] = merged(self.requests[name], {"status": status})

    def become(self, **fields: Any) -> None:
        """The status of the Workload changes."""
        self.raw = merged(self.raw, {"status": fields})

    def collect_garbage(self) -> None:
        """Kubernetes deletes what belongs to a request that is gone."""
        alive = {each["metadata"]["uid"] for each in self.requests.values()} | {"u-w"}
        self.templates = {name: each for name, each in self.templates.items() if controller(each) in alive}


def request(name: str, *, template: str = "", count: int = 2, config: Config = CONFIG, **found: str) -> Raw:
    """A request that the Workload owns, with these conditions."""
    return {
        "apiVersion": AUTOSCALING_API_VERSION,
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": "5"},
        "spec": {
            "provisioningClassName": config.class_name,
            "parameters": dict(config.parameters),
            "podSets": [{"podTemplateRef": {"name": template or f"ppt-{name}-main"}, "count": count}],
        },
        "status": {"conditions": conditions(**found)},
    }


def controller(raw: Raw) -> str:
    """The uid of the object that controls another one."""
    (owner,) = (each for each in raw["metadata"]["ownerReferences"] if each["controller"])
    return str(owner["uid"])
