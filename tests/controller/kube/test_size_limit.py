import pytest

from api.objects import Raw
from controller.kube.errors import TooLarge
from controller.kube.size_limit import MEBIBYTE, SizeLimit, length


def named(name: object) -> Raw:
    return {"metadata": {"namespace": "ns", "name": name}}


def test_the_objects_of_all_resources_count_together() -> None:
    limit = SizeLimit(100)
    limit.observe("jobs", "ADDED", named("a"), 60)
    with pytest.raises(TooLarge):
        limit.observe("workloads", "ADDED", named("a"), 50)
    limit.observe("jobs", "MODIFIED", named("a"), 40)
    limit.observe("workloads", "ADDED", named("a"), 50)
    assert limit.held == 90
    limit.observe("jobs", "DELETED", named("a"), 40)
    limit.observe("jobs", "DELETED", named("unknown"), 40)
    assert limit.held == 50


def test_an_object_that_is_read_and_is_too_deep_to_be_written_has_a_length() -> None:
    """Of a worker cluster, whose tenants write it: decoders read a thousand levels, encoders write a fourth of them."""
    deep: Raw = {}
    for _ in range(900):
        deep = {"f:a": deep}
    assert length(deep) > len('{"f:a":}') * 900
    assert length(named("a")) == len('{"metadata":{"namespace":"ns","name":"a"}}')


def test_a_list_replaces_what_was_counted_of_its_resource() -> None:
    limit = SizeLimit(100)
    limit.observe("jobs", "ADDED", named("a"), 60)
    limit.observe("workloads", "ADDED", named("a"), 30)
    listing = limit.listing("jobs")
    for name, size in (("b", 40), ("c", 20)):
        listing.add(named(name), size)
    listing.discard(named("c"))
    listing.enter()
    assert limit.held == 70
    listing = limit.listing("jobs")
    listing.add(named("d"), 80)
    with pytest.raises(TooLarge):
        listing.enter()
    assert limit.held == 70


def test_a_list_that_repeats_its_objects_is_over_the_limit_at_some_time() -> None:
    listing = SizeLimit(100).listing("jobs")
    with pytest.raises(TooLarge):
        for _ in range(11):
            listing.add(named("a"), 10)


def test_lists_that_are_received_at_the_same_time_count_together() -> None:
    """Without the stores, which they replace, and without what arrived before an interruption."""
    limit = SizeLimit(100)
    limit.observe("jobs", "ADDED", named("a"), 60)
    for _ in range(3):
        jobs, workloads = limit.listing("jobs"), limit.listing("workloads")
        jobs.add(named("a"), 60)
        workloads.add(named("a"), 40)
    with pytest.raises(TooLarge):
        workloads.add(named("b"), 10)
    jobs.add(named("b"), 10)
    workloads = limit.listing("workloads")
    workloads.add(named("a"), 30)
    for listing in (jobs, workloads):
        listing.enter()
    assert limit.held == 100
    limit.listing("jobs").add(named("a"), 100)


@pytest.mark.parametrize("raw", [{"metadata": 1}, {}, named([]), named({"a": 1})])
def test_an_object_without_a_proper_name_counts(raw: Raw) -> None:
    limit = SizeLimit(100)
    limit.observe("jobs", "ADDED", raw, 10)
    assert limit.held == 10


def test_the_error_says_the_limit() -> None:
    text = "workloads: more than 256 MiB of memory for objects in this cluster are not read"
    with pytest.raises(TooLarge, match=text):
        SizeLimit(256 * MEBIBYTE).observe("workloads", "ADDED", named("a"), 257 * MEBIBYTE)
