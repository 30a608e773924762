"""Twenty thousand real admission calls under load: not one fails, and what is counted is what was asked."""

import asyncio
from itertools import cycle

import orjson

from app.application import create_app, metrics_route
from app.metrics import Metrics
from tests.app.conftest import listening
from tests.app.http import Answer, Wire, get, post
from tests.webhook.cluster import cluster, job, review
from webhook.routes import routes
from webhook.settings import Context, Settings

CALLS, CLIENTS = 20_000, 16
MUTATE, VALIDATE = "/mutate-batch-v1-job", "/validate-batch-v1-job"
QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
PADDED = {"example.com/notes": "x" * 3000}  # a usual Job is of some 5 KB


def calls() -> list[tuple[bytes, bool]]:
    """Requests in turn, and whether the object is let in."""
    good = job(labels=QUEUED, annotations=PADDED)
    wrong = job(labels={"kueue.x-k8s.io/queue-name": "Not A Name"}, annotations=PADDED)
    return [
        (post(MUTATE, orjson.dumps(review(good))), True),
        (post(VALIDATE, orjson.dumps(review({**good, "spec": {**good["spec"], "suspend": True}}))), True),
        (post(VALIDATE, orjson.dumps(review(wrong))), False),
    ]


def fits(answer: Answer, allowed: bool) -> bool:
    return answer.status == 200 and (b'"allowed":true' if allowed else b'"allowed":false') in answer.body


async def test_twenty_thousand_calls_under_load_fail_none() -> None:
    """Sixteen clients that keep their connections, as the API server does, and one that makes a new one each time."""
    metrics = Metrics()
    hooks = routes(Context(Settings(), cluster(namespaces={"team-a": {}})))
    app = create_app(hooks, [metrics_route(metrics)], metrics)
    left, failed, anew = CALLS, list[Answer](), 0

    async with listening(app) as (_, listener, trust):
        assert listener.bound is not None
        address = listener.bound

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
        async with Wire(address, trust) as wire:
            page = (await wire.call(get("/metrics"))).body.decode()

    assert failed == []
    counted = [line for line in page.splitlines() if line.startswith("seiretsu_webhook_requests_total{")]
    assert sum(float(line.split()[-1]) for line in counted) == CALLS + anew
    assert all('code="200"' in line for line in counted)
