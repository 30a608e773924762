"""Reads what `seiretsu migrate` must know of a cluster: Kueue, Seiretsu, their kinds and objects, and what an earlier
migration has stored.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from collections.abc import Sequence

from api.kinds import KINDS
from api.names import GROUP
from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.errors import NotFound
from core.diagnosis import migration
from core.diagnosis.findings import of_our_group, of_our_kinds
from core.diagnosis.migration import Found, Installation
from operations.objects import CRDS, MUTATING, SECRETS, VALIDATING

SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)

RECORD = "seiretsu-migration"
RECORD_LABEL = "app.kubernetes.io/component"
RECORDED = "kueue.json.gz"
"""The key of the record in the ConfigMap: compressed, because it has Kueue's CRDs."""
HELM = "helm"
"""The label `owner` of the Secrets of Helm, and the name under which it writes."""


async def read(client: Client) -> Found:
    """Returns what there is of Kueue and Seiretsu. Raises `ApiError`."""
    listed = [
        {**raw, "kind": resource.kind, "apiVersion": resource.api_version}
        for resource in (MUTATING, VALIDATING)
        for raw in (await client.list(resource))["items"]
        if of_our_kinds(raw)
    ]
    record = await _read_record(client)
    kueues = [each for each in listed if not migration.is_seiretsus(each)]
    place = next((at for at in map(migration.called, kueues) if at), None)
    if place is None and record is not None:
        place = record["namespace"], record["service"]
    ours = [each for each in listed if migration.is_seiretsus(each)]
    our_place = next((at for at in map(migration.called, ours) if at), None)
    kueue = await _installation(client, place, kueues) if place else None
    definitions = [
        {**raw, "kind": CRDS.kind, "apiVersion": CRDS.api_version}
        for raw in (await client.list(CRDS))["items"]
        if of_our_group(raw)
    ]
    served = {each["metadata"]["name"] for each in definitions}
    objects = {
        kind.plural: [raw async for page in client.pages(_resource(kind.plural)) for raw in page["items"]]
        for kind in migration.LISTED
        if kind.crd_name in served
    }
    return Found(
        kueue=kueue,
        seiretsu=await _installation(client, our_place, ours) if our_place else None,
        record=record,
        definitions=definitions,
        objects=objects,
        api_services=[
            {**raw, "kind": API_SERVICES.kind, "apiVersion": API_SERVICES.api_version}
            for raw in (await client.list(API_SERVICES))["items"]
            if kueue is not None and migration.serves_for(kueue, raw)
        ],
        releases=await releases(client, kueue.deployment, HELM) if kueue else (),
    )


def _resource(plural: str) -> Resource:
    kind = next(each for each in KINDS if each.plural == plural)
    return Resource(GROUP, kind.stored.name, plural, kind.kind, namespaced=kind.namespaced)


async def _installation(client: Client, place: tuple[str, str], configurations: Sequence[Raw]) -> Installation:
    namespace, name = place
    deployment, text = None, ""
    with contextlib.suppress(NotFound):
        service = await client.get(SERVICES, name, namespace)
        behind = (each for each in (await client.list(DEPLOYMENTS, namespace))["items"])
        deployment = next((each for each in behind if migration.selects(service, each)), None)
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or () if deployment else ()
    for volume in volumes:
        if volume.get("configMap"):
            with contextlib.suppress(NotFound):
                mounted = await client.get(CONFIG_MAPS, volume["configMap"]["name"], namespace)
                text = next((each for each in (mounted.get("data") or {}).values() if "Configuration" in each), text)
    return Installation(
        namespace=namespace,
        service=name,
        configurations=configurations,
        deployment={**deployment, "kind": DEPLOYMENTS.kind} if deployment else None,
        text=text,
        ready=await ready(client, place),
    )


async def ready(client: Client, place: tuple[str, str]) -> int:
    """Returns the number of addresses behind a Service (namespace and name) that take calls."""
    namespace, name = place
    slices = await client.list(ENDPOINT_SLICES, namespace, label_selector=f"kubernetes.io/service-name={name}")
    endpoints = (each for found in slices["items"] for each in found.get("endpoints") or ())
    return sum(1 for each in endpoints if (each.get("conditions") or {}).get("ready") is not False)


async def releases(client: Client, deployment: Raw | None, owner: str) -> list[Raw]:
    """Returns the Secrets in which Helm stores the release that installed a Deployment; none if Helm did not."""
    annotations = ((deployment or {}).get("metadata") or {}).get("annotations") or {}
    name, namespace = (annotations.get(key) for key in migration.HELM_OWNER)
    if not name or not namespace:
        return []
    found: list[Raw] = (await client.list(SECRETS, namespace, label_selector=f"owner={owner},name={name}"))["items"]
    return found


async def _read_record(client: Client) -> Raw | None:
    found = (await client.list(CONFIG_MAPS, label_selector=f"{RECORD_LABEL}={RECORD}"))["items"]
    if not found:
        return None
    record: Raw = json.loads(gzip.decompress(base64.b64decode(found[0]["binaryData"][RECORDED])))
    return record
