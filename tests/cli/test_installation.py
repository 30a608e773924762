"""What `seiretsu doctor` finds by calling: whether the program that answers is the one that a caBundle verifies."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from api.objects import Raw
from certs import pki
from cli.installation import ENDPOINT_SLICES, handshake

DAY = timedelta(days=1)


@asynccontextmanager
async def answering(folder: Path, names: list[str]) -> AsyncIterator[tuple[int, bytes]]:
    """A TLS server of a new CA; yields its port and the CA's certificate."""
    now = datetime.now(UTC)
    authority = pki.new_authority(now, DAY)
    leaf = pki.new_leaf(authority, names, now, DAY)
    (folder / "chain.pem").write_bytes(leaf.chain_pem)
    (folder / "key.pem").write_bytes(leaf.key_pem)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], authority.chain_pem


def config(port: int, bundle: bytes) -> Raw:
    return {"url": f"https://127.0.0.1:{port}/mutate", "caBundle": base64.b64encode(bundle).decode()}


async def test_a_ca_bundle_is_verified_with_what_answers(tmp_path: Path) -> None:
    other = pki.new_authority(datetime.now(UTC), DAY).chain_pem
    async with answering(tmp_path, ["127.0.0.1"]) as (port, bundle):
        assert await handshake(config(port, bundle), {}) == ""
        assert await handshake(config(port, other), {}) == "unable to get local issuer certificate"
    assert await handshake(config(port, bundle), {}) is None, "nothing answers"


async def test_a_certificate_for_another_name_is_found(tmp_path: Path) -> None:
    async with answering(tmp_path, ["elsewhere.svc"]) as (port, bundle):
        assert "IP address mismatch" in str(await handshake(config(port, bundle), {}))


async def test_the_pods_behind_a_service_are_called_by_its_name(tmp_path: Path) -> None:
    service = {"name": "webhook", "namespace": "seiretsu-system"}
    async with answering(tmp_path, ["webhook.seiretsu-system.svc"]) as (port, bundle):
        slices = [
            {
                "metadata": {"namespace": "seiretsu-system", "labels": {"kubernetes.io/service-name": "webhook"}},
                "ports": [{"port": port}],
                "endpoints": [
                    {"addresses": ["192.0.2.1"], "conditions": {"ready": False}},
                    {"addresses": ["127.0.0.1"]},
                ],
            }
        ]
        found = {ENDPOINT_SLICES.plural: slices}
        called = {"service": service, "caBundle": base64.b64encode(bundle).decode()}
        assert await handshake(called, found) == ""
        other = base64.b64encode(pki.new_authority(datetime.now(UTC), DAY).chain_pem).decode()
        assert await handshake({**called, "caBundle": other}, found)
        assert await handshake(called, {}) == "", "the pods are not known"
