"""The topology request of a pod set, made from the annotations of its pod template.

Separate from ``core.jobs.admission.topology``, which has refused most wrong values: here they are left out, because a
job must not wait for ever for a Workload that cannot be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from api.names import Annotation
from core.jobs.admission.literals import boolean, integer
from core.model import Raw


class PodIndex(NamedTuple):
    """Labels with the index of a pod, and of the replica that it is in, with the number of replicas; '' and None where
    the kind's controller sets none.
    """

    pod: str = ""
    replica: str = ""
    replicas: int | None = None


NOT_INDEXED: Final = PodIndex()


def topology_request(annotations: Mapping[str, str], index: PodIndex) -> Raw | None:
    """Returns ``topologyRequest`` of a pod set; None if nothing is asked for and the pods have no index, and for a
    request that the API of Workloads refuses.
    """
    slices = _slices(annotations)
    mode = _mode(annotations)
    indexed = {"podIndexLabel": index.pod, "subGroupIndexLabel": index.replica, "subGroupCount": index.replicas}
    found = {**mode, **slices, **{name: value for name, value in indexed.items() if value not in ("", None)}}
    group = annotations.get(Annotation.POD_SET_GROUP_NAME)
    if group and mode.keys() & {"required", "preferred"}:
        found["podSetGroupName"] = group
    return found if found and _storable(found) else None


def _storable(request: Raw) -> bool:
    # Imported here: pydantic and the models take as long as all else that kubectl seiretsu explain imports.
    from pydantic import ValidationError

    from api.v1beta2.workload import PodSetTopologyRequest

    try:
        PodSetTopologyRequest.model_validate(request, strict=True)
    except ValidationError:
        return False
    return True


def _mode(annotations: Mapping[str, str]) -> Raw:
    for key, name in ((Annotation.REQUIRED_TOPOLOGY, "required"), (Annotation.PREFERRED_TOPOLOGY, "preferred")):
        if key in annotations:
            return {name: annotations[key]}
    return _parsed(annotations, Annotation.UNCONSTRAINED_TOPOLOGY, "unconstrained", boolean)


def _slices(annotations: Mapping[str, str]) -> Raw:
    layers = Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS
    if layers in annotations:
        return _parsed(annotations, layers, "podsetSliceRequiredTopologyConstraints", orjson.loads)
    size = _parsed(annotations, Annotation.SLICE_SIZE, "podSetSliceSize", integer)
    level = annotations.get(Annotation.SLICE_REQUIRED_TOPOLOGY)
    return {"podSetSliceRequiredTopology": level, **size} if level and size else {}


def _parsed(annotations: Mapping[str, str], key: str, name: str, parse: Callable[[str], Any]) -> Raw:
    try:
        return {name: parse(annotations[key])} if key in annotations else {}
    except ValueError:
        return {}
