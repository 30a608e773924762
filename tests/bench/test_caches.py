"""T19: a process that reads many objects answers admission calls meanwhile. `python -m bench.caches --live` measures
it.
"""

from __future__ import annotations

from bench.caches import read_live
from tests.effort import cases

COUNT = cases(500, 50_000)


def test_t19_calls_are_answered_while_pods_and_workloads_are_read() -> None:
    """T19: every call gets its right answer; with 50,000 of both the process needs less than 1 GiB."""
    found = read_live(COUNT, rate=50)
    assert found.read == f"{COUNT} Workloads and {COUNT} pods of them"
    assert [each.failed for each in (*found.during, found.after)] == [0] * (len(found.during) + 1)
    assert min(each.calls for each in found.during) > 0
    assert found.rss < 1024
