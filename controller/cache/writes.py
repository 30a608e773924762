"""Writes to the API server: every answer enters the caches immediately, so that the next decision uses it.

Separate so that no reconciler can forget it. The outcome of an interrupted write is unknown: a caller that must know it
calls ``refreshed``, which reads the object again (a quorum read) before anything else is decided about it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from api import resources
from api.objects import Key, Raw, Resource, key_of
from controller.cache.churn import Churn
from controller.kube.errors import Forbidden, NotFound, Terminating, Unauthorized
from controller.kube.log import get_logger
from controller.kube.store import Store
from core.wire.merge import replacement

if TYPE_CHECKING:
    from controller.kube.client import Client

log = get_logger(__name__)

WriterPatchType = Literal["merge", "json", "apply"]

REPLACED = frozenset({resources.WORKLOADS})
"""The resources whose status is sent as a whole where that does the same as the patch: it costs the API server less."""


class Writer:
    """The client and the stores together. Objects of resources that are not watched can be written too.

    ``refused`` has, by the kind of write, the last refusal of the API server; a successful write of that kind removes
    it. Missing rights would otherwise be visible only in jobs that wait. ``churn`` counts what is created: who creates
    asks it first.
    """

    def __init__(
        self,
        client: Client,
        stores: Mapping[Resource, Store[Any]],
        *,
        replaced: frozenset[Resource] = REPLACED,
        counted: Callable[[Resource, Raw], None] = lambda resource, raw: None,
    ) -> None:
        """``counted`` is called with each answer before it is entered, and raises if it may not be. Of resources in
        ``replaced`` the stores have whole statuses.
        """
        self.client = client
        self.churn = Churn()
        self._replaced = replaced
        self._counted = counted
        self.refused: dict[str, str] = {}
        self._stores = stores

    def turn(self, namespace: str, *, first: bool = False) -> contextlib.AbstractAsyncContextManager[None]:
        """Context in which one write for a namespace is decided and made: waits as long as admission calls have
        precedence, not behind the writes for one other namespace, and with ``first`` not behind writes without it.
        """
        return self.client.precedence.turn(namespace, first=first)

    async def create(self, resource: Resource, body: Raw) -> Raw:
        """Create an object; ``AlreadyExists`` where the name is taken."""
        with self._noting(f"create {resource.plural}"):
            answer = await self.client.create(resource, body, body["metadata"].get("namespace", ""))
        self.churn.created(resource, key_of(body))
        return self._entered(resource, answer)

    async def patch(
        self,
        resource: Resource,
        key: Key,
        body: Raw | list[Raw],
        *,
        subresource: str = "",
        kind: WriterPatchType = "merge",
    ) -> Raw:
        """Patch an object or its subresource; with ``metadata.resourceVersion`` in the body only if it is unchanged."""
        whole = self._whole(resource, key, body) if (subresource, kind) == ("status", "merge") else None
        verb = "patch" if whole is None else "update"
        with self._noting(f"{verb} {resource.plural}{f'/{subresource}' if subresource else ''}"):
            if whole is not None:
                answer = await self.client.update(resource, whole, subresource=subresource)
            else:
                answer = await self.client.patch(
                    resource, key.name, key.namespace, body, type=kind, subresource=subresource, force=kind == "apply"
                )
        if _is_gone(answer):
            self._removed(resource, key, answer["metadata"]["uid"])
            return answer
        return self._entered(resource, answer)

    async def delete(self, resource: Resource, key: Key, uid: str, *, grace: int | None = None) -> None:
        """Delete this very object; gone already is as good. Finalizers or its grace period may keep it: then the caches
        see it deleting. ``grace`` are the seconds that a pod may take, if not its own.
        """
        try:
            with self._noting(f"delete {resource.plural}"):
                answer = await self.client.delete(resource, key.name, key.namespace, uid=uid, grace=grace)
        except NotFound:
            self._removed(resource, key, uid)
            return
        if answer.get("kind") == resource.kind and answer["metadata"].get("deletionTimestamp") and not _is_gone(answer):
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

    async def first_of(
        self, resource: Resource, namespace: str, *, labels: str, fields: str, limit: int
    ) -> tuple[list[Raw], bool]:
        """At most ``limit`` objects of a namespace that match both selectors, and whether there are more.

        A quorum read; stores do not learn of them.
        """
        with self._noting(f"list {resource.plural}"):
            pages = self.client.pages(resource, namespace, label_selector=labels, field_selector=fields, limit=limit)
            async with contextlib.aclosing(pages):
                async for page in pages:
                    if page["items"]:
                        return list(page["items"]), bool(page["metadata"].get("continue"))
        return [], False

    async def all_of(self, resource: Resource, namespace: str, *, labels: str, fields: str) -> list[Raw]:
        """All objects of a namespace that match both selectors: a quorum read, of which stores do not learn."""
        found: list[Raw] = []
        with self._noting(f"list {resource.plural}"):
            pages = self.client.pages(resource, namespace, label_selector=labels, field_selector=fields)
            async with contextlib.aclosing(pages):
                async for page in pages:
                    found += page["items"]
        return found

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except Terminating:
            raise
        except (Unauthorized, Forbidden) as error:
            if what not in self.refused:
                log.error("The API server denies a write", what=what, error=str(error))
            self.refused[what] = str(error)
            raise
        if self.refused.pop(what, None) is not None:
            log.info("The API server allows the write again", what=what)

    def _whole(self, resource: Resource, key: Key, body: Raw | list[Raw]) -> Raw | None:
        """The object with the whole status to send instead of a merge patch; None where it must be the patch."""
        stored = self._stores[resource].get(key) if resource in self._replaced and resource in self._stores else None
        whole = replacement(stored, body) if stored is not None and isinstance(body, dict) else None
        return whole and {"apiVersion": resource.api_version, "kind": resource.kind, **whole}

    def _entered(self, resource: Resource, answer: Raw) -> Raw:
        store = self._stores.get(resource)
        if store is not None:
            self._counted(resource, answer)
            store.put_from_write(answer)
        return answer

    def _removed(self, resource: Resource, key: Key, uid: str) -> None:
        store = self._stores.get(resource)
        if store is not None:
            store.remove_from_write(Key(*key), uid)


def _is_gone(answer: Raw) -> bool:
    """Whether the API server has removed the object that it answers with: it is being deleted, no finalizer keeps it,
    and it has no grace period. A pod in its grace period still runs.
    """
    metadata = answer["metadata"]
    kept = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not kept
