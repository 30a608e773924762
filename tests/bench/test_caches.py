"""T19: a process that reads many objects answers admission calls meanwhile. `python -m bench.caches --live` measures
it.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from api.objects import Raw
from bench.caches import initial_state, read_live
from tests.effort import cases

COUNT = cases(500, 50_000)


def test_t19_calls_are_answered_while_pods_and_workloads_are_read() -> None:
    """T19: every call gets its right answer; with 50,000 of both the process needs less than 1 GiB. It is a process of
    its own: that of the tests has what all of them import and leave.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        found = alone.submit(read_live, COUNT, rate=50).result()
    assert found.read == f"{COUNT} Workloads and {COUNT} pods of them"
    assert [each.failed for each in (*found.during, found.after)] == [0] * (len(found.during) + 1)
    assert min(each.calls for each in found.during) > 0
    assert found.rss < cases(300, 1024)


def test_a_watch_with_a_selector_gets_only_the_objects_that_it_selects() -> None:
    """Else the cache of queued pods has every pod of the cluster, and the benchmark measures what never happens."""
    labels = ({"managed": "true"}, {"managed": "false"}, None)
    streams: dict[str, list[tuple[Raw, bytes]]] = {
        "pods": [({"metadata": {"labels": each}}, b"%d" % place) for place, each in enumerate(labels)]
    }
    assert initial_state(streams, "/api/v1/pods?watch=true&labelSelector=managed%3Dtrue")[:-1] == [b"0"]
    assert initial_state(streams, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%21%3D")[:-1] == [
        b"0",
        b"1",
        b"2",
    ]
    assert len(initial_state(streams, "/api/v1/nodes?watch=true")) == 1, "the end alone"
