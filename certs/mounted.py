"""Certificates of another program, e.g. cert-manager: files in a mounted Secret, watched and loaded when they change.

Kubernetes replaces a mount as a whole (`..data` points to another directory), but a read can happen between two files:
a pair that does not match is not an error, the next check reads it completely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import structlog

from certs import pki
from certs.live import LiveContext
from certs.pki import CertificateError

log = structlog.get_logger("seiretsu.certs")

LOOK_EVERY = 10.0
"""Seconds between checks of the files; the same as controller-runtime's certificate watcher."""


class MountedFiles:
    """`tls.crt`, `tls.key` and, where there is one, `ca.crt` of `directory`, served as `name`."""

    def __init__(self, directory: Path, live: LiveContext, name: str, *, clock: Callable[[], datetime]) -> None:
        self.directory = directory
        self.live = live
        self.name = name
        self.clock = clock
        self._seen: tuple[bytes, bytes, bytes] | None = None

    @property
    def bundle(self) -> bytes:
        """The certificates that clients must trust, as far as the mount contains them."""
        return self.live.bundle

    async def run(self) -> None:
        """Look again and again until cancelled; a pair that cannot be served is logged, the last good one serves on."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.tick()
            except (CertificateError, OSError) as error:
                log.warning("Mounted certificate not loaded, the last valid one is still served", error=str(error))

    async def tick(self) -> None:
        """Load the files if they changed. Raises `CertificateError` or `OSError`; then the old pair is still served."""
        files = await asyncio.to_thread(self._read)
        if files == self._seen:
            return
        chain, key, bundle = files
        pair = pki.read_pair(chain, key)
        self.live.load(pair, bundle, self.name, self.clock())
        self._seen = files
        log.info("Serving a mounted certificate", expires=pair.certificate.not_after.isoformat())

    def _read(self) -> tuple[bytes, bytes, bytes]:
        current = (self.directory / "..data").resolve()
        directory = current if current.is_dir() else self.directory
        bundle = directory / "ca.crt"
        return (
            (directory / "tls.crt").read_bytes(),
            (directory / "tls.key").read_bytes(),
            bundle.read_bytes() if bundle.exists() else b"",
        )
