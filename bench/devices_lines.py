"""Recorded claims of devices: what one line of input counts for here, in the form of its expectation."""

from __future__ import annotations

from typing import Any

from api import quantity
from api.errors import ErrorType
from api.objects import key_of
from core.devices.inventory import CLAIMS_NOT_SUPPORTED, Inventory
from core.devices.mapping import device_rules
from core.devices.model import claim_template, device_class, resource_slice
from core.model import Raw
from core.quota.usage import totals
from core.wire import decode
from core.wire.devices import PodTemplate, pod_claims
from core.wire.pod_requests import RequestRules


def devices_of(line: Raw) -> Raw:
    """Returns errors, or what a pod of each pod set counts for, and all pods together."""
    given = line["input"]
    inventory = Inventory(device_rules(given.get("deviceClassMappings") or (), given.get("featureGates") or {}))
    for raw in given.get("resourceClaimTemplates") or ():
        inventory.set_template(key_of(raw), claim_template(raw))
    for raw in given.get("deviceClasses") or ():
        inventory.set_class(raw["metadata"]["name"], device_class(raw))
    for raw in given.get("resourceSlices") or ():
        inventory.set_slice(raw["metadata"]["name"], resource_slice(raw))
    rules = RequestRules(devices=inventory)
    raw = given["workload"]
    namespace, raws = raw["metadata"]["namespace"], raw["spec"]["podSets"]
    pods = pod_claims([PodTemplate(each["name"], each["template"]["spec"]) for each in raws], rules)
    for key in inventory.unanswered(namespace, pods):
        for _ in inventory.counting(key):
            pass
    charge = inventory.charge(namespace, pods)
    workload = decode.workload(raw, decode.WorkloadContext(rules))
    assert workload.uncounted == charge.problem
    if charge.problem == CLAIMS_NOT_SUPPORTED:
        return {"rejected": "resourceClaims"}
    if charge.errors:
        causes = [each.cause() for each in charge.errors]
        errors = [{"type": each["reason"], "field": each["field"], "message": each["message"]} for each in causes]
        retry = any(each.type == ErrorType.INTERNAL for each in charge.errors)
        return {"errors": errors, "message": charge.problem, **({"retry": True} if retry else {})}
    per_pod = zip(pods, charge.amounts, charge.replaced, strict=True)
    found: dict[str, dict[str, Any]] = {"perPod": {}, "replacedExtendedResources": {}, "totalRequests": {}}
    for pod, amounts, replaced in per_pod:
        found["perPod"][pod.name] = dict(amounts)
        found["replacedExtendedResources"][pod.name] = sorted(replaced)
    for total in totals(workload):
        found["totalRequests"][total.name] = dict(total.requests)
    return found


def expected(line: Raw) -> Raw:
    """Returns the expectation of a line, its quantities in the units that quota is counted in."""
    want: Raw = line["expected"]
    both = {name: want[name] for name in ("perPod", "totalRequests") if name in want}
    return want | {
        name: {
            pod_set: {resource: quantity.amount(resource, amount) for resource, amount in amounts.items()}
            for pod_set, amounts in each.items()
        }
        for name, each in both.items()
    }
