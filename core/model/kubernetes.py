"""Parts of many Kubernetes kinds: names, labels and selectors, taints, placement of pods, conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

"""A Kubernetes object (or a part of one) as the API server sent it. Read and patched only; never rebuilt from a model,
which would drop unknown fields.
"""

Requests = Mapping[str, int]
"""Amount by resource name."""

Labels = Mapping[str, str]


class Requirement(Struct, frozen=True, gc=False):
    """One term of a label selector or of a node affinity: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


NODE_NAME: Final = "field:metadata.name"
"""The key of a requirement for the name of a node (``matchFields``): no label can have it."""


class Selector(Struct, frozen=True, gc=False):
    """A label selector; all requirements must hold, none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()


class Taint(Struct, frozen=True, gc=False):
    """A node taint of a flavor."""

    key: str
    value: str
    effect: str


class Toleration(Struct, frozen=True, gc=False):
    """A toleration of a pod or of a flavor; no ``effect`` is all effects, no ``key`` with Exists all keys. A
    ``temporary`` one ends after ``tolerationSeconds``.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    temporary: bool = False


class Placement(Struct, frozen=True, gc=False):
    """The node requirements of a pod. ``affinity`` is the required node affinity: any of the terms, all requirements of
    a term; ``preferred`` are the preferred terms with their weights.

    ``None`` means no required node affinity; an empty tuple matches no node. Requirements for the name of the node have
    the key ``NODE_NAME``.
    """

    node_selector: Labels = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()


ANYWHERE = Placement()
"""Pods without requirements share one value, so that it is compared with a flavor once."""


class Condition(Struct, frozen=True, gc=False):
    """A status condition; ``since`` is lastTransitionTime in epoch seconds."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""
    since: float = 0.0
    generation: int = 0
