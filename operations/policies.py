"""`--install` applies the admission policies of pods and owners, where the API server serves such policies.

Those of jobs are left out: they are for webhooks that the API server may skip, and `--install` makes none of these. A
label marks the policies: a later start removes those that it does not want, `seiretsu uninstall` all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import structlog

from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.errors import Forbidden
from operations.objects import POLICIES, apply

log = structlog.get_logger("seiretsu.install")

LABELS: Final = {"app.kubernetes.io/name": "seiretsu", "app.kubernetes.io/managed-by": "seiretsu-install"}
_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in LABELS.items())


async def install_policies(client: Client, wanted: Sequence[Raw]) -> bool:
    """Applies these policies if the API server serves such, and deletes those of earlier starts that are not among
    them. Returns whether they are enforced; otherwise webhooks do the same.
    """
    enforced = bool(wanted) and {each["kind"] for each in wanted} <= await _served(client)
    kept = wanted if enforced else []
    try:
        async for resource, name in installed_policies(client):
            if (resource.kind, name) not in {(each["kind"], each["metadata"]["name"]) for each in kept}:
                await client.delete(resource, name)
        await asyncio.gather(*(apply(client, each) for each in kept))
    except Forbidden as refusal:
        log.warning("Admission policies may not be written, webhooks do the same", error=str(refusal))
        return False
    log.info("Installed the admission policies", count=len(kept))
    return enforced


async def installed_policies(client: Client) -> AsyncIterator[tuple[Resource, str]]:
    """Yields what `install_policies` has applied."""
    served = await _served(client)
    for resource in POLICIES:
        if resource.kind in served:
            for each in (await client.list(resource, label_selector=_SELECTOR))["items"]:
                yield resource, each["metadata"]["name"]


async def _served(client: Client) -> frozenset[str]:
    found = await client.raw(f"/apis/{POLICIES[0].group}/{POLICIES[0].version}")
    return frozenset(each["kind"] for each in found["resources"]) & {each.kind for each in POLICIES}
