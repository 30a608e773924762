"""The nodes of a topology in a short form: ``--nodes racks=2x10x64,cpu=96,nvidia.com/gpu=8``.

The flavor is named first, then a number for each level of its topology, highest first: 2 blocks of 10 racks of 64
nodes. Amounts follow, as ``status.allocatable`` has them; without ``pods`` a node has room for 110. Nodes get the
labels of the flavor and, for each level, a value that says where they are (``block-1``, ``rack-1-10``,
``node-1-10-64``). Where there are several forms the flavor is part of it (``node-racks-1-10-64``), so that no two nodes
have the same name.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator

from api import names, quantity
from api.objects import Raw
from cli.manifests import Document, ScenarioError

MOST_NODES = 100_000
PODS = "110"
HOSTNAME = "kubernetes.io/hostname"


def nodes(texts: Iterable[str], objects: Iterable[Document]) -> list[Document]:
    """The nodes that these short forms describe, for flavors and topologies among the objects; ScenarioError for a form
    that cannot be read, or that does not fit them.
    """
    found = [document.raw for document in objects]
    flavors = {raw["metadata"]["name"]: raw for raw in found if raw["kind"] == names.Kind.RESOURCE_FLAVOR}
    topologies = {raw["metadata"]["name"]: raw for raw in found if raw["kind"] == names.Kind.TOPOLOGY}
    marked = _marked(list(texts))
    return [
        Document(raw, f"--nodes {text}") for text, mark in marked for raw in _nodes(text, mark, flavors, topologies)
    ]


def _marked(texts: list[str]) -> Iterator[tuple[str, str]]:
    """Each form with what the names of its nodes have in addition: the flavor, and from its second form on a number."""
    forms: Counter[str] = Counter()
    for text in texts:
        name = text.partition("=")[0]
        forms[name] += 1
        again = f".{forms[name]}" if forms[name] > 1 else ""
        yield text, f"{name}{again}-" if len(texts) > 1 else ""


def without(labels: Iterable[str], objects: Iterable[Document]) -> tuple[Document, ...]:
    """The objects without the nodes that have one of these labels (``example.com/rack=rack-1-3``)."""
    left = tuple(objects)
    for text in labels:
        key, _, value = text.partition("=")
        kept = tuple(one for one in left if not (_is_node(one.raw) and _labels(one.raw).get(key) == value))
        if len(kept) == len(left):
            raise ScenarioError(f"--down {text}: no node has this label")
        left = kept
    return left


def hostnames(objects: Iterable[Document]) -> frozenset[str]:
    """The hostnames of the nodes among the objects."""
    nodes = (one.raw for one in objects if _is_node(one.raw))
    return frozenset(_labels(raw).get(HOSTNAME) or raw["metadata"]["name"] for raw in nodes)


def _is_node(raw: Raw) -> bool:
    return bool(raw["kind"] == "Node")


def _labels(raw: Raw) -> Raw:
    return raw["metadata"].get("labels") or {}


def _nodes(text: str, mark: str, flavors: dict[str, Raw], topologies: dict[str, Raw]) -> Iterator[Raw]:
    name, _, form = text.partition("=")
    size, *amounts = form.split(",")
    spec = flavors[name].get("spec") or {} if name in flavors else None
    if spec is None:
        raise ScenarioError(f"--nodes {text}: there is no ResourceFlavor {name!r} among the objects")
    topology = topologies.get(spec.get("topologyName") or "")
    if topology is None:
        raise ScenarioError(f"--nodes {text}: the flavor {name} has no topology among the objects")
    levels = [str(level["nodeLabel"]) for level in topology["spec"]["levels"]]
    counts = _counts(text, size, levels)
    allocatable = {"pods": PODS, **dict(_amount(text, each) for each in amounts)}
    for path in itertools.product(*(range(1, count + 1) for count in counts)):
        yield _node(path, mark, levels, spec.get("nodeLabels") or {}, allocatable)


def _counts(text: str, size: str, levels: list[str]) -> list[int]:
    try:
        counts = [int(each) for each in size.split("x")]
    except ValueError:
        counts = []
    deeper = len(counts) == len(levels) + 1 and levels[-1] != HOSTNAME
    if not counts or min(counts) < 1 or not (len(counts) == len(levels) or deeper):
        expected = "x".join(level.rpartition("/")[2].upper() for level in levels)
        raise ScenarioError(f"--nodes {text}: a number for each level is expected: {expected}")
    if math.prod(counts) > MOST_NODES:
        raise ScenarioError(f"--nodes {text}: these are {math.prod(counts)} nodes, {MOST_NODES} at most are simulated")
    return counts


def _amount(text: str, given: str) -> tuple[str, str]:
    resource, _, amount = given.partition("=")
    try:
        quantity.amount(resource, amount)
    except ValueError:
        raise ScenarioError(f"--nodes {text}: {given!r} is no amount, such as cpu=96 or memory=256Gi") from None
    return resource, amount


def _node(path: tuple[int, ...], mark: str, levels: list[str], labels: Raw, allocatable: dict[str, str]) -> Raw:
    numbers = [mark + "-".join(map(str, path[:depth])) for depth in range(1, len(path) + 1)]
    name = f"node-{numbers[-1]}"
    values = {
        level: name if level == HOSTNAME else f"{level.rpartition('/')[2]}-{number}"
        for level, number in zip(levels, numbers, strict=False)  # without the hostname nodes are one level deeper
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, HOSTNAME: name, **values}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }
