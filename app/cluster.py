"""The parts of a cluster that `certs` uses, through the API server's client: the Secret of the CA, and every copy of
the bundle.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from api import visibility
from api.names import NAMESPACE
from api.objects import Raw, Resource
from certs.store import Content
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, Conflict, NotFound
from controller.kube.reflector import Reflector
from controller.kube.store import Store
from operations.objects import API_SERVICES, CONVERTED, CRDS, RESOURCES, SECRETS, apply

LOOK_AGAIN_SECONDS = 12.0
"""Less than `RenewalPolicy.publish_wait`, so that the CRDs are read again before the next CA signs."""


class SecretStore:
    """`certs.store.Store` on one Secret, written with its resource version, or created."""

    def __init__(self, client: Client, name: str, namespace: str = NAMESPACE) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._found: Raw = {}

    async def read(self) -> Content:
        """The Secret's data; entries that are not base64 read as empty."""
        try:
            self._found = await self._client.get(SECRETS, self._name, self._namespace)
        except NotFound:
            self._found = {}
            return Content({})
        data = {name: _decoded(value) for name, value in (self._found.get("data") or {}).items()}
        return Content(data, self._found["metadata"]["resourceVersion"])

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replace the data if the Secret still is at `version`."""
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        metadata = {"name": self._name, "namespace": self._namespace}
        try:
            if not version:
                body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
                await self._client.create(SECRETS, body, self._namespace)
            else:
                kept = {**self._found["metadata"], "resourceVersion": version}
                await self._client.update(SECRETS, {**self._found, "metadata": kept, "data": encoded})
        except (AlreadyExists, Conflict, NotFound):
            return False
        return True


class Installed:
    """The webhook configurations that `--install` applies: `certs.store.BundleTarget`.

    `wanted` returns them for a bundle. One that is deleted or changed by another client is applied again.
    """

    def __init__(self, client: Client, wanted: Callable[[bytes], list[Raw]]) -> None:
        self._client = client
        self._wanted = wanted
        self.name = "webhook configurations"

    async def carries(self, bundle: bytes) -> bool:
        """Every configuration is there, each of its webhooks called as we want it and trusting `bundle`."""
        for wanted in self._wanted(bundle):
            found = await _get(self._client, wanted)
            if found is None or _called(found) != _called(wanted):
                return False
        return True

    async def publish(self, bundle: bytes) -> None:
        """Apply the configurations."""
        for wanted in self._wanted(bundle):
            await apply(self._client, wanted)


class Charted:
    """The webhook configurations of the chart, of which only the `caBundle`s are written."""

    def __init__(self, client: Client, names: Mapping[Resource, str]) -> None:
        self._client = client
        self._names = dict(names)
        self.name = ", ".join(self._names.values())

    async def carries(self, bundle: bytes) -> bool:
        """Every webhook trusts `bundle`. A configuration that is not there has no one to keep in step."""
        encoded = base64.b64encode(bundle).decode()
        wanted = [{"kind": resource.kind, "metadata": {"name": name}} for resource, name in self._names.items()]
        hooks = [hook for found in await _all(self._client, wanted) for hook in (found or {}).get("webhooks") or ()]
        return all(hook["clientConfig"].get("caBundle") == encoded for hook in hooks)

    async def publish(self, bundle: bytes) -> None:
        """Sets every `caBundle`, and nothing else; if the list of webhooks changed meanwhile, the patch fails."""
        encoded = base64.b64encode(bundle).decode()
        for resource, name in self._names.items():
            found = await _get(self._client, {"kind": resource.kind, "metadata": {"name": name}})
            patch: list[Raw] = []
            for index, one in enumerate((found or {}).get("webhooks") or ()):
                at = f"/webhooks/{index}"
                patch.append({"op": "test", "path": f"{at}/name", "value": one["name"]})
                patch.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": encoded})
            if patch:
                await self._client.patch(resource, name, "", patch, type="json")


class Aggregated:
    """The APIServices of the visibility API, of which only the `caBundle`s are written."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.name = "APIServices"

    async def carries(self, bundle: bytes) -> bool:
        """Every APIService trusts `bundle`. One that is not there has no one to keep in step."""
        return not await self._others(bundle)

    async def publish(self, bundle: bytes) -> None:
        """Sets every `caBundle`, and nothing else."""
        patch: Raw = {"spec": {"caBundle": base64.b64encode(bundle).decode()}}
        for name in await self._others(bundle):
            await self._client.patch(API_SERVICES, name, "", patch)

    async def _others(self, bundle: bytes) -> list[str]:
        """The APIServices that trust something else."""
        encoded = base64.b64encode(bundle).decode()
        wanted = [{"kind": API_SERVICES.kind, "metadata": {"name": name}} for name in visibility.API_SERVICES]
        served = [each for each in await _all(self._client, wanted) if each is not None]
        return [each["metadata"]["name"] for each in served if each["spec"].get("caBundle") != encoded]


class Converted:
    """The conversion webhooks in the CRDs, of which only the `caBundle`s are written.

    The CRDs belong to the installer, chart or `--install`: one that does not exist, does not convert, or calls another
    program than `called` (a `clientConfig`) is skipped. Kueue, e.g., writes its own bundle where its Service is called.
    CRDs are large, and only an upgrade changes them: a bundle that was found in all of them is checked again after
    `LOOK_AGAIN_SECONDS`, not in every pass. `follow` watches them and calls `spoiled` when one of them has another
    bundle; then only this one is read.
    """

    def __init__(self, client: Client, called: Callable[[], Raw], clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._called = called
        self._clock = clock
        self._wanted = b""
        self._found = b""
        self._found_at = 0.0
        self._spoiled: set[str] = set()
        self.name = "conversion webhooks"

    async def follow(self, spoiled: Callable[[], None]) -> None:
        """Watches until cancelled."""

        def changed(name: str, old: str | None, new: str | None) -> None:
            if self._wanted and new not in (None, base64.b64encode(self._wanted).decode()):
                self._spoiled.add(name)
                spoiled()

        async with asyncio.TaskGroup() as group:
            for name in CONVERTED:
                store = Store(name, self._bundle_of)
                store.listen(partial(changed, name))
                fields = f"metadata.name={name}"
                group.create_task(Reflector(self._client, CRDS, store, field_selector=fields).run())

    async def carries(self, bundle: bytes) -> bool:
        """Every conversion webhook trusts `bundle`."""
        self._wanted = bundle
        if self._read_lately(bundle):
            return not await self._others(bundle, self._spoiled)
        carried = not await self._others(bundle, CONVERTED)
        self._found, self._found_at = (bundle, self._clock()) if carried else (b"", 0.0)
        return carried

    async def publish(self, bundle: bytes) -> None:
        """Set every `caBundle`, and nothing else."""
        config: Raw = {"caBundle": base64.b64encode(bundle).decode()}
        patch: Raw = {"spec": {"conversion": {"webhook": {"clientConfig": config}}}}
        for name in await self._others(bundle, self._spoiled if self._read_lately(bundle) else CONVERTED):
            await self._client.patch(CRDS, name, "", patch)

    def _read_lately(self, bundle: bytes) -> bool:
        """Whether all CRDs had the bundle when they were read; the watch has reported those that have lost it since."""
        return bundle == self._found and self._clock() - self._found_at < LOOK_AGAIN_SECONDS

    async def _others(self, bundle: bytes, names: Collection[str]) -> list[str]:
        """Returns those of these CRDs that convert by our webhook and trust something else."""
        encoded = base64.b64encode(bundle).decode()
        wanted: list[Raw] = [{"kind": CRDS.kind, "metadata": {"name": name}} for name in sorted(names)]
        self._spoiled.difference_update(names)  # first: a watch may report them again while they are read
        try:
            definitions = [each for each in await _all(self._client, wanted) if each is not None]
        except BaseException:
            self._spoiled.update(names)
            raise
        found = [each["metadata"]["name"] for each in definitions if self._bundle_of(each) not in (None, encoded)]
        self._spoiled.update(found)
        return found

    def _bundle_of(self, definition: Raw) -> str | None:
        """Returns the `caBundle` of a CRD's conversion webhook, empty if it has none; None if it has no such webhook,
        or that of another program.
        """
        config = ((definition["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig")
        if config is None or _program(config) != _program(self._called()):
            return None
        return config.get("caBundle") or ""


def _program(config: Raw) -> tuple[str | None, ...]:
    """Returns which program a `clientConfig` calls: its URL, or the namespace and name of its Service."""
    service = config.get("service") or {}
    return config.get("url"), service.get("namespace"), service.get("name")


async def _get(client: Client, wanted: Raw) -> Raw | None:
    try:
        return await client.get(RESOURCES[wanted["kind"]], wanted["metadata"]["name"])
    except NotFound:
        return None


async def _all(client: Client, wanted: list[Raw]) -> list[Raw | None]:
    """Reads objects at the same time: at a start readiness waits for them, and their connections are used again."""
    return await asyncio.gather(*(_get(client, each) for each in wanted))


def _called(configuration: Raw) -> dict[str, Raw]:
    """Returns how each webhook is called, without the defaults of the API server."""
    return {
        one["name"]: {key: one["clientConfig"].get(key) for key in ("url", "caBundle")}
        for one in configuration.get("webhooks") or ()
    }


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return b""
