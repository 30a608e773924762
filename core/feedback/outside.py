"""What a job uses or needs outside of Seiretsu: devices that no quota counts, and another controller that runs it."""

from __future__ import annotations

from collections.abc import Iterable

from api.names import MULTIKUEUE_CONTROLLER
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.model import ClusterQueue
from core.state.lookup import Lookup


def devices(job: Submission, lookup: Lookup) -> Iterable[str]:
    """Devices of ResourceClaims: the job gets them without quota."""
    if job.claims:
        rest = f" and {len(job.claims) - 2} more" if len(job.claims) > 2 else ""
        named = ", ".join(map(shortened, job.claims[:2])) + rest
        fact = f"resourceClaims ({named}) use no quota: their devices are not counted"
        yield fitted(f"{fact}; request an extended resource instead", fact)


def other_controller(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A job that its own controller leaves to another one, which may not exist here."""
    if not job.managed_by:
        return
    path, name = job.managed_by
    if name == MULTIKUEUE_CONTROLLER:
        checks = (lookup.admission_check(rule.name) for rule in queue.checks)
        if any(each and each.controller_name == MULTIKUEUE_CONTROLLER for each in checks):
            return
        fact = f'{path} is MultiKueue, but ClusterQueue "{shortened(queue.name)}" has no such check'
        yield fitted(f"{fact}: nothing creates the pods; unset it", f"{fact}: nothing creates the pods")
        return
    fact = f"{path} is {shortened(name)}: only that controller creates the pods"
    yield fitted(f"{fact}; unset managedBy if it does not run here", f"{fact}; unset it if none runs here", fact)
