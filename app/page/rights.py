"""What a viewer of the page may see: each answer is about things that kubectl would show the same user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from api import resources
from api.objects import Resource
from app.access import UNREVIEWED, Reviews, User
from app.limits import RefusedCallError
from app.page.topics import TopicName
from core.explain.sight import EVERYTHING, Sight

MOST_NAMESPACES: Final = 20
"""Of so many namespaces it is asked at once whether a user may read their workloads, if he may not read all."""


class Rights:
    """The rights of one user, as the API server reviews them; ``reviews`` remembers its answers for seconds."""

    def __init__(self, user: User, reviews: Reviews) -> None:
        self.user = user
        self.reviews = reviews

    async def may(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
        """Whether the user may do something; '' is all namespaces, and all names."""
        if UNREVIEWED.intersection(self.user.groups):
            return True
        attributes = {
            "verb": verb,
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "namespace": namespace,
            **({"name": name} if name else {}),
        }
        return await self.reviews.may(self.user, attributes)

    async def require(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> None:
        """Raises `RefusedCallError` unless the user may do something."""
        if not await self.may(verb, resource, namespace, name):
            what = f"{resource.plural} {name}".strip()
            where = f' in the namespace "{namespace}"' if namespace else " in the whole cluster"
            raise RefusedCallError(403, f"{self.user.name} may not {verb} {what}{where if resource.namespaced else ''}")

    async def follow(self, topic: TopicName) -> None:
        """Raises `RefusedCallError` unless the user may follow a topic."""
        match topic.kind:
            case "queues":
                await self.require("list", resources.CLUSTER_QUEUES)
            case "cohorts":
                await self.require("list", resources.COHORTS)
            case "namespace":
                await self.require("list", resources.LOCAL_QUEUES, topic.namespace)
            case _:
                await self.require("get", resources.WORKLOADS, topic.namespace, topic.name)

    async def sight(self, namespaces: Iterable[str] = (), *, nodes: bool = False) -> Sight:
        """Returns what may be named: workloads of all namespaces, or of those that were given and may be read."""
        if UNREVIEWED.intersection(self.user.groups):
            return EVERYTHING
        workloads, queues, named = await asyncio.gather(
            self.may("list", resources.WORKLOADS),
            self.may("list", resources.CLUSTER_QUEUES),
            self.may("list", resources.NODES) if nodes else _no(),
        )
        found = Sight(None if workloads else frozenset(), cluster_queues=queues, nodes=named)
        return found if workloads else replace(found, namespaces=await self._readable(namespaces))

    async def _readable(self, namespaces: Iterable[str]) -> frozenset[str]:
        wanted = list(dict.fromkeys(namespaces))[:MOST_NAMESPACES]
        may = await asyncio.gather(*(self.may("list", resources.WORKLOADS, each) for each in wanted))
        return frozenset(each for each, allowed in zip(wanted, may, strict=True) if allowed)


async def _no() -> bool:
    return False
