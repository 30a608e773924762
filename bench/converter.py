"""The conversion webhook alone, in its own process: for measurements in which no ``seiretsu serve`` runs."""

import asyncio
import base64
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection as Pipe

from api.crds import CONVERSION_PATH
from api.objects import Raw
from app.application import Application
from app.metrics import ProcessMetrics
from app.server import Address, Listener, Server
from certs import pki
from certs.live import LiveContext
from certs.plan import RenewalPolicy
from webhook.conversion import convert


@contextmanager
def converting() -> Iterator[tuple[int, Raw]]:
    """Context in which it runs: its process, and the ``clientConfig`` with which the API server calls it."""
    spawn = multiprocessing.get_context("spawn")
    ours, its = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(its,), daemon=True)
    process.start()
    try:
        address, bundle = ours.recv()
        assert process.pid
        yield process.pid, {"url": f"https://{address}{CONVERSION_PATH}", "caBundle": base64.b64encode(bundle).decode()}
    finally:
        process.kill()


def _serve(pipe: Pipe) -> None:
    async def serve() -> None:
        live, now, policy = LiveContext(), datetime.now(UTC), RenewalPolicy()
        authority = pki.new_authority(now, policy.authority_life)
        leaf = pki.new_leaf(authority, ("localhost", "127.0.0.1"), now, policy.leaf_life)
        live.load(leaf, authority.chain_pem, "localhost", now)
        app = Application({CONVERSION_PATH: convert}, [], ProcessMetrics())
        listener = Listener(app, Address("127.0.0.1", 0), live.context)
        await Server([listener]).start()
        pipe.send((str(listener.bound), authority.chain_pem))
        await asyncio.Event().wait()

    asyncio.run(serve())
