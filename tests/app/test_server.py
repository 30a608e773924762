"""The listening sockets: calls in flight at the end are answered, and not one of 20,000 under load fails."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import pytest

from app.connection import Deadlines
from app.server import Address, Farewell, Listener, Server
from devcluster.certificates import Authority
from tests.app.conftest import Serve
from tests.app.http import Wire, get, post
from tests.effort import cases
from tests.eventually import PATIENCE

ADDRESSES = [
    ("127.0.0.1:9443", Address("127.0.0.1", 9443)),
    (":8081", Address("0.0.0.0", 8081)),
    ("[::1]:0", Address("::1", 0)),
]


@pytest.mark.parametrize(("text", "address"), ADDRESSES, ids=[case[0] for case in ADDRESSES])
def test_an_address_is_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["9443", "localhost", "host:port", "host:70000", "host:"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address: write HOST:PORT, e\.g\. 127\.0\.0\.1:9443"):
        Address.parse(text)


async def test_an_address_in_use_is_named_and_nothing_listens(serve: Serve) -> None:
    async with serve() as served:
        assert served.listener.bound is not None
        free = Listener(served.app, Address("127.0.0.1", 0))
        second = Server([free, Listener(served.app, served.listener.bound)])
        with pytest.raises(OSError, match=f"cannot listen on {served.listener.bound}: Address already in use"):
            await second.start()
        assert free.bound is not None
        with pytest.raises(ConnectionRefusedError):
            async with Wire(free.bound):
                pass


async def test_a_lame_duck_still_answers_new_and_old_connections_and_says_close(serve: Serve) -> None:
    async with serve(tls=True) as served, served.wire() as old:
        assert "connection" not in (await old.call(get("/page"))).headers
        stopping = asyncio.create_task(served.server.stop(Farewell(lame_duck=2.0, calls=0.5)))
        await asyncio.sleep(0)
        assert served.server.draining
        async with served.wire() as new:
            for wire in (old, new):
                answer = await wire.call(get("/page"))
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert await wire.closed()
        await stopping
        with pytest.raises(ConnectionRefusedError):
            async with served.wire():
                pass


API_SERVER_IDLE_SECONDS = 90
"""For so long the API server keeps a connection that it does not use."""
API_SERVER_HANDSHAKE_SECONDS = 10
"""For so long the API server waits for a TLS handshake (`TLSHandshakeTimeout` of client-go's transports)."""


def test_a_handshake_is_not_given_up_before_the_api_server_gives_it_up() -> None:
    """Else a process that has too little CPU for a while would fail calls for which there was time."""
    assert Deadlines().handshake >= API_SERVER_HANDSHAKE_SECONDS


async def test_f6_a_connection_stays_open_for_longer_than_the_api_server_keeps_it(serve: Serve) -> None:
    """F6: it is always the API server that closes an idle connection, so none closes while a call is sent on it."""
    assert Deadlines().idle > API_SERVER_IDLE_SECONDS
    async with serve(tls=True) as served, served.wire() as wire:
        await wire.call(get("/page"))
        await asyncio.sleep(cases(1, API_SERVER_IDLE_SECONDS + 5))
        assert (await wire.call(get("/page"))).status == 200


async def test_a_call_in_flight_is_answered_after_the_listener_closed(serve: Serve) -> None:
    async with serve(tls=True) as served, served.wire() as idle, served.wire() as wire:
        await idle.call(get("/page"))
        await wire.send(post("/slow", b"{}"))
        await served.entered.wait()
        stopping = asyncio.create_task(served.server.stop(Farewell(0.0, calls=2 * PATIENCE)))
        assert await idle.closed()
        served.release.set()
        answer = await wire.answer()
        assert (answer.status, answer.body) == (200, b"at last")
        await asyncio.wait_for(stopping, PATIENCE)


async def test_who_connected_before_the_listener_closed_is_answered(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that the server has not accepted yet: the API server does not repeat their calls."""
    monkeypatch.setattr("app.server.FIRST_CALL_SECONDS", PATIENCE)
    async with serve(tls=True) as served:
        address = served.listener.bound
        assert address is not None
        waiting = [socket.create_connection((address.host, address.port)) for _ in range(20)]  # nothing else runs
        stopping = asyncio.create_task(served.server.stop(Farewell(0.0, calls=2 * PATIENCE)))
        await asyncio.sleep(0)
        for each in waiting:
            async with Wire(address, served.trust, each) as wire:
                answer = await wire.call(post("/echo", b"{}"))
                assert (answer.status, answer.headers.get("connection")) == (200, "close"), answer
        await asyncio.wait_for(stopping, PATIENCE)
        with pytest.raises(ConnectionRefusedError):
            async with served.wire():
                pass


async def test_a_call_that_never_ends_does_not_hold_the_shutdown_up(serve: Serve) -> None:
    async with serve() as served, served.wire() as wire:
        await wire.send(post("/slow", b"{}"))
        await served.entered.wait()
        await asyncio.wait_for(served.server.stop(Farewell(0.0, calls=0.1)), PATIENCE)
        assert (await wire.answer()).status == 0


async def test_a_caller_that_hangs_up_during_its_call_leaves_nothing_behind(serve: Serve) -> None:
    async with serve() as served:
        async with served.wire() as wire:
            await wire.send(post("/slow", b"{}"))
            await served.entered.wait()
        served.release.set()
        async with served.wire() as other:
            assert (await other.call(post("/echo", b"{}"))).status == 200


async def test_connections_that_send_nothing_delay_no_handshake(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.PASSES", 10**9)  # whoever has the turn keeps it until its handshake is done
    async with serve(tls=True) as served, contextlib.AsyncExitStack() as silent:
        assert served.listener.bound is not None
        for _ in range(20):
            await silent.enter_async_context(Wire(served.listener.bound))
        async with served.wire() as wire:
            assert (await wire.call(get("/page"))).status == 200
            assert len(served.listener.open) == 21


async def test_too_many_connections_end_those_without_a_handshake_first(serve: Serve) -> None:
    async with serve(tls=True, connections=3) as served, served.wire() as old, contextlib.AsyncExitStack() as silent:
        assert served.listener.bound is not None
        wires = [await silent.enter_async_context(Wire(served.listener.bound)) for _ in range(20)]
        for wire in wires[:18]:
            assert await wire.closed()
        assert (await old.call(get("/page"))).status == 200
        async with served.wire() as new:
            assert (await new.call(get("/page"))).status == 200


async def test_too_many_connections_end_the_one_that_is_idle_for_the_longest_time(serve: Serve) -> None:
    async with serve(tls=True, connections=3) as served, served.wire() as busy, served.wire() as old:
        await busy.send(post("/slow", b"{}"))
        await served.entered.wait()
        async with served.wire() as idle:
            await idle.call(get("/page"))
            await old.call(get("/page"))
            async with served.wire() as new:
                assert (await new.call(get("/page"))).status == 200
                assert await idle.closed()
                assert (await old.call(get("/page"))).status == 200
        served.release.set()
        assert (await busy.answer()).body == b"at last"


async def test_a_connection_is_refused_while_all_others_are_being_answered(serve: Serve) -> None:
    async with serve(connections=1) as served, served.wire() as busy:
        await busy.send(post("/slow", b"{}"))
        await served.entered.wait()
        async with served.wire() as refused:
            assert await refused.closed()
        served.release.set()
        assert (await busy.answer()).body == b"at last"


async def test_with_a_client_ca_only_its_clients_may_call_hooks(serve: Serve, tmp_path: Path) -> None:
    authority, stranger = Authority("clients"), Authority("others")
    names = ("kube-apiserver",)
    async with serve(tls=True, client_ca=authority.pair.certificate, client_names=names) as served:
        assert served.trust is not None
        async with served.wire() as nobody:
            refused = await nobody.call(post("/echo", b"{}"))
            assert (refused.status, b"needs a client certificate" in refused.body) == (403, True)
        async with served.wire() as nobody:
            assert (await nobody.call(get("/page"))).status == 200, "pages have no such limit"
        for signer, name, expected in (
            (authority, "kube-apiserver", 200),
            (authority, "somebody", 403),
            (stranger, "kube-apiserver", 0),
        ):
            trust = ssl.create_default_context()
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            pair = signer.client(name)
            pair.write(tmp_path / name)
            trust.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
            assert served.listener.bound is not None
            try:
                async with Wire(served.listener.bound, trust) as wire:
                    status = (await wire.call(post("/echo", b"{}"))).status
            except OSError:
                status = 0  # the handshake failed
            assert status == expected, name
