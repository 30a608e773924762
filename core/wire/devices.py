"""The claims of pod specs, and pod sets with what their devices count for (``core.devices``).

Separate from decoding because admission needs the same for the pods of a job before a Workload exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from api import quantity
from api.names import Condition
from core.devices.inventory import NOT_COUNTED_YET, DeviceCharge, Inventory, PodClaims
from core.model import Admission, Key, PodSet, Raw, Workload
from core.wire.pod_requests import RequestRules, containers
from core.wire.timestamps import maybe_epoch


class PodTemplate(NamedTuple):
    """A pod set by its name, and the spec of its pods."""

    name: str
    spec: Raw


def pod_claims(pods: Iterable[PodTemplate], rules: RequestRules) -> tuple[PodClaims, ...]:
    """Returns the claims of pods, and the requests of their containers if any extended resource counts as a claim."""
    standing = rules.devices is not None and rules.devices.extended
    found = []
    for name, spec in pods:
        claims = tuple(
            (each.get("resourceClaimTemplateName") or "", each.get("resourceClaimName") or "")
            for each in spec.get("resourceClaims") or ()
        )
        init, main = containers(spec, rules) if standing else ([], [])
        found.append(PodClaims(name, claims, init, main))
    return tuple(found)


def charge(
    namespace: str, pods: Sequence[PodTemplate], pod_sets: Sequence[PodSet], rules: RequestRules
) -> DeviceCharge | None:
    """Returns what the devices of these pods count for; None if they request none, or claims do not count."""
    devices = rules.devices
    if devices is None:
        return None
    standing = devices.extended
    named = any(spec.get("resourceClaims") for _, spec in pods)
    if not named and not (standing and any(standing.keys() & pod_set.per_pod.keys() for pod_set in pod_sets)):
        return None
    return devices.charge(namespace, pod_claims(pods, rules))


def counted(pod_sets: Iterable[PodSet], found: DeviceCharge) -> tuple[PodSet, ...]:
    """Returns the pod sets with what their devices count for, which must be known."""
    return tuple(_counted(*each) for each in zip(pod_sets, found.amounts, found.replaced, found.whole, strict=True))


def as_admitted(pod_sets: Iterable[PodSet], admission: Admission, inventory: Inventory) -> tuple[PodSet, ...]:
    """Returns the pod sets of an admitted Workload whose claims cannot be counted any more (e.g. because the template
    was deleted) with the devices for which it was admitted: its pods use them.
    """
    given = {each.name: each for each in admission.pod_sets}
    resources = inventory.whole()
    return tuple(
        _using(pod_set, {name: amount // of.count for name, amount in of.usage.items() if name in resources})
        if (of := given.get(pod_set.name)) is not None and of.count
        else pod_set
        for pod_set in pod_sets
    )


def _using(pod_set: PodSet, devices: Mapping[str, int], without: frozenset[str] = frozenset()) -> PodSet:
    if not devices and pod_set.per_pod.keys().isdisjoint(without):
        return pod_set
    more = {name: amount for name, amount in pod_set.per_pod.items() if name not in without}
    for name, amount in devices.items():
        more[name] = more.get(name, 0) + amount
    return msgspec.structs.replace(pod_set, with_devices={name: more[name] for name in sorted(more)})


def outgrown(namespace: str, pods: Sequence[PodTemplate], workload: Workload, rules: RequestRules) -> str:
    """Returns in a sentence that a template of these pods was made again after the admission of the Workload, and asks
    for more than it was admitted for; '' if not.

    What a claim counts for may also change with the devices of the cluster, or with the Configuration: that is not the
    work of the Workload's owner, and does not matter.
    """
    reserved, inventory = workload.condition(Condition.QUOTA_RESERVED), rules.devices
    if workload.admission is None or reserved is None or not reserved.status or not isinstance(inventory, Inventory):
        return ""
    names = {claim for pod in pod_claims(pods, rules) for claim, _ in pod.claims if claim}
    known = (inventory.templates.get(Key(namespace, name)) for name in sorted(names))
    again = [each for each in known if each is not None and (maybe_epoch(each.created) or 0.0) >= reserved.since]
    what = f"ResourceClaimTemplate {again[0].key.name} was made again after the admission" if again else ""
    if again and workload.uncounted and workload.uncounted != NOT_COUNTED_YET:
        return f"{what}: {workload.uncounted}"
    asked = {each.name: each for each in workload.pod_sets}
    for given in workload.admission.pod_sets if again else ():
        pod_set = asked.get(given.name)
        if pod_set is None or not given.count:
            continue
        for resource, amount in pod_set.requests.items():
            admitted = given.usage.get(resource, 0)
            if amount * given.count > admitted and amount > pod_set.per_pod.get(resource, 0):
                now, then = (quantity.text(resource, each) for each in (amount, admitted // given.count))
                return f"{what}: each pod asks for {now} {resource} now, and was admitted for {then}"
    return ""


def _counted(pod_set: PodSet, more: Mapping[str, int], less: frozenset[str], whole: Mapping[str, int] | None) -> PodSet:
    if not more and not less:
        return pod_set
    requests = {name: amount for name, amount in pod_set.requests.items() if name not in less}
    for resource, amount in more.items():
        requests[resource] = requests.get(resource, 0) + amount * (1000 if resource == quantity.CPU else 1)
    ordered = {name: requests[name] for name in sorted(requests)}
    charged = msgspec.structs.replace(pod_set, requests=ordered, own=pod_set.per_pod)
    if whole is None:
        return charged
    return _using(charged, {name: amount for name, amount in whole.items() if name != quantity.CPU}, less)
