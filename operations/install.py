"""`--install`: what the chart does in a cluster, done by the process from outside: CRDs, and later the webhook
configurations.

It uses server-side apply, so that it can be repeated at every start and keeps the fields of others.
"""

from __future__ import annotations

import asyncio

import structlog

from api import crds
from api.names import API_VERSION, Finalizer, Kind
from api.objects import Raw
from api.resources import RESOURCE_FLAVORS
from controller.kube.client import Client
from controller.kube.errors import ApiError
from operations.objects import CRDS, apply

log = structlog.get_logger("seiretsu.install")

ATTEMPTS = 300
ATTEMPT_SECONDS = 0.1


class NotEstablishedError(Exception):
    """The API server does not serve some of Seiretsu's kinds."""


async def install_definitions(client: Client, conversion: Raw | None) -> None:
    """Applies the CRDs and waits until the API server serves them all. Raises `NotEstablishedError` with its reasons.

    `conversion` is the `clientConfig` with which the API server calls the conversion webhook; without it only the
    stored versions are served.
    """
    wanted = crds.definitions(conversion)
    found = {one["metadata"]["name"]: one for one in (await client.list(CRDS))["items"]}
    await asyncio.gather(*(_install(client, found.get(one["metadata"]["name"], {}), one) for one in wanted))
    names = [one["metadata"]["name"] for one in wanted]
    for _ in range(ATTEMPTS):
        missing = await _not_established(client, names)
        if not missing:
            log.info("Installed the CRDs", count=len(wanted))
            return
        await asyncio.sleep(ATTEMPT_SECONDS)
    reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(missing.items()))
    raise NotEstablishedError(f"CRDs not established after {ATTEMPTS * ATTEMPT_SECONDS:g} s: {reasons}")


async def _install(client: Client, found: Raw, wanted: Raw) -> None:
    if patch := moved(found, wanted):
        await client.patch(CRDS, wanted["metadata"]["name"], "", patch)
    await apply(client, wanted)


def moved(found: Raw, wanted: Raw) -> Raw | None:
    """Returns the patch that replaces the conversion webhook of Kueue, or of the chart; None if it is not needed.

    Server-side apply keeps fields that others have set, and a webhook with both a Service and a URL is refused. It is
    one patch, so that there is no moment without a conversion: the API server would then only rename versions.
    """
    webhook = wanted["spec"].get("conversion", {}).get("webhook")
    there = ((found.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    stale = {"service", "url"} & set(there.get("clientConfig") or ()) - set((webhook or {}).get("clientConfig") or ())
    if webhook is None or not stale:
        return None
    config = {**dict.fromkeys(sorted(stale)), **webhook["clientConfig"]}
    return {"spec": {"conversion": {"webhook": {**webhook, "clientConfig": config}}}}


async def await_admission(client: Client) -> None:
    """Waits until the API server calls the webhooks: it uses new webhook configurations a moment after it stored them,
    and a Job created in that moment would not be suspended. Tested with a dry-run create that the webhook always
    changes.
    """
    probe: Raw = {
        "apiVersion": API_VERSION,
        "kind": Kind.RESOURCE_FLAVOR,
        "metadata": {"generateName": "seiretsu-probe-"},
    }
    reason = "our webhook did not change the object"
    for _ in range(ATTEMPTS):
        try:
            answer = await client.create(RESOURCE_FLAVORS, probe, dry_run=True)
            if Finalizer.RESOURCE_IN_USE in (answer["metadata"].get("finalizers") or ()):
                return
        except ApiError as error:
            reason = str(error)
        await asyncio.sleep(ATTEMPT_SECONDS)
    raise NotEstablishedError(f"the API server does not call us after {ATTEMPTS * ATTEMPT_SECONDS:g} s: {reason}")


async def _not_established(client: Client, names: list[str]) -> dict[str, str]:
    found = {one["metadata"]["name"]: one for one in (await client.list(CRDS))["items"]}
    reasons = {name: _why_not(found.get(name, {})) for name in names}
    return {name: reason for name, reason in reasons.items() if reason}


def _why_not(definition: Raw) -> str:
    conditions = {one["type"]: one for one in definition.get("status", {}).get("conditions") or ()}
    if conditions.get("Established", {}).get("status") == "True":
        return ""
    failed = [one["message"] for one in conditions.values() if one["status"] == "False" and one.get("message")]
    return ", ".join(failed) or "no answer yet"
