"""Writing to the API server: every answer enters the caches at once, so that the next decision knows of it.

Separate so that no reconciler forgets. A write that was cut short may or may not have happened: whoever must know asks
``refreshed``, which reads the object anew (a quorum read) before anything else is decided about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.kube.resource import Key as StoreKey
from controller.kube.resource import Raw, Resource
from controller.kube.store import Store
from core.model import Key

PatchType = Literal["merge", "json", "apply"]


class Writer:
    """The client and the stores together. Objects of resources that nobody watches are written all the same."""

    def __init__(self, client: Client, stores: Mapping[Resource, Store[Any]]) -> None:
        self.client = client
        self._stores = stores

    async def create(self, resource: Resource, body: Raw) -> Raw:
        """Create an object; ``AlreadyExists`` where the name is taken."""
        answer = await self.client.create(resource, body, body["metadata"].get("namespace", ""))
        return self._entered(resource, answer)

    async def patch(
        self, resource: Resource, key: Key, body: Raw | list[Raw], *, subresource: str = "", kind: PatchType = "merge"
    ) -> Raw:
        """Patch an object or its subresource; with ``metadata.resourceVersion`` in the body only if it is unchanged."""
        answer = await self.client.patch(resource, key.name, key.namespace, body, type=kind, subresource=subresource)
        metadata = answer["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):  # the last thing that held it is gone
            self._removed(resource, key, metadata["uid"])
            return answer
        return self._entered(resource, answer)

    async def delete(self, resource: Resource, key: Key, uid: str) -> None:
        """Delete this very object; gone already is as good. Finalizers may hold it: then the caches see it deleting."""
        try:
            answer = await self.client.delete(resource, key.name, key.namespace, uid=uid)
        except NotFound:
            self._removed(resource, key, uid)
            return
        if answer.get("kind") == resource.kind and answer["metadata"].get("deletionTimestamp"):
            self._entered(resource, answer)
        else:
            self._removed(resource, key, uid)

    async def refreshed(self, resource: Resource, key: Key, uid: str) -> Raw | None:
        """The object as the API server has it now, entered into the caches; None where this very object is gone."""
        try:
            answer = await self.client.get(resource, key.name, key.namespace)
        except NotFound:
            self._removed(resource, key, uid)
            return None
        if answer["metadata"]["uid"] != uid:
            self._removed(resource, key, uid)
        self._entered(resource, answer)
        return answer if answer["metadata"]["uid"] == uid else None

    def _entered(self, resource: Resource, answer: Raw) -> Raw:
        store = self._stores.get(resource)
        if store is not None:
            store.put_from_write(answer)
        return answer

    def _removed(self, resource: Resource, key: Key, uid: str) -> None:
        store = self._stores.get(resource)
        if store is not None:
            store.remove_from_write(StoreKey(*key), uid)
