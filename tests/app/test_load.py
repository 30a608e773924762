"""Real admission calls under load: none fails, and what is counted is what was asked.

`tests.cluster.test_load` puts more to the whole process; here are enough to see a limit that is too tight.
"""

import asyncio
import ssl
from itertools import cycle

import orjson

from app.application import Application, metrics_page
from app.limits import Limits
from app.metrics import ProcessMetrics
from app.server import Address
from tests.app.conftest import listening
from tests.app.http import Answer, Wire, get, post
from tests.eventually import PATIENCE
from tests.webhook.cluster import cluster, job, review
from webhook.routes import routes
from webhook.settings import Context, WebhookSettings

CALLS, CLIENTS = 2_000, 16
MUTATE, VALIDATE = "/mutate-batch-v1-job", "/validate-batch-v1-job"
QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
PADDED = {"example.com/notes": "x" * 3000}  # a usual Job is of some 5 KB


def calls() -> list[tuple[bytes, bool]]:
    """Requests in turn, each with whether its object is allowed."""
    good = job(labels=QUEUED, annotations=PADDED)
    wrong = job(labels={"kueue.x-k8s.io/queue-name": "Not A Name"}, annotations=PADDED)
    return [
        (post(MUTATE, orjson.dumps(review(good))), True),
        (post(VALIDATE, orjson.dumps(review({**good, "spec": {**good["spec"], "suspend": True}}))), True),
        (post(VALIDATE, orjson.dumps(review(wrong))), False),
    ]


def fits(answer: Answer, allowed: bool) -> bool:
    """The answer is a review with that verdict."""
    return answer.status == 200 and (b'"allowed":true' if allowed else b'"allowed":false') in answer.body


async def call_under_load(address: Address, trust: ssl.SSLContext | None, count: int) -> tuple[int, list[Answer]]:
    """`count` calls by sixteen clients that keep their connections, as the API server does, and meanwhile as many as
    come by one that makes a new one each time; how many calls these were, and the answers that do not fit.
    """
    left, anew, failed = count, 0, list[Answer]()

    async def keep_calling() -> None:
        nonlocal left
        turns = cycle(calls())
        async with Wire(address, trust) as wire:
            while left > 0:
                left -= 1
                request, allowed = next(turns)
                answer = await wire.call(request)
                if not fits(answer, allowed):
                    failed.append(answer)

    async def call_anew() -> None:
        nonlocal anew
        turns = cycle(calls())
        while left > 0:
            anew += 1
            request, allowed = next(turns)
            async with Wire(address, trust) as wire:
                answer = await wire.call(request)
            if not fits(answer, allowed):
                failed.append(answer)

    async with asyncio.TaskGroup() as clients:
        for _ in range(CLIENTS):
            clients.create_task(keep_calling())
        clients.create_task(call_anew())
    return count + anew, failed


def counted(page: str) -> dict[str, float]:
    """The webhook calls of a page of metrics, by their labels."""
    lines = (line.rpartition(" ") for line in page.splitlines() if line.startswith("seiretsu_webhook_requests_total{"))
    return {labels: float(number) for labels, _, number in lines}


async def test_calls_under_load_fail_none() -> None:
    metrics = ProcessMetrics()
    hooks = routes(Context(WebhookSettings(), cluster(namespaces={"team-a": {}})))
    app = Application(hooks, [metrics_page(metrics)], metrics, Limits(body_seconds=PATIENCE))
    async with listening(app) as (_, listener, trust):
        assert listener.bound is not None
        asked, failed = await call_under_load(listener.bound, trust, CALLS)
        async with Wire(listener.bound, trust) as wire:
            page = (await wire.call(get("/metrics"))).body.decode()
    assert failed == []
    assert sum(counted(page).values()) == asked
    assert all('code="200"' in labels for labels in counted(page))
