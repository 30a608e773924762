"""Certificates exchanged under a listening socket: real handshakes on the loopback, never one that fails."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import pki
from certs.directory import DirectoryStore
from certs.keeper import Keeper
from certs.live import LiveContext
from certs.pki import CertificateError, KeyPair
from certs.plan import RenewalPolicy

NAMES = ("localhost", "127.0.0.1")


@asynccontextmanager
async def echo(live: LiveContext) -> AsyncIterator[int]:
    """A server that answers each line with itself; yields its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=live.context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: a rotation takes a year, which a test plays on its own clock."""


def trusting(bundle: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= NO_CHECK_TIME
    return context


async def call(port: int, bundle: bytes) -> bytes:
    """One new connection and one line over it; the serving certificate, DER."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(bundle), server_hostname="localhost")
    served: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    writer.close()
    await writer.wait_closed()
    return served


def authority_and_leaf() -> tuple[KeyPair, KeyPair]:
    now, policy = datetime.now(UTC), RenewalPolicy()
    authority = pki.new_authority(now, policy.authority_life)
    return authority, pki.new_leaf(authority, NAMES, now, policy.leaf_life)


async def test_a_pair_that_does_not_match_is_refused_and_the_old_one_serves_on() -> None:
    now = datetime.now(UTC)
    authority, leaf = authority_and_leaf()
    _, stranger = authority_and_leaf()
    live = LiveContext()
    live.load(leaf, authority.chain_pem, "localhost", now)
    async with echo(live) as port:
        before = await call(port, authority.chain_pem)
        mismatched = KeyPair(leaf.certificate, leaf.chain_pem, stranger.key_pem)
        with pytest.raises(CertificateError, match="cannot be served"):
            live.load(mismatched, authority.chain_pem, "localhost", now)
        with pytest.raises(CertificateError, match="does not verify"):
            live.load(stranger, authority.chain_pem, "localhost", now)
        assert await call(port, authority.chain_pem) == before
    assert live.pair is leaf


async def test_an_open_connection_survives_the_renewal_of_the_leaf() -> None:
    now = datetime.now(UTC)
    authority, leaf = authority_and_leaf()
    live = LiveContext()
    live.load(leaf, authority.chain_pem, "localhost", now)
    async with echo(live) as port:
        context = trusting(authority.chain_pem)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        before = await call(port, authority.chain_pem)
        live.load(pki.new_leaf(authority, NAMES, now, timedelta(days=1)), authority.chain_pem, "localhost", now)
        writer.write(b"still here\n")
        assert await reader.readline() == b"still here\n"
        assert await call(port, authority.chain_pem) != before
        writer.close()
        await writer.wait_closed()


class Clients:
    """The copy of the bundle that new connections of this test trust."""

    name = "clients of this test"

    def __init__(self) -> None:
        self.bundle = b""

    async def carries(self, bundle: bytes) -> bool:
        return self.bundle == bundle

    async def publish(self, bundle: bytes) -> None:
        self.bundle = bundle


async def test_a_rotation_under_load_with_new_connections_fails_none(tmp_path: Path) -> None:
    """Three whole rotations, in two replicas on one store, while new connections are made all the time."""
    policy = RenewalPolicy(publish_wait=timedelta(0))
    elapsed, clients = timedelta(0), Clients()
    replicas = [
        Keeper(
            DirectoryStore(tmp_path),
            LiveContext(),
            NAMES,
            targets=[clients],
            clock=lambda: datetime.now(UTC) - timedelta(days=340) + elapsed,
            policy=policy,
        )
        for _ in range(2)
    ]
    for replica in replicas:
        await replica.tick()
    served, widths, rotating = set(), [], True
    calls: asyncio.Queue[bytes] = asyncio.Queue()

    async def connect(port: int) -> None:
        while rotating:
            await calls.put(await call(port, clients.bundle))

    async with echo(replicas[0].live) as one, echo(replicas[1].live) as other, asyncio.TaskGroup() as group:
        for port in (one, one, other, other):
            group.create_task(connect(port))
        for step in (0, 250, 0, 0, 15, 0, 16, 0, 59):
            elapsed += timedelta(days=step)
            for replica in replicas:
                await replica.tick()
                widths.append(len(pki.read_certificates(clients.bundle)))
                served.update([await calls.get() for _ in range(6)])
        rotating = False
    assert set(widths) == {1, 2}
    assert widths[-1] == 1
    assert len(served) >= 4, "each replica has served a leaf of each CA"


async def test_only_http_1_1_is_offered_and_tls_1_2_refused_by_default() -> None:
    authority, leaf = authority_and_leaf()
    live = LiveContext()
    live.load(leaf, authority.chain_pem, "localhost", datetime.now(UTC))
    async with echo(live) as port:
        modern = trusting(authority.chain_pem)
        modern.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=modern, server_hostname="localhost")
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        await writer.wait_closed()
        old = trusting(authority.chain_pem)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=old, server_hostname="localhost")
