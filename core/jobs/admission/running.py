"""What nobody but Seiretsu changes of a job that has quota: which controller runs it, and on which nodes.

Its own API allows such changes for most kinds. A job that another controller is to run is not stopped by its own any
more, and its status means nothing; one that leaves the nodes of its flavor uses those of another flavor, of which it
has no quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from api.errors import FieldError, forbidden
from core.jobs.admission.metadata import ANEW, IMMUTABLE
from core.jobs.fields import Setting, dotted
from core.jobs.kind import JobKind
from core.model import Raw, ResourceFlavor, Workload
from core.model.kubernetes import Labels

Flavors = Callable[[str], ResourceFlavor | None]
MOVED: Final = f"the job has quota on these nodes: {ANEW}"


def controller_errors(kind: JobKind, old: Raw, new: Raw) -> list[FieldError]:
    """Returns the error of a job that another controller is to run than before."""
    before, after = ((kind.manager(job) or kind.own_controller) for job in (old, new))
    if kind.managed_by is None or before == after:
        return []
    return [forbidden(dotted(kind.managed_by), f"{IMMUTABLE} while the job has quota: {ANEW}")]


def node_errors(kind: JobKind, old: Raw, new: Raw, workload: Workload, flavor: Flavors) -> list[FieldError]:
    """Returns the errors of a job that runs with this Workload, whose pods are no longer to run on the nodes of its
    flavors. What its templates did not select before is no error: the flavor was changed, or the job imported.
    """
    lost = _lost(kind, old, new, workload, flavor)
    return [forbidden(f"{dotted(setting.path[:-1])}[{setting.path[-1]}]", MOVED) for setting, _ in lost]


def left_out(kind: JobKind, old: Raw, new: Raw, workload: Workload, flavor: Flavors) -> list[Setting]:
    """Returns the labels of nodes of its flavors that a job that runs with this Workload selected before and now leaves
    out, where it selects no other value.
    """
    return [setting for setting, now in _lost(kind, old, new, workload, flavor) if now is None]


def _lost(
    kind: JobKind, old: Raw, new: Raw, workload: Workload, flavor: Flavors
) -> Iterator[tuple[Setting, str | None]]:
    """Yields the labels that were selected before and are not now, with the value now, of a job that runs before and
    after the update.
    """
    if kind.held(old) or kind.held(new):
        return
    before, after = (_selectors(kind, job) for job in (old, new))
    paths = {slot.name: (*slot.path, "spec", "nodeSelector") for slot in kind.slots(new)}
    for given in workload.admission.pod_sets if workload.admission is not None else ():
        if given.name not in after or given.name not in paths:
            continue
        known = [each for each in map(flavor, given.flavors.values()) if each is not None]
        for key, value in sorted({pair for each in known for pair in each.node_labels.items()}):
            now = after[given.name].get(key)
            if before.get(given.name, {}).get(key) == value != now:
                yield Setting((*paths[given.name], key), value), now


def _selectors(kind: JobKind, job: Raw) -> dict[str, Labels]:
    """The node selectors of the pod sets of a job, by name."""
    return {each["name"]: (each["template"].get("spec") or {}).get("nodeSelector") or {} for each in kind.pod_sets(job)}
