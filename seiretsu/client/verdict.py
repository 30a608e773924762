"""What a controller of admission checks is asked, what it answers, and what is written then: pure functions on the
objects of the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

Raw = dict[str, Any]

_SUFFIXES: Final = {
    **{suffix: Decimal(10) ** power for suffix, power in zip(("n", "u", "m", "", "k"), range(-9, 4, 3), strict=True)},
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("MGTPE", start=2)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LONGEST_MESSAGE: Final = 32_768


@dataclass(frozen=True)
class Question:
    """A workload holds quota and waits for a check: shall it be admitted?

    ``usage`` is the quota that all its pods hold, by resource (cores, bytes, counts). ``retries`` counts how often
    this check sent it back to the queue. ``parameters`` is ``spec.parameters`` of the AdmissionCheck.
    """

    check: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    usage: Mapping[str, Decimal]
    retries: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    workload: Raw = field(default_factory=dict, repr=False)
    """The Workload object."""


@dataclass(frozen=True)
class Verdict:
    """The answer; made with ``ready``, ``pending``, ``retry`` or ``rejected``."""

    state: str
    message: str = ""
    retry_after: int | None = None
    again_after: float | None = None
    additions: Raw = field(default_factory=dict)

    @classmethod
    def ready(
        cls,
        message: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        node_selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Raw] = (),
    ) -> Verdict:
        """The workload may start when its other checks are ready too; its pods get these additions."""
        parts = {
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "nodeSelector": dict(node_selector or {}),
            "tolerations": list(tolerations),
        }
        return cls("Ready", message, additions={name: value for name, value in parts.items() if value})

    @classmethod
    def pending(cls, message: str = "", *, again_after: float | None = None) -> Verdict:
        """It keeps its quota and waits; it is asked again when its Workload changes, or after so many seconds."""
        return cls("Pending", message, again_after=again_after)

    @classmethod
    def retry(cls, message: str = "", *, after: int | None = None) -> Verdict:
        """It releases its quota and is queued again after so many seconds, then it is asked again."""
        return cls("Retry", message, retry_after=after)

    @classmethod
    def rejected(cls, message: str = "") -> Verdict:
        """It is deactivated, and stays so until somebody activates it."""
        return cls("Rejected", message)


def questions(workload: Raw, checks: Mapping[str, Raw]) -> list[Question]:
    """Returns what is to be decided about a Workload: one question for each of these checks that is pending."""
    status = workload.get("status") or {}
    admission = status.get("admission")
    stopping = ("Evicted", "Finished", "DeactivationTarget")
    if admission is None or not holds(workload, "QuotaReserved") or any(holds(workload, kind) for kind in stopping):
        return []
    metadata = workload["metadata"]
    return [
        Question(
            check=state["name"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            queue=workload["spec"].get("queueName", ""),
            cluster_queue=admission["clusterQueue"],
            usage=usage(workload),
            retries=state.get("retryCount") or 0,
            parameters=checks[state["name"]]["spec"].get("parameters") or {},
            workload=workload,
        )
        for state in status.get("admissionChecks") or ()
        if state["name"] in checks and state["state"] == "Pending"
    ]


def holds(workload: Raw, kind: str) -> bool:
    """Whether a condition of the object is True."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def usage(workload: Raw) -> dict[str, Decimal]:
    """Returns the quota that a Workload holds, by resource."""
    found: dict[str, Decimal] = {}
    admission = (workload.get("status") or {}).get("admission") or {}
    for assignment in admission.get("podSetAssignments") or ():
        for resource, text in (assignment.get("resourceUsage") or {}).items():
            found[resource] = found.get(resource, Decimal(0)) + amount(text)
    return found


def amount(text: str | float) -> Decimal:
    """Returns a quantity of Kubernetes as a number: "500m" is 0.5, "1Gi" is 1073741824."""
    text = str(text)
    digits = text.rstrip("numkKMGTPEi")
    return Decimal(digits) * _SUFFIXES[text[len(digits) :]]


def answered(workload: Raw, check: str, verdict: Verdict, now: float) -> Raw | None:
    """Returns the merge patch of the Workload's status with a verdict; None if the status has it already.

    The patch has the resourceVersion that was read: it fails if the Workload has changed since then.
    """
    states = workload["status"]["admissionChecks"]
    old = next(state for state in states if state["name"] == check)
    new: Raw = {
        "name": check,
        "state": verdict.state,
        "message": verdict.message[:_LONGEST_MESSAGE],
        "lastTransitionTime": old["lastTransitionTime"] if old["state"] == verdict.state else stamp(now),
        **({"retryCount": old["retryCount"]} if old.get("retryCount") else {}),
        **({"requeueAfterSeconds": verdict.retry_after} if verdict.retry_after is not None else {}),
    }
    if verdict.additions:
        pod_sets = workload["spec"]["podSets"]
        new["podSetUpdates"] = [{"name": each.get("name", "main"), **verdict.additions} for each in pod_sets]
    if new == {name: value for name, value in old.items() if name in new or value}:
        return None
    return _guarded(workload, {"admissionChecks": [new if state is old else state for state in states]})


def activated(check: Raw, problem: str, now: float) -> Raw | None:
    """Returns the merge patch that sets the condition Active of an AdmissionCheck: True without a ``problem``."""
    conditions = (check.get("status") or {}).get("conditions") or []
    old: Raw = next((each for each in conditions if each["type"] == "Active"), {})
    new = {
        "type": "Active",
        "status": "False" if problem else "True",
        "reason": "Inactive" if problem else "Active",
        "message": (problem or "The admission check is active")[:_LONGEST_MESSAGE],
        "observedGeneration": check["metadata"].get("generation", 0),
    }
    if new == {name: value for name, value in old.items() if name != "lastTransitionTime"}:
        return None
    kept = old.get("lastTransitionTime") if old.get("status") == new["status"] else None
    new["lastTransitionTime"] = kept or stamp(now)
    others = [each for each in conditions if each["type"] != "Active"]
    return _guarded(check, {"conditions": [*others, new]})


def newer(known: Raw | None, found: Raw) -> bool:
    """Whether an object is not older than the one that is known by its name."""
    if known is None or known["metadata"]["uid"] != found["metadata"]["uid"]:
        return True
    return int(found["metadata"]["resourceVersion"]) >= int(known["metadata"]["resourceVersion"])


def stamp(now: float) -> str:
    """Returns a moment as the API writes it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def mine(checks: Iterable[Raw], controller: str) -> dict[str, Raw]:
    """Returns the AdmissionChecks that a controller decides, by name."""
    found = (each for each in checks if each["spec"]["controllerName"] == controller)
    return {each["metadata"]["name"]: each for each in found if "deletionTimestamp" not in each["metadata"]}


def _guarded(raw: Raw, status: Raw) -> Raw:
    metadata = {name: raw["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": metadata, "status": status}
