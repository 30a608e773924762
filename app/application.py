"""The ASGI application: the webhooks' routes, the probes and the metrics, behind the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.limits import Guard, Limits
from app.metrics import Measured, Metrics


def create_app(
    hooks: Sequence[Route], others: Iterable[Route], metrics: Metrics, limits: Limits | None = None
) -> ASGIApp:
    """What a listener serves. `hooks` take reviews by POST, `others` are read with GET."""
    paths = {route.path for route in hooks}
    return Measured(Guard(Starlette(routes=[*hooks, *others]), paths, limits), paths, metrics)


def metrics_route(metrics: Metrics) -> Route:
    """`/metrics`, rendered in a thread: thousands of series take longer than a webhook may wait."""

    async def endpoint(request: Request) -> Response:
        body = await asyncio.to_thread(generate_latest, metrics.registry)
        return Response(body, media_type=CONTENT_TYPE_LATEST)

    return Route("/metrics", endpoint)
