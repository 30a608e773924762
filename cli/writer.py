"""Creates, changes and deletes objects, beside reading them: for the commands of ``kubectl seiretsu`` that write.

The warnings of the API server's answers are printed as kubectl prints them. A write is sent once: see ``cli.reader``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from typing import Final, Literal

import typer

from api.objects import Raw, Resource
from cli.reader import Call, Reader
from controller.kube.config import Connection

FIELD_MANAGER: Final = "kubectl-seiretsu"
DryRun = Literal["none", "client", "server"]
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def _print(warning: str) -> None:
    typer.echo(f"Warning: {warning}", err=True)


class ObjectWriter(Reader):
    """Writes as the account of a connection. ``dry_run``: the API server answers as if, and stores nothing."""

    def __init__(
        self,
        connection: Connection,
        *,
        dry_run: bool = False,
        seconds: float = 0.0,
        warn: Callable[[str], None] = _print,
    ) -> None:
        super().__init__(connection, seconds)
        self._dry_run = dry_run
        self._warn = warn

    def create(self, resource: Resource, made: Raw) -> Raw:
        """Returns the object as the API server has stored it."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self._write("POST", resource.path(made["metadata"].get("namespace", "")), query, made)

    def merge(self, resource: Resource, namespace: str, name: str, patch: Raw, *, subresource: str = "") -> Raw:
        """Returns the object after a merge patch of it, or of its subresource."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self._write("PATCH", resource.path(namespace, name, subresource), query, patch)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str = "") -> None:
        """Deletes an object and what it owns, without waiting for either; with ``uid`` only this very object."""
        options: Raw = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        self._write("DELETE", resource.path(namespace, name), {}, options)

    def _write(self, method: str, path: str, query: Mapping[str, str], body: Raw) -> Raw:
        asked = {**query, **({"dryRun": "All"} if self._dry_run else {})}
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self._called(Call(method, self._target(path, asked), json.dumps(body).encode(), content_type))

    def _warned(self, headers: HTTPMessage) -> None:
        for line in headers.get_all("Warning") or ():
            for text in _WARNING.findall(line):
                self._warn(re.sub(r"\\(.)", r"\1", text))
