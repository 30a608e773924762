"""Pod templates that people write by hand: what is accepted of them can be read, what cannot be read is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from api import validate
from api.objects import Raw
from core.wire import decode

WRONG: tuple[Any, ...] = (None, 5, "x", [], {}, [None], ["x"], {"a": None}, {"a": 5}, True, -1)

CONTAINER = {"name": "c", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
REQUIREMENT = {"key": "a", "operator": "In", "values": ["x"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [REQUIREMENT], "matchFields": [REQUIREMENT]}]}
TEMPLATE: Raw = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "resources": {"requests": {"cpu": "4"}, "limits": {}},
        "overhead": {"cpu": "1"},
        "nodeSelector": {"a": "b"},
        "priorityClassName": "p",
        "runtimeClassName": "r",
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
    },
}


def workload(template: Raw) -> Raw:
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]}
    metadata = {"name": "x", "namespace": "default"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}


def places(node: Any) -> Iterator[tuple[Any, ...]]:
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield (key,)
        yield from ((key, *rest) for rest in places(node[key]))


def test_whatever_stands_in_a_template_is_read_or_refused() -> None:
    accepted = refused = 0
    for *way, last in places(TEMPLATE):
        for wrong in WRONG:
            template = copy.deepcopy(TEMPLATE)
            node: Any = template
            for step in way:
                node = node[step]
            node[last] = copy.deepcopy(wrong)
            obj = workload(template)
            if validate.create(obj):
                refused += 1
            else:
                decode.workload(obj, decode.WorkloadContext())
                accepted += 1
    assert accepted > 100
    assert refused > 300
