"""Reads what `seiretsu doctor` and `seiretsu bundle` look at from a live cluster; what may not be read is left out."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from api import resources, visibility
from api.names import LEADER_ELECTION_ID, Label
from api.objects import Raw, Resource
from certs import pki
from cli import worker_clusters
from cli.target import UnreadableError, sentence
from controller.kube.client import Client
from controller.kube.elector import LEASES
from controller.kube.errors import ApiError, Forbidden
from core.diagnosis.facts import Facts
from core.diagnosis.findings import called_at, of_our_group, of_our_kinds
from core.jobs.kinds import BATCH_JOB
from operations.objects import API_SERVICES, CRDS, MUTATING, VALIDATING

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
DIAL_SECONDS = 2.0
PROBE = "seiretsu-doctor"
"""The name of an object that the API server validates and does not store."""

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
                raise UnreadableError(sentence(error, client.connection.server)) from None

    for resource in _OBJECTS:
        await listed(resource)
    flavors = objects.get(resources.RESOURCE_FLAVORS.plural, ())
    if any((raw.get("spec") or {}).get("topologyName") for raw in flavors):
        await listed(resources.TOPOLOGIES)
        await listed(resources.NODES)
    for name in visibility.API_SERVICES:
        await listed(API_SERVICES, fields=f"metadata.name={name}")
    await listed(BATCH_JOB.resource, labels=Label.QUEUE_NAME)
    await listed(LEASES, fields=f"metadata.name={LEADER_ELECTION_ID}")
    called = list(_called(objects))
    services = {(one["service"]["namespace"], one["service"]["name"]) for one in called if one.get("service")}
    for namespace, name in sorted(services):
        await listed(SERVICES, namespace, fields=f"metadata.name={name}")
        await listed(ENDPOINT_SLICES, namespace, labels=f"kubernetes.io/service-name={name}")
    targets = {(called_at(one), one.get("caBundle") or ""): one for one in called}
    reached = {each: await handshake(one, objects) for each, one in targets.items()}
    return Facts(
        now=datetime.now(UTC),
        objects=objects,
        unseen=unseen,
        expiry={bundle: _expiry(bundle) for bundle in {one.get("caBundle") or "" for one in called}},
        workers=await worker_clusters.read(client, objects),
        answers={one["url"]: reached[each] is not None for each, one in targets.items() if one.get("url")},
        untrusted={each: why for each, why in reached.items() if why},
        failed_call=await _failed_call(client),
    )


async def _failed_call(client: Client) -> str:
    """What the API server reports if it cannot call the webhook of ResourceFlavors; nothing is stored."""
    kind = resources.RESOURCE_FLAVORS
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": PROBE}, "spec": {}}
    try:
        await client.create(kind, body, dry_run=True)
    except ApiError as error:
        return error.message if "failed calling webhook" in error.message else ""
    return ""


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


async def handshake(config: Raw, objects: Mapping[str, Sequence[Raw]]) -> str | None:
    """Returns why a webhook's ``caBundle`` does not verify the program that answers, '' if it does or cannot be known,
    None if nothing answers at its URL. The pods of a Service can be reached from inside of the cluster only.
    """
    if config.get("url"):
        address = urlsplit(config["url"])
        host, port, name = address.hostname or "", address.port or 443, address.hostname or ""
    else:
        service = config.get("service") or {}
        name = f"{service.get('name')}.{service.get('namespace')}.svc"
        host, port = _endpoint(service, objects.get(ENDPOINT_SLICES.plural, ()))
    if not host:
        return ""
    try:
        tls = ssl.create_default_context(cadata=base64.b64decode(config.get("caBundle") or "").decode())
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    except (ssl.SSLError, ValueError):
        tls = None  # that the bundle cannot be read is another rule's finding
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name if tls else None)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return f"no TLS: {error.reason}"
    except (OSError, TimeoutError):
        return None
    writer.close()
    return ""


def _endpoint(service: Raw, slices: Sequence[Raw]) -> tuple[str, int]:
    """An address behind a Service, or ('', 0)."""
    for each in slices:
        labels, metadata = each["metadata"].get("labels") or {}, each["metadata"]
        if (metadata.get("namespace"), labels.get("kubernetes.io/service-name")) == (
            service.get("namespace"),
            service.get("name"),
        ):
            port = next((one.get("port") for one in each.get("ports") or () if one.get("port")), None)
            for endpoint in each.get("endpoints") or ():
                if port and (endpoint.get("conditions") or {}).get("ready") is not False:
                    return str((endpoint.get("addresses") or [""])[0]), int(port)
    return "", 0
