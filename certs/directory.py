"""The CA in a directory: the store of a server that runs outside the cluster.

One file has the data; it is replaced by rename, so that no reader sees half a CA; a lock file orders the writers of
several processes. `ca.crt` next to it is a copy of the bundle for people (`curl --cacert`), which is never read.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from certs import record
from certs.store import Content

FILE = "authority.json"


class DirectoryStore:
    """`certs.store.Store` on a directory, made with mode 0700 when it does not exist. Files have mode 0600."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def read(self) -> Content:
        """Returns the file's content; other JSON is read as unusable data with its own version."""
        return await asyncio.to_thread(self._read)

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replace the file if it still has the content `version` was read from."""
        return await asyncio.to_thread(self._write, data, version)

    def _read(self) -> Content:
        try:
            raw = (self.directory / FILE).read_bytes()
        except FileNotFoundError:
            return Content({})
        version = hashlib.sha256(raw).hexdigest()
        try:
            encoded = json.loads(raw)
            return Content({name: base64.b64decode(value) for name, value in encoded.items()}, version)
        except (ValueError, AttributeError, TypeError):
            return Content({record.ROTATION: raw}, version)

    def _write(self, data: Mapping[str, bytes], version: str) -> bool:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.directory / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._read().version != version:
                return False
            encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
            replace_file(self.directory / FILE, json.dumps(encoded, indent=1).encode())
            replace_file(self.directory / record.BUNDLE, data.get(record.BUNDLE, b""))
            return True
        finally:
            os.close(lock)


def replace_file(path: Path, content: bytes) -> None:
    """Write `path` so that readers see the old content or the new, whole, with mode 0600."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
