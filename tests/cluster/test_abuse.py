"""Invalid and slow requests: they are answered or disconnected, and do not affect other callers.

`make bench` sends a hundred thousand such reviews (`bench.abuse`); these are enough to detect an error.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.abuse import LONGEST_SECONDS, OTHERS_PER_SECOND, Victim, assault, slow_senders
from bench.openloop import Caller, Quantiles
from bench.reviews import WAYS, asks
from devcluster.controlplane import ControlPlane
from tests.effort import cases
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

REVIEWS, SEED, SENDERS = cases(1_000, 4_000), 20261121, 100


@pytest.fixture(scope="module")
def process(unserved: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Victim]]:
    certificates = Path(tmp_path_factory.mktemp("certs"))
    with serving(unserved.kubeconfig, certificates) as served:
        served.ready()
        base = f"https://127.0.0.1:{served.address.port}"
        yield served, Victim(base, certificates / "ca.crt", served.process.pid)


async def test_many_bad_reviews_are_never_allowed_cause_no_error_and_no_memory_growth(
    process: tuple[Served, Victim],
) -> None:
    served, victim = process
    report = await assault(victim, asks(SEED, REVIEWS), REVIEWS)
    assert report.mistakes == []
    assert report.answered.total() == REVIEWS
    assert {kind for kind, _ in report.answered} == set(WAYS)
    assert [event for event in served.events if event.get("level") in ("error", "critical")] == []
    assert "Traceback" not in "".join(served.log)
    assert max(report.sizes) < 1.1 * report.sizes[0], "memory grows with what was sent"


def expensive() -> dict[str, dict[str, dict[str, str]]]:
    """Metadata of Jobs whose review once took longer than the API server waits, though one is even valid."""
    queued = {"kueue.x-k8s.io/queue-name": "main"}
    return {
        "a long label key": {"labels": {"q" * 1_500_000 + "/x": "y"}},
        "many gates": {"labels": queued, "annotations": {"kueue.x-k8s.io/admission-gated-by": "," * 250_000}},
        "many labels": {"labels": {f"kueue.x-k8s.io/k{number}": "x" for number in range(30_000)}},
    }


@pytest.mark.parametrize("name", expensive())
def test_nothing_that_a_person_may_send_keeps_the_webhooks_from_answering(
    process: tuple[Served, Victim], cluster: ControlPlane, name: str
) -> None:
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    metadata = {"generateName": "dear-", **expensive()[name]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pods}}}
    answered = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(job))
    assert "failed calling webhook" not in answered.stderr
    assert "deadline exceeded" not in answered.stderr


async def test_slow_senders_are_disconnected_and_do_not_delay_other_callers(
    process: tuple[Served, Victim],
) -> None:
    _, victim = process
    with victim.others() as others:
        for _ in range(3):  # other processes may have kept the machine busy in one of the three moments
            before, beside, after = await moments(victim, others)
            if beside.p50 < 5 * max(before.p50, after.p50):
                return
    raise AssertionError(f"calls beside slow senders: {beside}, before: {before}, after: {after}")


async def moments(victim: Victim, others: Caller) -> tuple[Quantiles, Quantiles, Quantiles]:
    """The latencies of other callers before, during and after slow senders, which are disconnected."""

    async def meet(seconds: float) -> Quantiles:
        found = await asyncio.to_thread(others.run, OTHERS_PER_SECOND, seconds)
        assert found.failed == 0
        return found

    await meet(1)
    before = await meet(2)
    connected = asyncio.Barrier(SENDERS + 1)
    slow = asyncio.create_task(slow_senders(victim, SENDERS, connected))
    await connected.wait()
    beside = await meet(3)
    cut = await slow
    after = await meet(2)
    assert len(cut) == SENDERS
    assert max(cut) < LONGEST_SECONDS, "somebody was let go on for ever"
    return before, beside, after
