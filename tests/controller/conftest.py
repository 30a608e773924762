"""What holds for every test of the controller."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def writes_wait_until_the_test_lets_them_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that waits for admission calls waits until the test ends this, however slow the machine is."""
    monkeypatch.setattr("controller.kube.flow.limits.LONGEST_WAIT_SECONDS", 60.0)
