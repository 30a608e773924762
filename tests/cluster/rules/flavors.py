"""ResourceFlavors and Topologies."""

from __future__ import annotations

from typing import Any

from tests.api.objects import VALID, changed, obj
from tests.cluster.rules import Rule, hook, schema, schema_change
from tests.cluster.rules.queues import LABEL_VALUE, NAME_PART

FLAVOR = VALID["ResourceFlavor"]()
TOPOLOGICAL = obj("ResourceFlavor", {"topologyName": "a", "nodeLabels": {"pool": "b"}})
HOST = "kubernetes.io/hostname"


def tolerating(**toleration: Any) -> dict[str, Any]:
    return changed(FLAVOR, "spec.tolerations[0]", toleration)


def levels(*labels: str) -> dict[str, Any]:
    return obj("Topology", {"levels": [{"nodeLabel": label} for label in labels]})


FLAVORS: dict[str, Rule] = {
    "a node label that is none": hook(
        changed(FLAVOR, "spec.nodeLabels", {"a b": "c"}), f'spec.nodeLabels: Invalid value: "a b": {NAME_PART}'
    ),
    "a node label of a value that is none": hook(
        changed(FLAVOR, "spec.nodeLabels", {"a": "b c"}), f'spec.nodeLabels: Invalid value: "b c": {LABEL_VALUE}'
    ),
    "a node label of a value that is too long": hook(
        changed(FLAVOR, "spec.nodeLabels", {"a": "x" * 64}),
        f'spec.nodeLabels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
    ),
    "nine node labels": schema(
        changed(FLAVOR, "spec.nodeLabels", {f"l{index}": "" for index in range(9)}),
        "spec.nodeLabels: Too many: 9: must have at most 8 items",
    ),
    "a taint whose key is none": hook(
        changed(FLAVOR, "spec.nodeTaints[0].key", "a b"), f'spec.nodeTaints[0].key: Invalid value: "a b": {NAME_PART}'
    ),
    "a taint whose value is none": hook(
        changed(FLAVOR, "spec.nodeTaints[0].value", "a b"),
        f'spec.nodeTaints[0].value: Invalid value: "a b": {LABEL_VALUE}',
    ),
    "a taint twice": hook(
        changed(FLAVOR, "spec.nodeTaints[1]", {"key": "spot", "effect": "NoSchedule"}),
        'spec.nodeTaints[1]: Duplicate value: {"effect":"NoSchedule","key":"spot"}: taints must be unique by key and'
        " effect pair",
    ),
    "a taint of an unknown effect": schema(
        changed(FLAVOR, "spec.nodeTaints[0].effect", "Never"),
        "spec.nodeTaints: Invalid value: supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
    "nine taints": schema(
        changed(FLAVOR, "spec.nodeTaints", [{"key": f"t{index}", "effect": "NoSchedule"} for index in range(9)]),
        "spec.nodeTaints: Too many: 9: must have at most 8 items",
    ),
    "a toleration whose key is none": hook(
        tolerating(key="a b", operator="Exists"), f'spec.tolerations[0].key: Invalid value: "a b": {NAME_PART}'
    ),
    "a toleration of no key": schema(
        tolerating(operator="Equal", value="a"),
        "spec.tolerations: Invalid value: operator must be Exists when 'key' is empty, which means 'match all values"
        " and all keys'",
    ),
    "a toleration for a while of what does not evict": schema(
        tolerating(key="spot", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
        "spec.tolerations: Invalid value: effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    "a toleration by an unknown operator": schema(
        tolerating(key="spot", operator="In"),
        "spec.tolerations: Invalid value: supported toleration values: 'Equal'(default), 'Exists'",
    ),
    "a toleration that exists as something": schema(
        tolerating(key="spot", operator="Exists", value="a"),
        "spec.tolerations: Invalid value: a value must be empty when 'operator' is 'Exists'",
    ),
    "a toleration of an unknown effect": schema(
        tolerating(key="spot", operator="Exists", effect="Never"),
        "spec.tolerations: Invalid value: supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
    "a topology without labels": schema(
        obj("ResourceFlavor", {"topologyName": "t"}),
        "spec: Invalid value: at least one nodeLabel is required when topology is set",
    ),
    "another topology": schema_change(
        TOPOLOGICAL,
        changed(TOPOLOGICAL, "spec.topologyName", "b"),
        "spec: Invalid value: topologyName is immutable when topologyName is set",
    ),
}

TOPOLOGIES: dict[str, Rule] = {
    "a level twice": schema(levels("rack", "rack"), "spec.levels: Invalid value: must be unique"),
    "hosts above racks": schema(
        levels(HOST, "rack"),
        f"spec.levels: Invalid value: the {HOST} label can only be used at the lowest level of topology",
    ),
    "other levels where none is the host": schema_change(
        levels("rack"),
        levels("block", "rack"),
        f"spec.levels: Invalid value: levels are mutable only when {HOST} is the lowest level both before and after"
        " the change",
    ),
    "a topology of no levels": schema(
        levels(), "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items"
    ),
    "seventeen levels": schema(
        levels(*(f"l{index}" for index in range(17))), "spec.levels: Too many: 17: must have at most 16 items"
    ),
    "a level whose label is none": schema(
        levels("a b"),
        'spec.levels[0].nodeLabel: Invalid value: "a b": spec.levels[0].nodeLabel in body should match'
        r" '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?"
        "[A-Za-z0-9])$'",
    ),
}
