"""Garbage is collected, but for what was read at the start."""

from __future__ import annotations

import gc

import pytest

from app.collector import reading


def test_what_was_read_is_set_aside_and_garbage_is_collected_again() -> None:
    try:
        with reading():
            assert not gc.isenabled()
            read = [[number] for number in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= len(read)
    finally:
        gc.unfreeze()


def test_garbage_is_collected_again_where_the_start_fails() -> None:
    with pytest.raises(OSError, match="no port"), reading():
        raise OSError("no port")
    assert gc.isenabled()
