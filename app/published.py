"""Checks that the caBundle in the live webhook configurations verifies the served certificate.

The configurations are watched, so a probe costs no call, and a bundle that is removed or replaced is detected and
restored immediately. While they cannot be watched, the result of the last pass over the certificates is used
(`certs.keeper`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import datetime

from api.objects import Raw, Resource
from certs import pki
from certs.live import LiveContext
from certs.pki import CertificateError
from controller.kube.client import Client
from controller.kube.reflector import Reflector
from controller.kube.store import Store, verbatim


class Published:
    """Watches the configurations ``names`` (one of each resource). The API server calls their webhooks by the host name
    ``called``.

    ``required``: a missing configuration is an error. ``spoiled`` is called after each change that leaves an error.
    """

    def __init__(
        self,
        client: Client,
        names: Mapping[Resource, str],
        live: LiveContext,
        called: str,
        *,
        clock: Callable[[], datetime],
        required: bool,
        spoiled: Callable[[], None] = lambda: None,
    ) -> None:
        self._names = dict(names)
        self._live = live
        self._called = called
        self._clock = clock
        self._required = required
        self._spoiled = spoiled
        self._judged: tuple[object, str] = (None, "")
        self._stores: dict[Resource, Store[Raw]] = {}
        self._reflectors: list[Reflector[Raw]] = []
        for resource, name in self._names.items():
            store = Store(resource.plural, verbatim)
            store.listen(self._changed)
            self._stores[resource] = store
            self._reflectors.append(Reflector(client, resource, store, field_selector=f"metadata.name={name}"))

    @property
    def known(self) -> bool:
        """Whether the watch has listed every configuration."""
        return all(store.synced for store in self._stores.values())

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    def complaint(self) -> str:
        """Returns the error of the first webhook that has one, as a sentence; empty if none has. Computed again only
        when a configuration or the served certificate has changed.
        """
        found = (self._stores[resource].get(("", name)) for resource, name in self._names.items())
        versions = [each and (each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in found]
        facts = (versions, self._live.pair, self._live.bundle)
        if self._judged[0] != facts:
            self._judged = (facts, self._judge())
        return self._judged[1]

    def _judge(self) -> str:
        for resource, name in self._names.items():
            found = self._stores[resource].get(("", name))
            if found is None and self._required:
                return f"the {resource.kind} {name} does not exist"
            for webhook in (found or {}).get("webhooks") or ():
                if why := self._wrong(webhook):
                    return f"the webhook {webhook.get('name')} of the {resource.kind} {name} {why}"
        return ""

    def _wrong(self, webhook: Raw) -> str:
        try:
            bundle = base64.b64decode((webhook.get("clientConfig") or {}).get("caBundle") or "")
        except (binascii.Error, ValueError):
            return "has a caBundle that is not base64"
        if not bundle.strip():
            # Without a bundle the API server uses its system's CAs: correct if no CA is known here either.
            return "has no caBundle" if self._live.bundle else ""
        if self._live.pair is None:
            return "trusts a CA, but no certificate is served yet"
        try:
            pki.verify_chain(self._live.pair, bundle, self._called, self._clock())
        except CertificateError:
            return "has a caBundle that does not verify the certificate that is served"
        return ""

    def _changed(self, old: Raw | None, new: Raw | None) -> None:
        if self.known and self.complaint():
            self._spoiled()
