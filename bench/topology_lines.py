"""Recorded placements: what one line of input decides here, in the form of its expectation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from api import names, quantity
from core.guard.pods import asks_for_topology, used_of_node
from core.model import PodSet, Raw, Requests, TopologyAssignment
from core.topology import Asked, Domains, Misfit, Options, place, replacement
from core.topology.others import OtherPods
from core.wire import decode


def placement_of(line: Raw) -> dict[str, Any]:
    """Returns ``podSets`` as expected of a line: by name a ``reason``, or ``domains``, ``levels`` and the order in
    which they are stored as ``stored``.
    """
    given = line["input"]
    domains = domains_of(given)
    options = options_of(given.get("featureGates") or {})
    asked = [_asked(raw) for raw in given["requests"]]
    status = (given.get("workload") or {}).get("status") or {}
    if status.get("unhealthyNodes"):
        found = _replaced(given, domains, asked, options)
    else:
        found = place(domains, asked, options, empty=bool(given.get("simulateEmpty")))
    return {name: _shown(each) for name, each in found.items()}


def _replaced(
    given: Raw, domains: Domains, asked: list[Asked], options: Options
) -> dict[str, TopologyAssignment | Misfit]:
    status = given["workload"]["status"]
    before: dict[str, TopologyAssignment] = {}
    for each in status["admission"]["podSetAssignments"]:
        decoded = decode.topology_assignment(each.get("topologyAssignment"))
        if decoded is not None:
            before[each["name"]] = decoded
    if options.keep_pod_owned and _pod_owned(given["workload"]["metadata"]):
        return {each.pod_set.name: before[each.pod_set.name] for each in asked}
    return replacement(domains, asked, before, status["unhealthyNodes"][0]["name"], options)


def _pod_owned(metadata: Raw) -> bool:
    """Whether a Workload with this metadata belongs to one pod, and not to a group of pods."""
    owners: list[Raw] = metadata.get("ownerReferences") or []
    if len(owners) != 1 or (metadata.get("annotations") or {}).get(names.Annotation.IS_GROUP_WORKLOAD) == "true":
        return False
    return (owners[0]["apiVersion"], owners[0]["kind"]) == ("v1", "Pod")


def options_of(gates: dict[str, bool]) -> Options:
    """The options of feature gates that differ from their defaults."""
    return Options(
        mixed_profile=gates.get("TASProfileMixed", True),
        balanced=gates.get("TASBalancedPlacement", False),
        preferred_affinity=gates.get("TASRespectNodeAffinityPreferred", False),
        elastic=gates.get("ElasticJobsViaWorkloadSlicesWithTAS", False),
        keep_pod_owned=gates.get("SkipReassignmentForPodOwnedWorkloads", True),
    )


def domains_of(given: Raw) -> Domains:
    """The domains of a line, with all usage."""
    levels = tuple(level["nodeLabel"] for level in given["topology"]["spec"]["levels"])
    flavor_raw = dict(given["resourceFlavor"])
    flavor_raw["spec"] = {**(flavor_raw.get("spec") or {}), "topologyName": given["topology"]["metadata"]["name"]}
    nodes = [decode.node({**raw, "metadata": {**raw["metadata"]}}) for raw in given.get("nodes", ())]
    domains = Domains(levels, decode.resource_flavor(flavor_raw), nodes, others(given.get("pods") or ()))
    usage = list(given.get("tasUsage") or ())
    overlapping = (given.get("featureGates") or {}).get("TASHandleOverlappingFlavors", True)
    if overlapping and domains.tree.by_hostname:
        usage += given.get("siblingUsage") or ()
    for each in usage:
        domains.add(tuple(each["values"]), amounts(each.get("singlePodRequests") or {}), each["count"])
    return domains


def others(pods: Iterable[Raw]) -> dict[str, Requests]:
    """By node name what pods outside of topology use there: as in Kueue, those without an annotation of one."""
    found = OtherPods()
    for each in (used_of_node(raw) for raw in pods if not asks_for_topology(raw["metadata"].get("annotations"))):
        if each is not None:
            found.add(*each)
    return {node: found.used(node) for node in found.take_changed()}


def amounts(raw: Raw) -> Requests:
    """Requests in base units."""
    return {resource: quantity.amount(resource, value) for resource, value in raw.items()}


def _asked(raw: Raw) -> Asked:
    asked = raw["podSet"]
    spec = (asked.get("template") or {}).get("spec") or {}
    return Asked(
        PodSet(
            asked["name"],
            asked.get("count", 0),
            amounts(raw.get("singlePodRequests") or {}),
            placement=decode.placement(spec),
            topology=decode.topology_request(asked.get("topologyRequest") or {}),
        ),
        raw["count"],
        raw.get("podSetGroupName") or "",
        bool(raw.get("implied")),
        tuple(decode.placement(update) for update in raw.get("podSetUpdates") or ()),
        decode.topology_assignment(raw.get("previousAssignment")),
    )


def _shown(found: TopologyAssignment | Misfit) -> Any:
    if isinstance(found, Misfit):
        return {"reason": found.text}
    stored = [{"count": each.count, "values": list(each.values)} for each in found.domains]
    return {
        "domains": sorted(stored, key=lambda each: each["values"]),
        "levels": list(found.levels),
        "stored": stored,
    }
