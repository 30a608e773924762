"""Whether this process is alive and whether it is ready, each as a list of named checks with a sentence for a failure.

Alive (`/healthz`) depends on the event loop only: if it depended on the API server, its outage would restart every
replica. Ready (`/readyz`) is what the API server needs: a TLS handshake with the process's own port that verifies with
the clients' bundle, that bundle in the webhook configurations, and no shutdown. Any client can ask, as often as it
likes, so the result of a handshake is cached for a moment. It does not wait for caches: the first LIST of Seiretsu's
kinds may need the conversion webhook, which a Service offers only when it is ready. `/readyz/controller` reports
whether the caches are read and whether the API server denies the controller any write.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.metrics import ProcessMetrics
from app.server import Address

Check = Callable[[], Awaitable[str]]
"""Why the check fails, in a sentence; empty where it passes."""

BEAT_SECONDS = 0.25
DEAD_SECONDS = 30.0
DIAL_SECONDS = 2.0
REMEMBERED_SECONDS = 2.0
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME."""


class Heartbeat:
    """Measures how late the event loop runs its timers."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics
        self._last = time.monotonic()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._last = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)
            self._metrics.lag.observe(self.late())

    def late(self) -> float:
        """Returns for how many seconds the loop has not run a timer that was due; any thread may call it."""
        return max(time.monotonic() - self._last - BEAT_SECONDS, 0.0)

    async def check(self) -> str:
        """The loop ran its timers in the last half minute."""
        late = self.late()
        return f"the event loop has been busy for {late:.0f} s" if late > DEAD_SECONDS else ""


async def dial(address: Address, bundle: bytes, name: str) -> str:
    """Makes a TLS handshake with the process's own port as the API server would, with `bundle` as trust and `name` as
    the host name.

    Without checking the time: OpenSSL would use the local clock, and the API server's is what counts.
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    try:
        trust = ssl.create_default_context(cadata=bundle.decode()) if bundle else ssl.create_default_context()
        trust.verify_flags |= _NO_CHECK_TIME
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(host, address.port, ssl=trust, server_hostname=name)
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError, ssl.SSLError) as error:
        return f"a TLS handshake with {address} as {name} fails: {error or type(error).__name__}"
    return ""


def remembered(check: Check, clock: Callable[[], float] = time.monotonic) -> Check:
    """The check, with a result that is valid for `REMEMBERED_SECONDS`, regardless of the number of requests."""
    answer, until = "", float("-inf")
    one_at_a_time = asyncio.Lock()

    async def found() -> str:
        nonlocal answer, until
        async with one_at_a_time:
            if clock() >= until:
                answer = await check()
                until = clock() + REMEMBERED_SECONDS
            return answer

    return found


async def failing(checks: Mapping[str, Check]) -> dict[str, str]:
    """The checks that fail, with their sentences."""
    found = {name: await check() for name, check in checks.items()}
    return {name: sentence for name, sentence in found.items() if sentence}


def probe(path: str, checks: Mapping[str, Check]) -> Route:
    """A path that answers 200 if every check passes, else 503, with one line for each check, as the API server does."""

    async def endpoint(request: Request) -> Response:
        failed = await failing(checks)
        if not failed and "verbose" not in request.query_params:
            return PlainTextResponse("ok")
        lines = [f"[-]{name}: {failed[name]}" if name in failed else f"[+]{name} ok" for name in checks]
        return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if failed else 200)

    return Route(path, endpoint)
