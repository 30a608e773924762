"""What every part says of an API object: its JSON, and its namespace and name."""

from __future__ import annotations

from typing import Any, NamedTuple

Raw = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON: it is read and patched, and never rebuilt from a model."""


class Key(NamedTuple):
    """Namespace and name of an object; ``namespace`` is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
