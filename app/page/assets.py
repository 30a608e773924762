"""The files of the page: read once, compressed once, and sent with a tag by which a browser knows that it has them."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent.parent / "ui"
INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """A file as it is sent."""

    media_type: bytes
    content: bytes
    packed: bytes
    tag: bytes


def load(folder: Path = FOLDER) -> dict[str, Asset]:
    """Returns the files by their paths; '/' is the page itself."""
    found: dict[str, Asset] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'.encode()
            asset = Asset(_TYPES[path.suffix], content, gzip.compress(content, 9, mtime=0), tag)
            found[f"/ui/{path.relative_to(folder).as_posix()}"] = asset
    if (index := found.pop(f"/ui/{INDEX}", None)) is not None:
        found["/"] = index
    return found
