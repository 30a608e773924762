"""Takes a cluster over from Kueue while both run, and hands it back.

Kueue and Seiretsu elect their leader by the same Lease, so Seiretsu's replicas wait while Kueue leads, and lead as soon
as Kueue has stopped. At every moment a webhook that answers suspends new jobs with a queue name:

    take-over   Seiretsu's webhooks may refuse, and answer; those of Kueue are removed; Kueue stops; Seiretsu leads
    hand-back   Kueue starts as a follower; its webhooks may refuse, and answer; `helm uninstall` stops Seiretsu

Workloads and jobs are not written. What Kueue needs to get everything back is stored in a ConfigMap before the first
change. Each step looks at what it changes, so that a migration that was interrupted is completed by a second run.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from api import crds, resources
from api.kinds import KINDS
from api.names import GROUP
from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.elector import LEASES
from controller.kube.errors import ApiError, Conflict, NotFound
from core.diagnosis import migration
from core.diagnosis.migration import Found, Installation
from core.wire.guard import guarded
from operations.install import await_admission
from operations.installations import (
    API_SERVICES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    HELM,
    RECORD,
    RECORD_LABEL,
    RECORDED,
    read,
    ready,
    releases,
)
from operations.objects import CONVERTED, CRDS, RESOURCES, SECRETS
from operations.uninstall import held
from webhook.hooks import HOOKS

HIDDEN_OWNER = "seiretsu-migrate"
"""The label `owner` of Secrets of a Helm release that Helm shall not see."""
APPLIED_SECONDS = 3.0
"""API servers use changed webhook configurations a moment after they are stored."""
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.5
ATTEMPTS = 5

ReportProgress = Callable[[str], None]


class MigrationError(Exception):
    """A migration cannot go on; the message has the reason and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterToMigrate:
    """How the steps reach the cluster: `client` writes in Seiretsu's name, `helm` in that of helm. With `dry_run`
    nothing is written, and steps are only reported.
    """

    client: Client
    helm: Client
    report: ReportProgress
    dry_run: bool = False

    async def do(self, step: str, write: Callable[[], Awaitable[object]]) -> None:
        """Reports a step and does it."""
        self.report(f"would {step}" if self.dry_run else step)
        if not self.dry_run:
            await write()

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        """Waits for a condition of the cluster. Raises `MigrationError` after `PATIENCE_SECONDS`."""
        if self.dry_run:
            return
        end = time.monotonic() + PATIENCE_SECONDS
        while not await holds():
            if time.monotonic() > end:
                raise MigrationError(
                    f"{what}: not within {PATIENCE_SECONDS:g} s. Nothing is lost: run the command again"
                )
            await asyncio.sleep(POLL_SECONDS)


async def take_over(cluster: ClusterToMigrate, *, force: bool = False) -> None:
    """Lets Seiretsu, which is installed beside Kueue, do its work. Raises `MigrationError` before the first change if
    something prevents it.
    """
    client = cluster.client
    found = await read(client)
    kueue, seiretsu = found.kueue, found.seiretsu
    if kueue is None:
        raise MigrationError("there is no Kueue in this cluster: nothing is to be taken over")
    if kueue.deployment is None:  # also with force: without it nothing is stored, and nothing could be handed back
        place = f"{kueue.namespace}/{kueue.service}"
        raise MigrationError(f"no Deployment of Kueue is behind Service {place}: nothing could be handed back later")
    if seiretsu is None or seiretsu.deployment is None:
        raise MigrationError("Seiretsu's chart is not installed yet: see docs/migrate.md for the values to begin with")
    if not seiretsu.ready and not cluster.dry_run:
        place = f"{seiretsu.namespace}/{seiretsu.deployment['metadata']['name']}"
        raise MigrationError(f"no replica of Seiretsu is ready: read the log of Deployment {place}")
    errors = [finding for _, finding in migration.problems(found) if finding.severity == "error"]
    if errors and not force:
        first = f"{errors[0].subject}: {errors[0].message}"
        raise MigrationError(f"{len(errors)} errors prevent it, see seiretsu migrate check; the first is: {first}")
    await _store(cluster, found)
    await _may_refuse(cluster, seiretsu.configurations, _policies(seiretsu, "Fail"), "Seiretsu")
    await _applied(cluster)  # until then the webhooks of Kueue could answer alone, which add the same finalizer
    if not cluster.dry_run:
        await await_admission(client)
    await _remove_webhooks(cluster, found)
    for definition in found.definitions:
        await _convert_here(cluster, seiretsu, definition)
    await _stop(cluster, kueue)
    await cluster.until("Seiretsu leads", lambda: _led_by_other(client, kueue, found.record))
    await _adopt(cluster, seiretsu)
    await _relabel(cluster, found.releases, HIDDEN_OWNER, "helm uninstall and upgrade no longer find the release")


