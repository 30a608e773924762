"""What a job uses or needs outside of Seiretsu: devices that cannot be counted, and another controller that runs it."""

from __future__ import annotations

from collections.abc import Iterable

from api.names import MULTIKUEUE_CONTROLLER
from core.devices.fixes import explained
from core.devices.inventory import NOT_COUNTED_YET
from core.feedback.rules import fitted, missing, shortened
from core.feedback.submission import Submission
from core.model import ClusterQueue
from core.state.lookup import Lookup


def devices(job: Submission, lookup: Lookup) -> Iterable[str]:
    """Devices that cannot be counted: the job waits until they can, or gets them without quota if that is allowed."""
    if job.uncounted and job.uncounted != NOT_COUNTED_YET:
        found = explained(job.uncounted)
        fact = found.fact.format(*map(shortened, found.names))
        yield fitted(f"{fact}: nothing starts; {found.fix}" if found.fix else fact, f"{fact}; {found.fix}", fact)
    elif job.claims and job.free_devices:
        rest = f" and {len(job.claims) - 2} more" if len(job.claims) > 2 else ""
        named = ", ".join(map(shortened, job.claims[:2])) + rest
        fact = f"resourceClaims ({named}) use no quota: their devices are not counted"
        yield fitted(f"{fact}; request an extended resource instead", fact)


def device_classes(job: Submission, lookup: Lookup) -> Iterable[str]:
    """DeviceClasses that do not exist: their devices are counted, and no pod gets one."""
    for name, template, known in () if job.uncounted else job.missing_classes:
        fact = f'DeviceClass "{shortened(name)}" of ResourceClaimTemplate "{shortened(template)}" does not exist'
        sentences = (f"{fact}: pods stay pending", fact)
        yield missing("DeviceClass", name, known, *sentences, several="DeviceClasses")


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
