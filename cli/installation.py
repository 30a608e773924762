"""Reads what `seiretsu doctor` and `seiretsu bundle` look at from a live cluster; what may not be read is left out."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from api.names import LEADER_ELECTION_ID, Label
from api.objects import Raw, Resource
from app.cluster import CRDS, MUTATING, VALIDATING
from certs import pki
from cli import worker_clusters
from controller import resources
from controller.kube import config
from controller.kube.client import Client
from controller.kube.elector import LEASES
from controller.kube.errors import ApiError, Forbidden
from core.diagnosis.facts import Facts
from core.diagnosis.findings import of_our_group, of_our_kinds
from core.jobs.kinds import BATCH_JOB

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
DIAL_SECONDS = 2.0

_OBJECTS = (
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
    resources.MULTIKUEUE_CONFIGS,
    resources.MULTIKUEUE_CLUSTERS,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.LOCAL_QUEUES,
    resources.WORKLOADS,
    CRDS,
    MUTATING,
    VALIDATING,
)

_OURS: Mapping[str, Callable[[Raw], bool]] = {
    CRDS.plural: of_our_group,
    MUTATING.plural: of_our_kinds,
    VALIDATING.plural: of_our_kinds,
}
"""Which objects of a resource are of Seiretsu (or Kueue), where other products have such objects too."""


class UnreadableError(Exception):
    """The cluster cannot be read; the message has the reason."""


def connection(kubeconfig: Path | None) -> config.Connection:
    """Returns how to connect. Raises `UnreadableError`."""
    try:
        return config.load(kubeconfig)
    except (config.ConfigError, OSError, ValueError) as error:
        raise UnreadableError(f"no cluster: {error}") from None


async def read(client: Client) -> Facts:
    """Returns the facts of the cluster, without CRDs and webhook configurations of other products. Raises
    `UnreadableError` if the API server does not answer.
    """
    objects: dict[str, list[Raw]] = {}
    unseen: dict[str, str] = {}

    async def listed(resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> None:
        try:
            found = await client.list(resource, namespace, label_selector=labels, field_selector=fields)
            objects.setdefault(resource.plural, []).extend(filter(_OURS.get(resource.plural), found["items"]))
        except Forbidden as refusal:
            unseen[resource.plural] = refusal.reason
        except ApiError as error:
            if error.status != 404:
                raise UnreadableError(f"{client.connection.server}: {error}") from None

    for resource in _OBJECTS:
        await listed(resource)
    await listed(BATCH_JOB.resource, labels=Label.QUEUE_NAME)
    await listed(LEASES, fields=f"metadata.name={LEADER_ELECTION_ID}")
    called = list(_called(objects))
    services = {(one["service"]["namespace"], one["service"]["name"]) for one in called if one.get("service")}
    for namespace, name in sorted(services):
        await listed(SERVICES, namespace, fields=f"metadata.name={name}")
        await listed(ENDPOINT_SLICES, namespace, labels=f"kubernetes.io/service-name={name}")
    return Facts(
        now=datetime.now(UTC),
        objects=objects,
        unseen=unseen,
        expiry={bundle: _expiry(bundle) for bundle in {one.get("caBundle") or "" for one in called}},
        workers=await worker_clusters.read(client, objects),
        answers={url: await _answers(url) for url in sorted({one["url"] for one in called if one.get("url")})},
    )


def _called(objects: dict[str, list[Raw]]) -> Iterable[Raw]:
    """Yields how the API server calls each webhook."""
    for resource in (MUTATING, VALIDATING):
        for configuration in objects.get(resource.plural, ()):
            yield from (webhook["clientConfig"] for webhook in configuration.get("webhooks") or ())
    for definition in objects.get(CRDS.plural, ()):
        webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
        if webhook.get("clientConfig"):
            yield webhook["clientConfig"]


def _expiry(bundle: str) -> datetime | None:
    with contextlib.suppress(pki.CertificateError, binascii.Error, ValueError):
        certificates = pki.read_certificates(base64.b64decode(bundle))
        return max((each.not_after for each in certificates), default=None)
    return None


async def _answers(url: str) -> bool:
    address = urlsplit(url)
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(address.hostname, address.port or 443)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
