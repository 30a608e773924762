"""The ASGI application: the webhooks' routes, the probes and the metrics, behind the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.limits import Guard, Limits
from app.metrics import Measured, ProcessMetrics


def create_app(
    hooks: Sequence[Route],
    others: Iterable[Route],
    metrics: ProcessMetrics,
    limits: Limits | None = None,
    *,
    called: Callable[[str], None] = lambda path: None,
) -> ASGIApp:
    """The application of a listener. `hooks` take reviews by POST, `others` are read with GET; `called` is called with
    the path when a call of a hook arrives.
    """
    paths = {route.path for route in hooks}
    return Measured(Guard(Starlette(routes=[*hooks, *others]), paths, limits), paths, metrics, called)


def metrics_route(metrics: ProcessMetrics) -> Route:
    """`/metrics`."""

    async def endpoint(request: Request) -> Response:
        return Response(await metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return Route("/metrics", endpoint)