async def hand_back(cluster: ClusterToMigrate) -> None:
    """Gives everything back to Kueue, which follows until Seiretsu is uninstalled. Raises `MigrationError`."""
    client = cluster.client
    found = await read(client)
    record = found.record
    if record is None:
        raise MigrationError("nothing was taken over from Kueue in this cluster: there is nothing to hand back")
    if found.kueue is None or found.kueue.deployment is None:
        place = f"{record['namespace']}/{record['deployment']}"
        raise MigrationError(f"the Deployment {place} of Kueue does not exist any more: install Kueue again instead")
    await _check_api_services(client, record)
    for raw in record["configurations"]:
        await _start_ignored(cluster, raw)
    await _start(cluster, found.kueue, record["replicas"])
    for raw in record["definitions"]:
        await _give_back(cluster, raw)
    await _remove_own(cluster, found, {raw["metadata"]["name"] for raw in record["definitions"]})
    policies = {each["name"]: each["failurePolicy"] for raw in record["configurations"] for each in raw["webhooks"]}
    live = [raw for raw in await _configurations(client, record) if raw]
    await _may_refuse(cluster, live, policies, "Kueue")
    for raw in record["apiServices"]:
        await _create(cluster, API_SERVICES, raw)
    if found.seiretsu is not None:
        ours = found.seiretsu.configurations
        await _may_refuse(cluster, ours, _policies(found.seiretsu, "Ignore"), "Seiretsu")
    hidden = await releases(client, found.kueue.deployment, HIDDEN_OWNER)
    await _relabel(cluster, hidden, HELM, "helm finds the release again")
    with contextlib.suppress(NotFound):
        await cluster.do(
            f"delete ConfigMap {record['namespace']}/{RECORD}",
            lambda: client.delete(CONFIG_MAPS, RECORD, record["namespace"]),
        )


def _policies(seiretsu: Installation, policy: str) -> dict[str, str]:
    """Returns the failure policy of every webhook of Seiretsu that may refuse."""
    may_refuse = {hook.name for hook in HOOKS if hook.failure_policy == "Fail"}
    names = {each["name"] for raw in seiretsu.configurations for each in raw["webhooks"]}
    return dict.fromkeys(sorted(names & may_refuse), policy)


async def _store(cluster: ClusterToMigrate, found: Found) -> None:
    record = migration.record(found)
    if record is None:
        return
    packed = base64.b64encode(gzip.compress(json.dumps(record).encode(), mtime=0)).decode()
    metadata = {"name": RECORD, "namespace": record["namespace"], "labels": {RECORD_LABEL: RECORD}}
    body: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {RECORDED: packed}}
    if found.record == record:
        return
    await cluster.do(
        f"store in ConfigMap {record['namespace']}/{RECORD} what Kueue needs to get back",
        lambda: cluster.client.patch(CONFIG_MAPS, RECORD, record["namespace"], body, type="apply", force=True),
    )


async def _may_refuse(
    cluster: ClusterToMigrate, configurations: Sequence[Raw], policies: dict[str, str], whose: str
) -> None:
    for raw in configurations:
        webhooks = migration.with_policy(raw, policies)
        if webhooks is None:
            continue
        resource, name = RESOURCES[raw["kind"]], raw["metadata"]["name"]
        wanted = "/".join(sorted({policies[each["name"]] for each in webhooks if each["name"] in policies}))

        async def write(resource: Resource = resource, name: str = name) -> None:
            for _ in range(ATTEMPTS):  # its caBundle may change meanwhile
                live = await cluster.client.get(resource, name)
                changed = migration.with_policy(live, policies)
                if changed is None:
                    return
                with contextlib.suppress(Conflict):
                    await cluster.client.patch(resource, name, "", guarded({"webhooks": changed}, live))
                    return
            raise MigrationError(f"{resource.kind} {name} changes again and again: run the command again")

        await cluster.do(f"set failurePolicy {wanted} in {resource.kind} {name} of {whose}", write)


