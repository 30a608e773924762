"""Takes back what `serve --install` installed, and what neither it nor the chart can take back itself: finalizers that
only a running controller removes, and waiting jobs.

Queues, Workloads and the CRDs stay: with a CRD all its objects would be deleted. What the chart installed is left to
`helm uninstall`. Every step can be repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from api import resources
from api.kinds import KINDS
from api.names import LEADER_ELECTION_ID, NAMESPACE, Label
from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.elector import LEASES
from controller.kube.errors import ApiError, Conflict, NotFound
from core.jobs.fields import changed
from core.jobs.job_starter import JobStarter
from core.jobs.kinds import ALL, POD, kind_of
from core.jobs.kinds.pod import without_finalizer
from core.wire.finalizers import released
from operations.objects import CRDS, MUTATING, VALIDATING
from operations.policies import installed_policies

CONFIGURATIONS = {
    MUTATING: "seiretsu-mutating-webhook-configuration",
    VALIDATING: "seiretsu-validating-webhook-configuration",
}
"""What `--install` creates; the chart's have the same names if its release is called seiretsu."""
FINALIZED = (
    resources.WORKLOADS,
    resources.CLUSTER_QUEUES,
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
)
AT_ONCE = 16
ATTEMPTS = 5
DIAL_SECONDS = 2.0

ReportProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to do besides removing the webhooks: `release` removes finalizers, `start_jobs` lets waiting jobs run.
    `namespace` has the Lease. `force` goes on while Seiretsu runs.
    """

    release: bool = False
    start_jobs: bool = False
    force: bool = False
    namespace: str = NAMESPACE


class RunningError(Exception):
    """Seiretsu runs, and would install or add again what is removed."""


async def uninstall(client: Client, wanted: Wanted, report: ReportProgress, now: datetime) -> None:
    """Does what is wanted and reports each step. Raises `RunningError` before any step, and `ApiError` when the API
    server refuses one.
    """
    configurations = [await _found(client, resource, name) for resource, name in CONFIGURATIONS.items()]
    mine = [each for each in configurations if each is not None and urls(each)]
    if not wanted.force and (why := await _running(client, mine, wanted.namespace, now)):
        raise RunningError(why)
    for (resource, name), found in zip(CONFIGURATIONS.items(), configurations, strict=True):
        if found in mine:
            await client.delete(resource, name)
            report(f"deleted the {resource.kind} {name}")
        elif found is not None:
            report(f"the {resource.kind} {name} calls a Service: helm uninstall removes it")
    async for resource, name in installed_policies(client):
        await client.delete(resource, name)
        report(f"deleted the {resource.kind} {name}")
    await _unconvert(client, report)
    if mine:
        with contextlib.suppress(NotFound):
            await client.delete(LEASES, LEADER_ELECTION_ID, wanted.namespace)
            report(f"deleted the Lease {wanted.namespace}/{LEADER_ELECTION_ID}")
    if wanted.start_jobs:
        await _start_jobs(client, report)
    if wanted.release:
        await _release(client, report)


def urls(configuration: Raw) -> list[str]:
    """Returns the URLs that a configuration has the API server call; none if it calls a Service."""
    found = (webhook["clientConfig"].get("url") for webhook in configuration.get("webhooks") or ())
    return sorted({url for url in found if url})


def stored_only(definition: Raw) -> Raw | None:
    """Returns the patch after which a CRD needs no conversion webhook at a URL: only its stored version is served. None
    if it has no such webhook.
    """
    conversion = (definition.get("spec") or {}).get("conversion") or {}
    if not ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("url"):
        return None
    versions = [{**version, "served": bool(version.get("storage"))} for version in definition["spec"]["versions"]]
    metadata = {"resourceVersion": definition["metadata"]["resourceVersion"]}
    return {"metadata": metadata, "spec": {"conversion": {"strategy": "None", "webhook": None}, "versions": versions}}


def held(lease: Raw, now: datetime) -> str:
    """Returns the holder of a Lease that has not expired; empty if nobody holds it."""
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return ""
    renewed = datetime.fromisoformat(spec["renewTime"].replace("Z", "+00:00"))
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return str(spec["holderIdentity"]) if now < renewed + lasts else ""


def started(kind: JobStarter, job: Raw) -> Raw | None:
    """Returns the patch with which a job that waits in a queue runs; None if it does not wait."""
    if not (job["metadata"].get("labels") or {}).get(Label.QUEUE_NAME) or not kind.held(job) or kind.finished(job):
        return None
    path, value = kind.release(job)
    return changed({}, path, value or None if kind is POD else value)


async def _running(client: Client, configurations: Iterable[Raw], namespace: str, now: datetime) -> str:
    for url in sorted({url for each in configurations for url in urls(each)}):
        address = urlsplit(url)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.close()
            return f"a server answers at {address.netloc}: stop seiretsu serve first, or it installs everything again"
    with contextlib.suppress(NotFound):
        if holder := held(await client.get(LEASES, LEADER_ELECTION_ID, namespace), now):
            return f"{holder} holds the Lease {namespace}/{LEADER_ELECTION_ID}: stop Seiretsu first"
    return ""


async def _unconvert(client: Client, report: ReportProgress) -> None:
    changed_ones = 0
    for kind in KINDS:
        for _ in range(ATTEMPTS):
            found = await _found(client, CRDS, kind.crd_name)
            patch = stored_only(found) if found is not None else None
            if patch is None:
                break
            with contextlib.suppress(Conflict):
                await client.patch(CRDS, kind.crd_name, "", patch)
                changed_ones += 1
                break
    if changed_ones:
        report(f"{changed_ones} CRDs serve only their stored version now; their objects stay")


async def _release(client: Client, report: ReportProgress) -> None:
    for resource in FINALIZED:
        count = await _patched(client, resource, released)
        if count:
            report(f"removed the finalizer of {count} {resource.plural}")
    count = await _patched(client, resources.PODS, _without_finalizer, label_selector=f"{Label.MANAGED}=true")
    if count:
        report(f"removed the finalizer of {count} pods")


def _without_finalizer(pod: Raw) -> Raw | None:
    patches = without_finalizer(pod)
    return patches[0].body if patches else None


async def _start_jobs(client: Client, report: ReportProgress) -> None:
    for resource in dict.fromkeys(kind.resource for kind in ALL):
        count = await _patched(client, resource, _started, label_selector=Label.QUEUE_NAME)
        if count:
            report(f"started {count} {resource.plural}")


def _started(job: Raw) -> Raw | None:
    kind = kind_of(job)
    return started(kind, job) if kind is not None else None


async def _patched(
    client: Client, resource: Resource, patch_of: Callable[[Raw], Raw | None], *, label_selector: str = ""
) -> int:
    """Patches all objects of a kind for which there is a patch; returns their number. A kind that is not served has
    none.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def write(raw: Raw) -> int:
        name, namespace = raw["metadata"]["name"], raw["metadata"].get("namespace", "")
        async with places:
            for _ in range(ATTEMPTS):
                patch = patch_of(raw)
                if patch is None:
                    return 0
                try:
                    await client.patch(resource, name, namespace, patch)
                    return 1
                except NotFound:
                    return 0
                except Conflict:
                    found = await _found(client, resource, name, namespace)
                    if found is None:
                        return 0
                    raw = found
            raise Conflict(409, "Conflict", f"{resource.plural} {name} changes again and again: try again")

    total = 0
    async for page in _pages(client, resource, label_selector):
        total += sum(await asyncio.gather(*map(write, page)))
    return total


async def _pages(client: Client, resource: Resource, label_selector: str) -> AsyncIterator[list[Raw]]:
    try:
        async for page in client.pages(resource, label_selector=label_selector):
            yield page["items"]
    except ApiError as error:
        if error.status != 404:
            raise


async def _found(client: Client, resource: Resource, name: str, namespace: str = "") -> Raw | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None
