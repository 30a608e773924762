"""The table that compares the figures of several runs."""

from __future__ import annotations

from bench.compare import rows


def test_a_row_has_the_numbers_of_all_runs_and_the_ratios_to_the_first() -> None:
    ours = {"wall": 30.0, "cpu": {"etcd": 2, "serve": 5}, "broken": [], "load": "jobs"}
    theirs = {"wall": 60.0, "cpu": {"etcd": 0}}
    assert rows([ours, theirs]) == [
        ["wall", 30.0, 60.0, 0.5],
        ["cpu: etcd", 2.0, 0.0, ""],
        ["cpu: serve", 5.0, "", ""],
    ]
