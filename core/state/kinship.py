"""Whose usage a workload counts as, if not as its own: slices of elastic jobs, and variants of workloads.

A slice that replaces another one counts instead of it once it holds quota in the same ClusterQueue. A parent
(concurrent admission) counts only while no variant holds the quota with which it is admitted. So the answer for one
workload (``counted``) depends on others, and a change of one concerns others (``concerned``), which are counted again.
That is one step, never more: whether a workload holds quota is written in its object, however it is counted.

Separate from ``core.state.state``, which counts; nothing is counted here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from core.model import Key, Workload
from core.model.owner import Owner
from core.model.workload import COMMON, replace
from core.quota.reservations import Reservations, discard
from core.quota.usage import holds_quota


class Counted(enum.Enum):
    """Whose usage a workload counts as."""

    ITSELF = "itself"
    """It waits, or uses the quota that it holds."""
    SUCCESSOR = "successor"
    """The slice that replaces it holds its quota, and counts instead of it."""
    FAMILY = "family"
    """It neither waits nor uses quota: its variants do, or its parent."""


class Kinship:
    """The slices, variants and parents among the workloads of State, which it reads; ``update`` follows each change."""

    def __init__(self, workloads: Mapping[Key, Workload], reservations: Reservations) -> None:
        self._workloads = workloads
        self._reservations = reservations
        self._replaced_by: dict[tuple[Key, Owner | None], Key] = {}
        """By slice and owner the slice that replaces it; either may wait or hold quota."""
        self._parents: dict[str, Key] = {}
        """Workloads that are admitted through variants, by uid."""
        self._variants: dict[str, set[Key]] = {}
        """Variants by the uid of their parent; none without the feature gate."""

    def uncircled(self, workload: Workload) -> Workload:
        """Returns the workload; without its annotation if slices would replace each other in a circle by it."""
        key = workload.replaces
        while key is not None and key != workload.key:
            before = self._workloads.get(key)
            key = before.replaces if before is not None else None
        return workload if key is None else replace(workload, replaces=None)

    def update(self, before: Workload | None, now: Workload | None) -> Iterable[Workload]:
        """Registers that a workload has changed; None is one that is not there, before or now. Returns the others that
        may count differently.
        """
        if (before is None or _alone(before)) and (now is None or _alone(now)):
            return ()
        if before is not None:
            self._forget(before)
        if now is not None:
            if now.replaces is not None:
                self._replaced_by[now.replaces, now.owner] = now.key
            if now.parent:
                self._parents[now.uid] = now.key
            elif now.variant_of and self._reservations.concurrent_admission:
                self._variants.setdefault(now.variant_of, set()).add(now.key)
        return self.concerned(before, now)

    def _forget(self, workload: Workload) -> None:
        key = workload.key
        if workload.replaces is not None and self._replaced_by.get((workload.replaces, workload.owner)) == key:
            del self._replaced_by[workload.replaces, workload.owner]
        if workload.parent and self._parents.get(workload.uid) == key:
            del self._parents[workload.uid]
        if workload.variant_of:
            discard(self._variants, workload.variant_of, key)

    def counted(self, workload: Workload) -> Counted:
        """Returns whose usage a workload counts as now."""
        if workload.parent:
            if not holds_quota(workload) or self._runs_as_variant(workload):
                return Counted.FAMILY
        elif workload.variant_of and not self._reservations.concurrent_admission:
            return Counted.FAMILY
        if self._replaced_by and self._is_replaced(workload) and holds_quota(workload):
            return Counted.SUCCESSOR
        return Counted.ITSELF

    def concerned(self, *versions: Workload | None) -> Iterable[Workload]:
        """Returns the workloads with quota that may count differently when one has changed, or when its quota was
        assumed or withdrawn: the slice that it replaces and its parent, as ``versions`` of it name them.
        """
        found: dict[Key, Workload] = {}
        for each in versions:
            if each is None or _alone(each):
                continue
            if each.replaces is not None and each.replaces in self._workloads:
                found[each.replaces] = self._workloads[each.replaces]
            parent = self._workloads.get(self._parents[each.variant_of]) if each.variant_of in self._parents else None
            if parent is not None and parent.uid == each.variant_of:
                found[parent.key] = parent
        return [each for each in found.values() if holds_quota(each)]

    def replacement(self, workload: Workload) -> Workload | None:
        """Returns the slice of the same job that is to replace a workload; None if there is none."""
        found = self._workloads.get(self._replaced_by.get((workload.key, workload.owner), workload.key))
        return found if found is not None and found.replaces == workload.key and found.owner == workload.owner else None

    def successor(self, slice_key: Key) -> Key | None:
        """Returns the slice without owner that is to replace this one; None if there is none."""
        return self._replaced_by.get((slice_key, None))

    def _is_replaced(self, workload: Workload) -> bool:
        """Whether the slice that replaces it holds its quota: then only that one is counted."""
        by, mine = self.replacement(workload), workload.admission
        if by is None or mine is None:
            return False
        held = self._reservations.get(by.key)
        its = by.admission if holds_quota(by) else None
        return mine.cluster_queue in (held and held.cluster_queue, its and its.cluster_queue)

    def _runs_as_variant(self, parent: Workload) -> bool:
        """Whether a variant holds the quota with which its parent is admitted. If it is gone while its pods run, the
        parent holds that quota itself.
        """
        variants = (self._workloads.get(key) for key in self._variants.get(parent.uid, ()))
        return any(_has_quota_of(each, parent) for each in variants if each is not None)


def _alone(workload: Workload) -> bool:
    """Whether a workload names no other one, and none names it as its parent."""
    rare = workload.rare
    return rare is COMMON or (rare.replaces is None and not rare.variant_of and not rare.parent)


def _has_quota_of(variant: Workload, parent: Workload) -> bool:
    holds = variant.variant_of == parent.uid and not variant.parent and holds_quota(variant)
    return holds and variant.admission == parent.admission
