"""What is recorded of Jobs, Workloads and queues: stable facts without times, messages and identifiers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from tests.recordings.player.facts import Obj


def number(quantity: Any) -> str:
    """A quantity in one spelling, whatever its unit."""
    return f"{Decimal(parse_quantity(quantity)).normalize():f}" if quantity else "0"  # type: ignore[no-untyped-call]


def condition(obj: Obj, kind: str) -> str | None:
    """A condition as status/reason, or None when it is not there."""
    for cond in obj.get("status", {}).get("conditions", []):
        if cond["type"] == kind:
            return f"{cond['status']}/{cond['reason']}"
    return None


def usage(flavors: list[Obj]) -> Obj:
    """Totals by flavor and resource as 'total' or 'total (borrowed)'; zeros are left out."""
    found: Obj = {}
    for flavor in flavors:
        for res in flavor.get("resources", []):
            total, borrowed = number(res.get("total")), number(res.get("borrowed"))
            if Decimal(total):
                shown = f"{total} ({borrowed})" if Decimal(borrowed) else total
                found.setdefault(flavor["name"], {})[res["name"]] = shown
    return found


def compact(facts: Obj) -> Obj:
    """Leave out what is empty."""
    return {key: value for key, value in facts.items() if value not in (None, {}, [], "")}


def job_facts(job: Obj, workload: Obj | None) -> Obj:
    """What is recorded of a Job and of the Workload that stands for it."""
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    facts: Obj = {
        "suspended": spec.get("suspend", False),
        "parallelism": spec.get("parallelism"),
        "nodeSelector": pod.get("nodeSelector"),
        "tolerations": sorted(
            f"{t.get('key')}={t.get('value', '')}:{t.get('effect', '')}" for t in pod.get("tolerations", [])
        ),
    }
    if workload is None:
        return compact(facts | {"workload": "none"})
    admission = workload.get("status", {}).get("admission") or {}
    for kind in ("QuotaReserved", "Admitted", "Evicted", "Preempted", "Finished"):
        facts[kind] = condition(workload, kind)
    facts |= {
        "priority": workload["spec"].get("priority"),
        "queue": workload["spec"].get("queueName"),
        "priorityClass": (workload["spec"].get("priorityClassRef") or {}).get("name"),
        "clusterQueue": admission.get("clusterQueue"),
        "podSets": {
            p["name"]: {"count": p.get("count"), "flavors": p.get("flavors", {})}
            for p in admission.get("podSetAssignments", [])
        },
    }
    return compact(facts)


def queue_facts(queue: Obj) -> Obj:
    """What is recorded of a ClusterQueue or a LocalQueue."""
    status = queue.get("status", {})
    facts: Obj = {"active": condition(queue, "Active"), "deleting": "deletionTimestamp" in queue["metadata"] or None}
    for count in ("pending", "reserving", "admitted"):
        facts[count] = status.get(f"{count}Workloads", 0)
    facts["reservation"] = usage(status.get("flavorsReservation", []))
    facts["usage"] = usage(status.get("flavorsUsage", []))
    facts["share"] = status.get("fairSharing", {}).get("weightedShare")
    return compact(facts)
