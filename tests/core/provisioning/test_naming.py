"""Names of requests and templates, and the attempt in a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.provisioning import naming

WORKLOAD = "job-train-1a2b3"


def test_a_name_has_the_workload_the_check_and_the_attempt() -> None:
    assert naming.request(WORKLOAD, "nodes", 2) == "job-train-1a2b3-nodes-2"
    assert naming.template("job-train-1a2b3-nodes-2", "main") == "ppt-job-train-1a2b3-nodes-2-main"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("job-train-1a2b3-nodes-1", 1),
        ("job-train-1a2b3-nodes-12", 12),
        ("job-train-1a2b3-nodes-x", None),
        ("job-train-1a2b3-nodes-", None),
        ("job-train-1a2b3-nodes-spot-1", None),
        ("job-train-1a2b3-other-1", None),
    ],
)
def test_the_attempt_is_read_from_the_name(name: str, number: int | None) -> None:
    assert naming.attempt(name, WORKLOAD, "nodes", 3) == number


def test_a_name_that_is_too_long_ends_with_a_hash_of_the_whole() -> None:
    name = naming.request("w" * 240, "c" * 20, 1)
    assert len(name) == 253 and name[:240] == "w" * 240
    assert name != naming.request("w" * 240, "c" * 20, 2)


def test_a_hash_of_digits_is_no_attempt() -> None:
    """A prefix that fills the name up to the hash: about one in ten of these hashes has no letter."""
    check = "c" * 182
    workloads = [f"{place:064d}" for place in range(100)]
    digits = [each for each in workloads if naming.request(each, check, 1)[-5:].isdigit()]
    assert digits, "one of them is met"
    assert [naming.attempt(naming.request(each, check, 1), each, check, 3) for each in digits] == [1] * len(digits)


names = st.text("abc-", min_size=1, max_size=250)


@given(names, names, st.integers(1, 5))
def test_every_attempt_is_found_in_its_name(workload: str, check: str, attempt: int) -> None:
    assert naming.attempt(naming.request(workload, check, attempt), workload, check, 5) == attempt
