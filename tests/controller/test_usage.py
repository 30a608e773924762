"""What LocalQueues used is remembered over restarts."""

from hypothesis import given
from hypothesis import strategies as st

from controller.scheduling.usage import consumed_of, patch_of
from core.queue.admission_fair_sharing import Consumed

NAMES = st.sampled_from(["cpu", "memory", "example.com/gpu"])
AMOUNTS = st.dictionaries(NAMES, st.floats(0, 1e12).map(lambda amount: round(amount, 3)))


@given(AMOUNTS, st.integers(1, 2_000_000_000))
def test_what_is_written_is_what_a_restart_reads(amounts: dict[str, float], at: int) -> None:
    written = patch_of(Consumed(amounts, float(at)))
    read = consumed_of(written)
    assert read is not None
    assert read.at == at
    assert read.resources.keys() == amounts.keys()
    assert all(abs(read.resources[name] - amounts[name]) < 0.001 for name in amounts)


def test_a_queue_that_was_never_sampled_remembers_nothing() -> None:
    assert consumed_of({"status": {"fairSharing": {"weightedShare": 0}}}) is None
