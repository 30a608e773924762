"""What is written into the status of queues."""

from typing import Any

import pytest

from controller.queues import difference

Raw = dict[str, Any]
FLAVORS = [{"name": "default", "resources": []}]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({}, {"flavorsReservation": []}, {}, id="an empty list that is absent stays absent"),
        pytest.param(
            {"flavorsReservation": FLAVORS},
            {"flavorsReservation": []},
            {"flavorsReservation": None},
            id="a list that becomes empty is removed",
        ),
        pytest.param(
            {"flavorsReservation": []},
            {"flavorsReservation": []},
            {"flavorsReservation": None},
            id="an empty list that an earlier release wrote is removed",
        ),
        pytest.param({}, {"pendingWorkloads": 0}, {"pendingWorkloads": 0}, id="a count of zero is written"),
        pytest.param({"pendingWorkloads": 0}, {"pendingWorkloads": 0}, {}, id="what is there already is not written"),
        pytest.param({"foreign": 1}, {"pendingWorkloads": 2}, {"pendingWorkloads": 2}, id="other fields stay"),
    ],
)
def test_a_status_patch_contains_what_differs_and_no_empty_list(old: Raw, new: Raw, patch: Raw) -> None:
    assert difference(old, new) == patch
