"""The worker clusters of MultiKueue, by the kubeconfigs of the manager: how to connect to them, and what ``seiretsu
doctor`` looks at there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence

from api import resources
from api.names import NAMESPACE
from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.discovery import serves
from controller.kube.errors import ApiError, Forbidden
from controller.multikueue.clusters import SECRET_KEY, UnusableError, connection
from core.diagnosis.facts import WorkerFacts
from core.jobs.kinds import BATCH_JOB, KINDS
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.multikueue.kubeconfig import source
from operations.objects import SECRETS

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
READ = (resources.NAMESPACES, resources.LOCAL_QUEUES, resources.CLUSTER_QUEUES, resources.COHORTS)
READ_TOO = (resources.RESOURCE_FLAVORS, resources.ADMISSION_CHECKS)
SECONDS = 10.0


async def read(client: Client, objects: Mapping[str, Sequence[Raw]]) -> list[WorkerFacts]:
    """Returns the facts of each worker whose kubeconfig is in a Secret that may be read."""
    namespace = release_namespace(objects.get("leases", ()), NAMESPACE)
    kinds = [BATCH_JOB.resource]
    clusters = objects.get(resources.MULTIKUEUE_CLUSTERS.plural, ())
    if clusters:
        others = (kind.resource for kind in KINDS.values() if kind.optional and kind.managed_by is not None)
        kinds += [resource for resource in dict.fromkeys(others) if await serves(client, resource)]
    found = await connections(client, clusters, namespace)
    return [await _worker(name, made, kinds) for name, made in found.items()]


def release_namespace(leases: Iterable[Raw], default: str) -> str:
    """Returns the namespace of the release, which is that of the leader's Lease; a default where there is none."""
    return next((str(raw["metadata"]["namespace"]) for raw in leases), default)


async def connections(client: Client, clusters: Iterable[Raw], namespace: str) -> dict[str, Connection | str]:
    """Returns how to connect to each worker whose kubeconfig is in a Secret that may be read, or why it cannot be used;
    by the name of its MultiKueueCluster.
    """
    found: dict[str, Connection | str] = {}
    for raw in clusters:
        place = source(raw).get("kubeConfig") or {}
        if place.get("locationType", "Secret") == "Secret" and place.get("location"):
            name = raw["metadata"]["name"]
            made = await _connection(client, name, place["location"], namespace)
            if made is not None:
                found[name] = made
    return found


async def _connection(client: Client, name: str, secret: str, namespace: str) -> Connection | str | None:
    """None if the Secret may not be read."""
    try:
        data = (await client.get(SECRETS, secret, namespace)).get("data") or {}
        return connection(name, base64.b64decode(data[SECRET_KEY]).decode())
    except Forbidden:
        return None
    except ApiError as error:
        return f"Secret {namespace}/{secret}: {error.message}"
    except (KeyError, binascii.Error, UnicodeDecodeError):
        return f"Secret {namespace}/{secret} has no readable key {SECRET_KEY}"
    except UnusableError as error:
        return f"its kubeconfig may not be used: {error}"


async def _worker(name: str, made: Connection | str, kinds: Sequence[Resource]) -> WorkerFacts:
    if isinstance(made, str):
        return WorkerFacts(name=name, trouble=made)
    async with Client(made, deadline_seconds=SECONDS) as there:
        try:
            return await seen(there, name, kinds)
        except ApiError as error:
            return WorkerFacts(name=name, trouble=f"{made.server} cannot be reached: {error}")


async def seen(client: Client, name: str, kinds: Sequence[Resource]) -> WorkerFacts:
    """The facts of a worker that can be reached. Raises ``ApiError`` if it does not answer."""
    served = [each for each in (resources.WORKLOADS, *kinds) if await serves(client, each)]
    not_served = [_named(each) for each in (resources.WORKLOADS, *kinds) if each not in served]
    objects: dict[str, list[Raw]] = {}
    unseen = []
    for resource in (*READ, *READ_TOO):
        try:
            objects[resource.plural] = (await client.list(resource))["items"]
        except Forbidden:
            unseen.append(resource.plural)
        except ApiError as error:
            if error.status != 404:
                raise
            objects[resource.plural] = []
    denied = [text for each in served for text in await _denied(client, each)]
    return WorkerFacts(name=name, not_served=not_served, denied=denied, unseen=unseen, objects=objects)


def rights(resource: Resource) -> list[tuple[str, str]]:
    """The subresources and verbs that MultiKueue uses of a resource of which it writes objects."""
    found = [("", verb) for verb in ("list", "watch", "create", "delete")]
    kinds = (*KINDS.values(), *MIRRORED_OWNERS)
    if any(kind.forwarded or kind.resizable for kind in kinds if kind.resource == resource):
        found += [("", "patch")]
    if resource == resources.WORKLOADS:
        found += [("", "patch"), ("status", "update"), ("status", "patch")]
    return found


async def _denied(client: Client, resource: Resource) -> list[str]:
    """What the kubeconfig may not do with a resource of which MultiKueue writes objects."""
    found = []
    for subresource, verb in rights(resource):
        asked = {"group": resource.group, "resource": resource.plural, "subresource": subresource, "verb": verb}
        review = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": {"resourceAttributes": asked}}
        if not (await client.create(REVIEWS, review))["status"].get("allowed"):
            full = f"{resource.plural}{f'/{subresource}' if subresource else ''}"
            found.append(f"{verb} {full}{f'.{resource.group}' if resource.group else ''}")
    return found


def _named(resource: Resource) -> str:
    return f"{resource.plural}.{resource.version}.{resource.group}"