async def _remove_webhooks(cluster: ClusterToMigrate, found: Found) -> None:
    kueue = found.kueue
    assert kueue is not None
    removed: list[tuple[Resource, Raw]] = [(RESOURCES[raw["kind"]], raw) for raw in kueue.configurations]
    removed += [(API_SERVICES, raw) for raw in found.api_services]
    for resource, raw in removed:
        with contextlib.suppress(NotFound):
            name = raw["metadata"]["name"]
            await cluster.do(f"delete {resource.kind} {name}", partial(cluster.client.delete, resource, name))
    if removed:
        await _applied(cluster)


async def _applied(cluster: ClusterToMigrate) -> None:
    """Waits until the API servers use the webhook configurations that were changed."""
    if not cluster.dry_run:
        await asyncio.sleep(APPLIED_SECONDS)


def _conversion(seiretsu: Installation) -> Raw:
    """Returns the `clientConfig` with which the API server calls the conversion webhook of Seiretsu, with its CA."""
    config: Raw = seiretsu.configurations[0]["webhooks"][0]["clientConfig"]
    return {**config, "service": {**config["service"], "path": crds.CONVERSION_PATH}}


async def _convert_here(cluster: ClusterToMigrate, seiretsu: Installation, definition: Raw) -> None:
    """Replaces the address of a conversion webhook in one write. Annotations by which cert-manager would replace the CA
    are removed.
    """
    name, annotations = definition["metadata"]["name"], definition["metadata"].get("annotations") or {}
    if name not in CONVERTED or migration.converts_at(definition, seiretsu):
        return
    stale = dict.fromkeys(key for key in annotations if key.startswith(migration.INJECTORS))
    webhook = {"clientConfig": _conversion(seiretsu), "conversionReviewVersions": ["v1"]}
    patch: Raw = {
        "metadata": {"annotations": stale},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}},
    }
    await cluster.do(f"let Seiretsu convert CRD {name}", lambda: cluster.client.patch(CRDS, name, "", patch))


async def _stop(cluster: ClusterToMigrate, kueue: Installation) -> None:
    assert kueue.deployment is not None
    name, labels = kueue.deployment["metadata"]["name"], kueue.deployment["spec"]["selector"]["matchLabels"]
    if kueue.replicas:
        await cluster.do(f"scale Deployment {kueue.namespace}/{name} to 0", lambda: _scale(cluster, kueue, 0))
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

    async def gone() -> bool:
        pods = (await cluster.client.list(resources.PODS, kueue.namespace, label_selector=selector))["items"]
        return not any(_of(pod, name) for pod in pods)

    await cluster.until("the pods of Kueue end", gone)


def _of(pod: Raw, deployment: str) -> bool:
    """Whether a pod is of a Deployment: other Deployments in the namespace may have the same labels."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each["kind"] == "ReplicaSet" and each["name"].rpartition("-")[0] == deployment for each in owners)


async def _scale(cluster: ClusterToMigrate, kueue: Installation, replicas: int) -> None:
    assert kueue.deployment is not None
    patch = {"spec": {"replicas": replicas}}
    await cluster.client.patch(DEPLOYMENTS, kueue.deployment["metadata"]["name"], kueue.namespace, patch)


async def _led_by_other(client: Client, kueue: Installation, record: Raw | None) -> bool:
    """Whether a process that renews it holds the Lease: Kueue has stopped, so it is Seiretsu."""
    place = kueue.lease()
    if place is None:
        return True
    with contextlib.suppress(NotFound):
        lease = await client.get(LEASES, place.name, place.namespace)
        deployment = kueue.deployment["metadata"]["name"] if kueue.deployment else (record or {}).get("deployment", "")
        holder = held(lease, datetime.now(UTC))
        return bool(holder) and not holder.startswith(f"{deployment}-")
    return False


async def _adopt(cluster: ClusterToMigrate, seiretsu: Installation) -> None:
    """Applies Seiretsu's CRDs in the name of helm, which then changes them as part of the release."""
    assert seiretsu.deployment is not None
    config = {key: value for key, value in _conversion(seiretsu).items() if key != "caBundle"}
    for wanted in crds.definitions(config):
        live: Raw = {}
        with contextlib.suppress(NotFound):
            live = await cluster.client.get(CRDS, wanted["metadata"]["name"])
        metadata = migration.adopted(wanted, seiretsu.deployment)
        if live and _holds(live, metadata, wanted["spec"]):
            continue
        crd = wanted["metadata"]["name"]
        await cluster.do(
            f"apply CRD {crd} as part of the Helm release of Seiretsu",
            partial(cluster.helm.patch, CRDS, crd, "", {**wanted, "metadata": metadata}, type="apply", force=True),
        )


