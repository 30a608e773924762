"""Recorded encodings of topology assignments: what one line of input becomes here, in the form of its expectation."""

from __future__ import annotations

from api.convert import topology_assignment
from api.feature_gates import enabled
from core.model import Raw, TopologyAssignment, TopologyDomain
from core.topology.encoding import encode, truncated
from core.wire import decode


def encoding_of(line: Raw) -> Raw:
    """Returns what becomes of one line, by its family."""
    given, family = line["input"], line["family"].removeprefix("table-")
    if family == "encode":
        by_prefix = enabled("TASAssignmentsEncodingByHostnamePrefix", given.get("featureGates") or {})
        return {"topologyAssignment": encode(_assignment(given), by_prefix=by_prefix)}
    if family == "truncate":
        return _plain(truncated(_assignment(given), given["newCount"]))
    if family == "v1beta1-to-v1beta2":
        return {"topologyAssignment": topology_assignment.slices(given["v1beta1"])}
    if family == "v1beta2-to-v1beta1":
        return {"v1beta1": topology_assignment.domains(given["topologyAssignment"])}
    found = decode.topology_assignment(given["topologyAssignment"])
    assert found is not None
    return {
        **_plain(found),
        "lowestLevelValues": [domain.values[-1] for domain in found.domains],
        "totalDomains": len(found.domains),
        "totalPods": sum(domain.count for domain in found.domains),
    }


def _assignment(given: Raw) -> TopologyAssignment:
    domains = (TopologyDomain(tuple(each["values"]), each["count"]) for each in given.get("domains") or ())
    return TopologyAssignment(tuple(given["levels"]), tuple(domains))


def _plain(assignment: TopologyAssignment) -> Raw:
    domains = [{"values": list(domain.values), "count": domain.count} for domain in assignment.domains]
    return {"levels": list(assignment.levels), "domains": domains}
