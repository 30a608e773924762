"""`seiretsu bundle`: one archive with what a report about a cluster needs, and no secrets."""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
import io
import json
import tarfile
from collections.abc import Awaitable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from api import resources, visibility
from api.objects import Raw, Resource
from api.resources import EVENTS
from cli import installation
from cli.doctor import text
from cli.target import UNREADABLE, As, AsGroup, ChosenCluster, ContextOption, Kubeconfig, UnreadableError, fail, target
from controller.kube.client import Client
from controller.kube.errors import ApiError
from core.diagnosis.findings import findings, unchecked
from core.diagnosis.redaction import redacted
from operations.objects import CRDS

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CONFIGURATION = "controller_manager_config.yaml"
LOG_LINES = 20_000
REPLICAS_ASKED = 8
"""So often the recording is asked for: only the leader has it, and any replica may answer."""


def command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("seiretsu-bundle.tar.gz"),
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
) -> None:
    """Write an archive for a bug report: queues, Workloads, logs and the result of doctor, without secrets."""
    try:
        files, taken = asyncio.run(_connected(target(kubeconfig, context, as_user, as_group)))
    except UnreadableError as error:
        fail("bundle", str(error), code=UNREADABLE)
    path.write_bytes(archive(files, taken))
    typer.echo(f"{path}: {len(files)} files. Values of environment variables and arguments are removed; names are not.")


def archive(files: Mapping[str, str | bytes], taken: datetime) -> bytes:
    """Returns the files as a tar archive in one folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"seiretsu-bundle/{name}")
            data = content.encode() if isinstance(content, str) else content
            member.size, member.mtime = len(data), int(taken.timestamp())
            tar.addfile(member, io.BytesIO(data))
    return written.getvalue()


def documents(objects: Iterable[Raw]) -> str:
    """Returns objects as YAML, without what may be secret. Of CRDs only what is not generated."""
    return yaml.safe_dump_all([redacted(_short(raw)) for raw in objects], sort_keys=False)


def _short(raw: Raw) -> Raw:
    if raw.get("kind") != CRDS.kind:
        return raw
    versions = [{name: value for name, value in each.items() if name != "schema"} for each in raw["spec"]["versions"]]
    return {**raw, "spec": {**raw["spec"], "versions": versions}}


async def _connected(where: ChosenCluster) -> tuple[dict[str, str | bytes], datetime]:
    async with Client(where.connection()) as client:
        return await collect(client)


async def collect(client: Client) -> tuple[dict[str, str | bytes], datetime]:
    """Returns the files of the archive by name, and when the cluster was read."""
    facts = await installation.read(client)
    files: dict[str, str | bytes] = {
        "doctor.txt": text(findings(facts), unchecked(facts)),
        "version.json": json.dumps(
            {
                "seiretsu": importlib.metadata.version("seiretsu"),
                "kubernetes": await _or_why(client.raw("/version")),
                "taken": facts.now.isoformat(),
            },
            indent=2,
        ),
    }
    for plural, found in facts.objects.items():
        files[f"objects/{plural}.yaml"] = documents(found)
    for service in facts.of("services"):
        files |= await _process(client, service)
    recording = await _recording(client)
    return ({**files, "last.recording": recording} if recording else files), facts.now


async def _recording(client: Client) -> bytes:
    """The last minutes of the recording, from the replica that leads; empty if there is none, or no right to it."""
    path = f"/apis/{visibility.GROUP}/{visibility.VERSIONS[0]}/{visibility.RECORDINGS}/{visibility.LAST}"
    for _ in range(REPLICAS_ASKED):
        try:
            return base64.b64decode((await client.raw(path))["data"])
        except ApiError as error:
            if error.status != 503:
                return b""
        except (KeyError, TypeError, ValueError):
            return b""
    return b""


async def _process(client: Client, service: Raw) -> dict[str, str]:
    """The Deployment, pods, events, Configuration and logs of the pods behind a Service that our webhooks call. Other
    programs may run in its namespace: objects without the labels that the Service selects are left out.
    """
    namespace = service["metadata"]["namespace"]
    labels = ",".join(f"{name}={value}" for name, value in (service["spec"].get("selector") or {}).items())
    if not labels:
        return {}
    files: dict[str, str] = {}
    names: set[str] = set()
    pods: list[Raw] = []
    for resource in (DEPLOYMENTS, resources.PODS, EVENTS):
        try:
            found = (await client.list(resource, namespace, label_selector="" if resource is EVENTS else labels))[
                "items"
            ]
        except ApiError as error:
            files[f"{namespace}/{resource.plural}.txt"] = f"{error}\n"
            continue
        if resource is EVENTS:
            found = [each for each in found if _about(each, names)]
        names |= {each["metadata"]["name"] for each in found}
        pods = found if resource is resources.PODS else pods
        files[f"{namespace}/{resource.plural}.yaml"] = documents(found)
    try:
        for each in (await client.list(CONFIG_MAPS, namespace, label_selector=labels))["items"]:
            if CONFIGURATION in (each.get("data") or {}):
                files[f"{namespace}/{each['metadata']['name']}.yaml"] = each["data"][CONFIGURATION]
    except ApiError as error:
        files[f"{namespace}/configuration.txt"] = f"{error}\n"
    for pod in pods:
        name = pod["metadata"]["name"]
        for previous in ("false", "true"):
            path = resources.PODS.path(namespace, name, "log")
            try:
                log = await client.text(path, {"tailLines": str(LOG_LINES), "previous": previous})
            except ApiError as error:
                log = f"{error}\n"
            files[f"{namespace}/logs/{name}{'-previous' if previous == 'true' else ''}.log"] = log
    return files


def _about(event: Raw, names: Iterable[str]) -> bool:
    """Whether an event is about one of these objects, or a ReplicaSet or former pod of such a Deployment."""
    name: str = event["involvedObject"].get("name", "")
    return any(name == each or name.startswith(f"{each}-") for each in names)


async def _or_why(call: Awaitable[Raw]) -> Raw | str:
    try:
        return await call
    except ApiError as error:
        return str(error)
