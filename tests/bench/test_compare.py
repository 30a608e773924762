"""The table that compares the figures of several runs."""

from __future__ import annotations

from bench.compare import differing_versions, rows


def test_a_row_has_the_numbers_of_all_runs_and_the_ratios_to_the_first() -> None:
    ours = {"wall": 30.0, "cpu": {"etcd": 2, "serve": 5}, "broken": [], "load": "jobs"}
    theirs = {"wall": 60.0, "cpu": {"etcd": 0}}
    assert rows([ours, theirs]) == [
        ["wall", 30.0, 60.0, 0.5],
        ["cpu: etcd", 2.0, 0.0, ""],
        ["cpu: serve", 5.0, "", ""],
    ]


def test_runs_that_served_different_versions_are_not_to_be_compared() -> None:
    ours, floor = {"served versions": ["v1beta1", "v1beta2"]}, {"served versions": ["v1beta2"]}
    found = differing_versions({"ours": ours, "floor": floor})
    assert found.endswith("different versions of Workloads (ours: v1beta1, v1beta2; floor: v1beta2)")
    assert not differing_versions({"ours": ours, "again": ours, "latency": {}})
