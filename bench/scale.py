"""How the decisions grow past what one machine's control plane can hold: ``python -m bench.scale``.

A State without a cluster: 1,000,000 workloads wait in 10,000 ClusterQueues and 1,000 cohorts, decoded from objects as
an API server sends them. In turns with a State of a tenth of them: the CPU time of a cycle; besides, the rate at which
the first list is decoded and queued, and the memory of a workload that waits.

A process keeps more of it: the raw object in the store of the caches, with the indexes of its row, beside State. That
is measured with a tenth of the workloads, with as many of them behind each queue: the caches of the controller, from
the text to the first cycle.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import orjson

from bench.cycle import cluster, cycles, raw_workload
from bench.report import save, table
from controller.cache.caches import Caches
from controller.run.watched import rows
from core.jobs.kinds import BATCH_JOB
from core.state.state import State
from core.wire import decode

MIB = 2**20


def resident() -> int:
    """The bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def filled(queues: int, cohorts: int, pending: int) -> tuple[State, float, float]:
    """A State in which so many workloads wait; how many were decoded and queued in a second of CPU; bytes of each."""
    state = cluster(queues=queues, cohorts=cohorts, pending=0, admitted=queues)
    context = decode.WorkloadContext()
    gc.collect()
    before, spent = resident(), 0.0
    for begin in range(0, pending, 10_000):  # the texts of all of them would be more than the State
        texts = [orjson.dumps(raw_workload(number, queues)) for number in range(begin, min(begin + 10_000, pending))]
        began = time.process_time()
        for text in texts:
            raw = orjson.loads(text)
            found = decode.workload(raw, context)
            state.set_workload(found.key, found)
        spent += time.process_time() - began
    gc.collect()
    return state, pending / spent, (resident() - before) / pending


class Cached(NamedTuple):
    """Of the workloads of a first list, by workload: bytes in the store, and with State; seconds of CPU until each is
    in the store, and until it is in State.
    """

    store_bytes: float
    all_bytes: float
    store_seconds: float
    all_seconds: float


def cached(queues: int, cohorts: int, pending: int) -> Cached:
    """Reads so many workloads into the caches of the controller, as a process does that starts."""
    gc.disable()
    caches = Caches(cluster(queues=queues, cohorts=cohorts, pending=0, admitted=0), rows((BATCH_JOB,)))
    listing = caches.workloads.listing()
    gc.collect()
    before, began, spent = resident(), 0.0, 0.0
    for begin in range(0, pending, 1_000):
        texts = [orjson.dumps(raw_workload(number, queues)) for number in range(begin, min(begin + 1_000, pending))]
        began = time.process_time()
        for text in texts:
            listing.add(orjson.loads(text))
        spent += time.process_time() - began
    began = time.process_time()
    _through(listing.enter(str(pending)))
    del listing
    store_seconds = spent + time.process_time() - began
    gc.collect()
    store_bytes = resident() - before
    began = time.process_time()
    _through(caches.starting())
    all_seconds = store_seconds + time.process_time() - began
    assert len(caches.decoded) == pending == len(caches.workloads)
    gc.collect()
    all_bytes = resident() - before
    return Cached(*(each / pending for each in (store_bytes, all_bytes, store_seconds, all_seconds)))


def _through(steps: Iterable[None]) -> None:
    for _ in steps:
        pass


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description="Memory, first list and cycles of very many workloads.")
    parser.add_argument("--pending", type=int, default=1_000_000, help="workloads that wait (default: 1,000,000)")
    parser.add_argument("--queues", type=int, default=10_000, help="ClusterQueues (default: 10,000)")
    parser.add_argument("--cohorts", type=int, default=1_000, help="cohorts (default: 1,000)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        kept = other.submit(cached, chosen.queues // 10, chosen.cohorts // 10, chosen.pending // 10).result()
    table(
        f"in the caches of a process, {chosen.pending // 10:,} wait in {chosen.queues // 10:,} ClusterQueues",
        ("by workload", "the store", "with State"),
        [
            ("bytes", kept.store_bytes, kept.all_bytes),
            ("us of CPU, of the first list", kept.store_seconds * 1e6, kept.all_seconds * 1e6),
        ],
    )
    gc.disable()
    few, rate_few, bytes_few = filled(chosen.queues, chosen.cohorts, chosen.pending // 10)
    many, rate_many, bytes_many = filled(chosen.queues, chosen.cohorts, chosen.pending)
    gc.freeze()
    cycle_few, cycle_many = cycles(few, many)
    rows = [
        ("decoded and queued, workloads in a second of CPU", rate_few, rate_many),
        ("memory by workload, with all that the queues take, bytes", bytes_few, bytes_many),
        ("memory of one more workload, bytes", float("nan"), (bytes_many - bytes_few / 10) / 0.9),
        (f"a cycle over {chosen.queues:,} heads, ms of CPU", cycle_few, cycle_many),
        ("memory of the process, MiB", float("nan"), resident() / MIB),
    ]
    table(f"{chosen.queues:,} ClusterQueues", ("", f"{chosen.pending // 10:,} wait", f"{chosen.pending:,} wait"), rows)
    save({"rows": rows, "caches": kept._asdict()}, chosen.json)


if __name__ == "__main__":
    main()
