"""What is written into the status of queues."""

from typing import cast

import pytest

from api.objects import Raw, Resource
from controller import resources
from controller.caches import Caches
from controller.queues import QueueStatuses, difference
from controller.watched import rows
from controller.writes import Writer
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from core.state.state import State
from tests.controller.test_caches import made

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


IN_USE = "kueue.x-k8s.io/resource-in-use"
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Patches:
    """A writer that only notes."""

    def __init__(self) -> None:
        self.sent: list[Raw] = []

    async def patch(self, resource: Resource, key: Key, body: Raw) -> None:
        self.sent.append(body["metadata"])


@pytest.mark.parametrize(
    ("metadata", "used", "finalizers"),
    [
        pytest.param({}, False, [IN_USE], id="a new one is kept"),
        pytest.param({"finalizers": ["other"]}, True, ["other", IN_USE], id="finalizers of others stay"),
        pytest.param({"finalizers": [IN_USE]}, True, "nothing", id="one that is kept already is not written"),
        pytest.param({"finalizers": [IN_USE], **LEAVING}, True, "nothing", id="one in use is not released"),
        pytest.param({"finalizers": ["other"], **LEAVING}, True, "nothing", id="one that is deleted already gets none"),
        pytest.param({"finalizers": [IN_USE], **LEAVING}, False, None, id="one that nobody uses is released"),
        pytest.param(
            {"finalizers": [IN_USE, "other"], **LEAVING}, False, ["other"], id="only our finalizer is removed"
        ),
    ],
)
async def test_an_admission_check_stays_while_a_clusterqueue_uses_it(
    metadata: Raw, used: bool, finalizers: object
) -> None:
    caches, patches = Caches(State(), rows([BATCH_JOB])), Patches()
    check = made("AdmissionCheck", "check", {"controllerName": "example.com/check"})
    check["metadata"] |= metadata
    caches.stores[resources.ADMISSION_CHECKS].observe("ADDED", check)
    if used:
        spec = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
        caches.cluster_queues.observe("ADDED", made("ClusterQueue", "user", spec))
    await QueueStatuses(caches, cast(Writer, patches)).reconcile((resources.ADMISSION_CHECKS, Key("", "check")))
    expected = [] if finalizers == "nothing" else [{"uid": "AdmissionCheck-check", "resourceVersion": "1"}]
    assert [{"uid": each["uid"], "resourceVersion": each["resourceVersion"]} for each in patches.sent] == expected
    assert all(each["finalizers"] == finalizers for each in patches.sent)
