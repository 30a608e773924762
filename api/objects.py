"""What every part says of an API object: its JSON, its namespace and name, and the resource that serves it."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

Raw = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON: it is read and patched, and never rebuilt from a model."""


class Key(NamedTuple):
    """Namespace and name of an object; ``namespace`` is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Resource(NamedTuple):
    """One served resource, e.g. ``Resource("batch", "v1", "jobs", "Job")``. The core group is the empty string."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of objects: ``v1`` or ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection (``namespace`` empty: all of them), of one object, or of its subresource."""
        if namespace and not self.namespaced:
            raise ValueError(f"{self.kind} is cluster-scoped: it has no namespace {namespace!r}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r} is namespaced: say in which namespace it lives")
        if subresource and not name:
            raise ValueError(f"the subresource {subresource!r} belongs to one {self.kind}: say which")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)


def key_of(raw: Raw) -> Key:
    """The key of an object; ``KeyError`` where it carries no name."""
    metadata = raw["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])
