"""The probes for liveness and readiness, each a list of named checks with a sentence for a failure.

Liveness (`/healthz`) depends only on the event loop: if it depended on the API server, an outage of that would restart
every replica. Readiness (`/readyz`) checks what the API server needs: a TLS handshake with the process's own port
verifies with the clients' bundle, the webhook configurations have that bundle, and the process is not shutting down.
Any client can send requests, as many as it likes, so the result of a handshake is cached for a short time. Readiness
does not wait for the caches: the first LIST of Seiretsu's kinds may need the conversion webhook, which a Service offers
only when the pod is ready. `/readyz/controller` reports whether the caches have been read and whether the API server
denies the controller any write.
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

ProbeCheck = Callable[[], Awaitable[str]]
"""Returns a sentence that says why the check fails; empty if it passes."""

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
        """Measures until cancelled."""
        while True:
            self._last = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)
            self._metrics.lag.observe(self.late())

    def late(self) -> float:
        """Returns for how many seconds the loop has not run a timer that was due; any thread may call it."""
        return max(time.monotonic() - self._last - BEAT_SECONDS, 0.0)

    async def check(self) -> str:
        """Passes if the loop has run its timers in the last half minute."""
        late = self.late()
        return f"the event loop has been busy for {late:.0f} s" if late > DEAD_SECONDS else ""


async def dial(address: Address, bundle: bytes, name: str) -> str:
    """Makes a TLS handshake with the process's own port as the API server would, with `bundle` as the trusted CAs and
    `name` as the host name. Returns why it fails; empty if it succeeds.

    The validity period is not checked: OpenSSL would use the local clock, but the API server uses its own.
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


def remembered(check: ProbeCheck, clock: Callable[[], float] = time.monotonic) -> ProbeCheck:
    """Returns the check with its result cached for `REMEMBERED_SECONDS`, regardless of the number of requests."""
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


async def failing(checks: Mapping[str, ProbeCheck]) -> dict[str, str]:
    """Returns the checks that fail, with their sentences."""
    found = {name: await check() for name, check in checks.items()}
    return {name: sentence for name, sentence in found.items() if sentence}


def probe(path: str, checks: Mapping[str, ProbeCheck]) -> Route:
    """Returns a page that answers 200 if every check passes, else 503, with one line for each check, as the API server
    does.
    """

    async def endpoint(request: Request) -> Response:
        failed = await failing(checks)
        if not failed and "verbose" not in request.query_params:
            return PlainTextResponse("ok")
        lines = [f"[-]{name}: {failed[name]}" if name in failed else f"[+]{name} ok" for name in checks]
        return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if failed else 200)

    return Route(path, endpoint)