def _holds(live: Raw, metadata: Raw, spec: Raw) -> bool:
    marks = all(
        (live["metadata"].get(part) or {}).get(key) == value
        for part in ("labels", "annotations")
        for key, value in metadata[part].items()
    )
    return marks and bool(live["spec"]["versions"] == spec["versions"])


async def _relabel(cluster: ClusterToMigrate, secrets: Sequence[Raw], owner: str, effect: str) -> None:
    for raw in secrets:
        name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
        patch = {"metadata": {"labels": {"owner": owner}}}
        await cluster.do(
            f"relabel Secret {namespace}/{name}: {effect}",
            partial(cluster.client.patch, SECRETS, name, namespace, patch),
        )


async def _start_ignored(cluster: ClusterToMigrate, raw: Raw) -> None:
    """Creates a webhook configuration that refuses nothing while nobody answers."""
    webhooks = [{**each, "failurePolicy": "Ignore"} for each in raw["webhooks"]]
    await _create(cluster, RESOURCES[raw["kind"]], {**raw, "webhooks": webhooks})


async def _check_api_services(client: Client, record: Raw) -> None:
    """Raises `MigrationError` if Seiretsu serves an API that Kueue served."""
    for raw in record["apiServices"]:
        name, wanted = raw["metadata"]["name"], raw["spec"].get("service") or {}
        with contextlib.suppress(NotFound):
            there = (await client.get(API_SERVICES, name))["spec"].get("service") or {}
            if (there.get("namespace"), there.get("name")) != (wanted.get("namespace"), wanted.get("name")):
                place = f"{there.get('namespace')}/{there.get('name')}"
                raise MigrationError(
                    f"APIService {name} calls Service {place}, not Kueue's: first helm upgrade Seiretsu with"
                    " visibility.enabled=false"
                )


async def _create(cluster: ClusterToMigrate, resource: Resource, raw: Raw) -> None:
    try:
        await cluster.client.get(resource, raw["metadata"]["name"])
    except NotFound:
        await cluster.do(
            f"create {resource.kind} {raw['metadata']['name']}", lambda: cluster.client.create(resource, raw)
        )


async def _start(cluster: ClusterToMigrate, kueue: Installation, replicas: int) -> None:
    assert kueue.deployment is not None
    if not kueue.replicas:
        place = f"{kueue.namespace}/{kueue.deployment['metadata']['name']}"
        await cluster.do(f"scale Deployment {place} to {replicas}", lambda: _scale(cluster, kueue, replicas))

    async def answers() -> bool:
        return await ready(cluster.client, (kueue.namespace, kueue.service)) > 0

    await cluster.until("a replica of Kueue is ready", answers)


async def _give_back(cluster: ClusterToMigrate, recorded: Raw) -> None:
    name = recorded["metadata"]["name"]
    for _ in range(ATTEMPTS):  # the CA in it may be written at the same time
        live = {**await cluster.client.get(CRDS, name), "kind": CRDS.kind, "apiVersion": CRDS.api_version}
        wanted = migration.restored(live, recorded)
        if wanted is None:
            return
        with contextlib.suppress(Conflict):
            await cluster.do(f"restore CRD {name} as Kueue had it", partial(cluster.client.update, CRDS, wanted))
            return
    raise MigrationError(f"CRD {name} changes again and again: run the command again")


async def _remove_own(cluster: ClusterToMigrate, found: Found, theirs: set[str]) -> None:
    """Deletes the CRDs that Kueue does not have, if they have no objects."""
    for kind in KINDS:
        if kind.crd_name in theirs or kind.crd_name not in {each["metadata"]["name"] for each in found.definitions}:
            continue
        version = kind.versions[0].name
        resource = Resource(GROUP, version, kind.plural, kind.kind, namespaced=kind.namespaced)
        with contextlib.suppress(ApiError):
            if (await cluster.client.list(resource))["items"]:
                cluster.report(f"CRD {kind.crd_name} stays: it has objects, and Kueue does not have this kind")
                continue
        await cluster.do(f"delete CRD {kind.crd_name}", partial(cluster.client.delete, CRDS, kind.crd_name))


async def _configurations(client: Client, record: Raw) -> list[Raw]:
    found: list[Raw] = []
    for raw in record["configurations"]:
        with contextlib.suppress(NotFound):
            resource = RESOURCES[raw["kind"]]
            found.append({**await client.get(resource, raw["metadata"]["name"]), "kind": raw["kind"]})
    return found
