"""Writes an image as an OCI archive (https://github.com/opencontainers/image-spec), which skopeo and crane push, and
podman and Docker load. The same root and configuration give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from image.clean_root import Image

_TYPE = "application/vnd.oci.image"


def architecture() -> str:
    """Returns the name that images have for the processor of this machine."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def write(image: Image, out: Path, name: str, epoch: int) -> None:
    """Writes the archive of an image with one layer; ``name`` is what an engine calls it when it is loaded."""
    layer = _layer(image.root, epoch)
    packed = gzip.compress(layer, compresslevel=6, mtime=epoch)
    blobs: dict[str, bytes] = {}
    described = {
        "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": image.user,
            "Env": [f"{key}={value}" for key, value in sorted(image.environment.items())],
            "Entrypoint": image.entrypoint,
            "Cmd": image.arguments,
            "Labels": image.labels,
            "ExposedPorts": {port: {} for port in ("8081/tcp", "9443/tcp")},
            "WorkingDir": image.directory,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": _blob(blobs, f"{_TYPE}.config.v1+json", _json(described)),
        "layers": [_blob(blobs, f"{_TYPE}.layer.v1.tar+gzip", packed)],
    }
    listed = _blob(blobs, f"{_TYPE}.manifest.v1+json", _json(manifest))
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.index.v1+json",
        "manifests": [{**listed, "annotations": annotations}],
    }
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **blobs}
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            tar.addfile(entry, io.BytesIO(content))


def _layer(root: Path, epoch: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(root)))
            entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime = 0, 0, "", "", epoch
            if entry.islnk():
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            if entry.isreg():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return buffer.getvalue()


def _blob(blobs: dict[str, bytes], media: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = content
    return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
