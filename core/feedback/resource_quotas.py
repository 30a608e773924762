"""Whether the ResourceQuotas of the namespace allow the pods of a job: an admitted job without pods holds quota for
nothing.

Only the limits of the ResourceQuotas are compared: their present usage changes with every pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from api import quantity
from api.names import PODS_RESOURCE
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.model import PodSet
from core.state.lookup import Lookup
from core.wire.pod_requests import ChargedAmount
from core.wire.resource_quotas import Measure, NamespaceQuota, charged

_Counted = list[tuple[PodSet, ChargedAmount]]
"""The pod sets with pods that a ResourceQuota counts, with what each pod counts for."""


_NOTHING, _SOME = "no pod can be created", "some pods cannot be created"


def too_small(job: Submission, lookup: Lookup) -> Iterable[str]:
    """Reports what a ResourceQuota requires of the pods and they lack, and where it allows too little: for one pod,
    else for all pods together. For each measure only the lowest ResourceQuota.
    """
    pods = [
        (pod_set, charge)
        for pod_set, charge in zip(job.pod_sets, job.charges, strict=False)
        if pod_set.count and charge
    ]
    quotas = [(quota, [each for each in pods if quota.counts(each[1])]) for quota in _by_name(job, lookup)]
    alone = len(job.pod_sets) == 1
    yield from _required(quotas, _NOTHING if alone else _SOME)
    yield from _too_much(job, _lowest(quotas))


def _by_name(job: Submission, lookup: Lookup) -> list[NamespaceQuota]:
    return sorted(lookup.resource_quotas(job.namespace), key=lambda quota: quota.name)


def _required(quotas: list[tuple[NamespaceQuota, _Counted]], nothing: str) -> Iterable[str]:
    known = set()
    for quota, pods in quotas:
        for measure in quota.hard:
            key = _key(measure)
            path = next((charge.unset[key] for _, charge in pods if key in charge.unset), None)
            if path is not None and key not in known:
                known.add(key)
                needs = f'ResourceQuota "{shortened(quota.name)}" requires {key}'
                yield fitted(f"{nothing}: {needs}; set it in {path}.resources")


def _lowest(quotas: list[tuple[NamespaceQuota, _Counted]]) -> Mapping[Measure, tuple[int, str, _Counted]]:
    """Returns by measure the lowest limit, its ResourceQuota, and the pods that it counts."""
    found: dict[Measure, tuple[int, str, _Counted]] = {}
    for quota, pods in quotas:
        for measure, hard in quota.hard.items():
            if pods and (measure not in found or hard < found[measure][0]):
                found[measure] = hard, quota.name, pods
    return dict(sorted(found.items()))


def _too_much(job: Submission, lowest: Mapping[Measure, tuple[int, str, _Counted]]) -> Iterable[str]:
    for measure, (hard, name, pods) in lowest.items():
        most = max(charged(charge, measure) for _, charge in pods)
        if most > hard:
            yield _one(measure, most, hard, name, _NOTHING if len(job.pod_sets) == 1 else _SOME)
    for measure, (hard, name, pods) in lowest.items():
        each = [charged(charge, measure) for _, charge in pods]
        total = sum(pod_set.count * amount for (pod_set, _), amount in zip(pods, each, strict=True))
        if max(each) <= hard < total:
            yield _all(job, measure, total, hard, name, room=hard // each[0])


def _one(measure: Measure, amount: int, hard: int, name: str, nothing: str) -> str:
    allows = f'ResourceQuota "{shortened(name)}" allows {_text(measure, hard)}'
    if measure.resource == PODS_RESOURCE:
        return fitted(f"{nothing}: {allows} pods; an administrator must raise it")
    what = f"{_text(measure, amount)} {shortened(measure.resource)}"
    asks = f"each has a limit of {what}" if measure.limits else f"each asks for {what}"
    less = "set" if measure.limits else "ask for"
    fix = f"{less} {_text(measure, hard)} or less" if hard else "an administrator must raise it"
    return fitted(f"{nothing}: {asks}, {allows}; {fix}", f"{nothing}: {asks}, {allows}")


def _all(job: Submission, measure: Measure, total: int, hard: int, name: str, *, room: int) -> str:
    allows = f'ResourceQuota "{shortened(name)}" allows {_text(measure, hard)}'
    if measure.resource == PODS_RESOURCE:
        asks, allows = "", f"{allows} pods"
    else:
        verb = "have limits of" if measure.limits else "ask for"
        asks = f"all {verb} {_text(measure, total)} {shortened(measure.resource)}, "
    if len(job.pod_sets) == 1:
        begin, fix = (
            f"at most {room} of {job.pods} pods at once",
            f"set {job.words.field_of(job.pod_sets[0].name)} to {room} or less",
        )
    else:
        begin, fix = "not all pods at once", f"set a lower {job.words.pods}"
    return fitted(f"{begin}: {asks}{allows}; {fix}", f"{begin}: {asks}{allows}")


def _key(measure: Measure) -> str:
    return f"{'limits' if measure.limits else 'requests'}.{measure.resource}"


def _text(measure: Measure, amount: int) -> str:
    return quantity.text(measure.resource, amount)
