"""What `certs` needs of the world: a place that keeps the CA, and the clients whose bundles are kept in step.

Protocols only: `app` fills them with the API server's Secret and webhook configurations, `certs.directory` with files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """What a store holds, and the version a write must name. An empty `version` is "nothing there yet"."""

    data: Mapping[str, bytes]
    version: str = ""


class Store(Protocol):
    """Keeps the CA for every process that serves; compare-and-swap, so that any number may start at once."""

    async def read(self) -> Content:
        """What is kept now; empty when nothing is."""

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replace the content if it still is at `version`. False: somebody else was first, read again."""


class BundleTarget(Protocol):
    """A client's copy of the bundle, e.g. the `caBundle`s of one webhook configuration."""

    @property
    def name(self) -> str:
        """What to call it in logs and messages."""

    async def carries(self, bundle: bytes) -> bool:
        """Read the copy anew: it is `bundle`, everywhere. True also where there is nothing to keep in step."""

    async def publish(self, bundle: bytes) -> None:
        """Make the copy `bundle`."""
