"""Which admission checks a workload must pass, and which of them belong to one controller.

Separate because the cycle, the lifecycle of Workloads and every controller that decides checks must give the same
answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from api import names
from api.names import Condition
from core.model import Admission, AdmissionCheck, CheckState, ClusterQueue, Workload


def required_checks(queue: ClusterQueue, admission: Admission | None) -> list[str]:
    """Returns the checks that a workload must pass: those on a flavor it was assigned, or without an admission those on
    all flavors of the ClusterQueue.
    """
    every = frozenset(flavor for group in queue.groups for flavor in group.flavors)
    if admission is None:
        return sorted(rule.name for rule in queue.checks if not rule.on_flavors or rule.on_flavors >= every)
    given = frozenset(flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values())
    return sorted(rule.name for rule in queue.checks if (rule.on_flavors or every) & given)


def awaited(workload: Workload) -> str:
    """Returns what the checks say for which a workload with quota waits, '' if it waits for none that says anything."""
    if not workload.holds(Condition.QUOTA_RESERVED) or workload.holds(Condition.ADMITTED):
        return ""
    pending = (each for each in workload.checks if each.state == names.CheckState.PENDING and each.message)
    return "; ".join(f"{each.name}: {each.message}" for each in pending)


def checks_of(workload: Workload, checks: Mapping[str, AdmissionCheck], controller: str) -> list[CheckState]:
    """Returns the states of those checks of a workload that this controller decides (``spec.controllerName``)."""
    return [
        state
        for state in workload.checks
        if (check := checks.get(state.name)) is not None and check.controller_name == controller
    ]
