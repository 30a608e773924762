"""The interfaces of `certs`: a place that stores the CA, and the clients whose bundles are updated.

Protocols only: `app` implements them with the API server's Secret and webhook configurations, `certs.directory` with
files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a store, and the version that a write must name. An empty `version` means that there is none
    yet.
    """

    data: Mapping[str, bytes]
    version: str = ""


class CertificateStore(Protocol):
    """Stores the CA for every process that serves; compare-and-swap, so that any number may start at the same time."""

    async def read(self) -> Content:
        """Returns the present content; empty if there is none."""

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replaces the content if it still has `version`. Returns False if another writer was first: read again."""


class BundleTarget(Protocol):
    """A client's copy of the bundle, e.g. the `caBundle`s of one webhook configuration."""

    @property
    def name(self) -> str:
        """The name in logs and messages."""

    async def carries(self, bundle: bytes) -> bool:
        """Reads every copy again: whether it is `bundle`. True also if there is nothing to update."""

    async def publish(self, bundle: bytes) -> None:
        """Make the copy `bundle`."""
