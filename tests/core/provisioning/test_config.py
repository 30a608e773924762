"""A ProvisioningRequestConfig as a value, and the condition Active of an AdmissionCheck that refers to one."""

from __future__ import annotations

from typing import Any

import pytest

from api.objects import Raw
from core.provisioning.config import Config, of_check, read
from core.workload.transitions import Backoff

PARAMETERS = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}
CONFIG: Raw = {"spec": {"provisioningClassName": "class"}}


def check(**parameters: Any) -> Raw:
    return {"spec": {"parameters": PARAMETERS | parameters}}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({}, Config("class", retries=3, backoff=Backoff(60, 1800)), id="defaults"),
        pytest.param(
            {"retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 1, "backoffMaxSeconds": 5}},
            Config("class", retries=0, backoff=Backoff(1, 5)),
            id="no retry",
        ),
        pytest.param(
            {"retryStrategy": {"backoffMaxSeconds": 0}},
            Config("class", backoff=Backoff(60, 2**31 - 1)),
            id="0 is no limit of the wait",
        ),
        pytest.param(
            {"retryStrategy": {"backoffBaseSeconds": -5, "backoffMaxSeconds": -1}},
            Config("class", backoff=Backoff(0, 2**31 - 1)),
            id="no wait is negative",
        ),
        pytest.param(
            {
                "parameters": {"a": "b"},
                "managedResources": ["nvidia.com/gpu"],
                "podSetMergePolicy": "IdenticalPodTemplates",
                "podSetUpdates": {"nodeSelector": [{"key": "k", "valueFromProvisioningClassDetail": "d"}]},
            },
            Config("class", {"a": "b"}, frozenset({"nvidia.com/gpu"}), "IdenticalPodTemplates", (("k", "d"),)),
            id="everything else",
        ),
    ],
)
def test_a_config_is_read(spec: Raw, wanted: Config) -> None:
    assert read({"spec": {"provisioningClassName": "class", **spec}}) == wanted


def test_retries_wait_twice_as_long_each_time_up_to_the_longest_wait() -> None:
    backoff = read(CONFIG).backoff
    assert [backoff.seconds(number) for number in range(1, 7)] == [60, 120, 240, 480, 960, 1800]


ABSENT = 'ProvisioningRequestConfig.kueue.x-k8s.io "c" not found'


@pytest.mark.parametrize(
    ("found", "config", "served", "reason", "message"),
    [
        (check(), CONFIG, True, "Active", "The admission check is active"),
        (check(), None, True, "BadParametersRef", ABSENT),
        ({"spec": {}}, CONFIG, True, "BadParametersRef", "missing parameters reference"),
        (check(name=""), CONFIG, True, "BadParametersRef", "empty name: bad parameters reference"),
        (
            check(kind="MultiKueueConfig"),
            CONFIG,
            True,
            "BadParametersRef",
            'wrong kind "MultiKueueConfig", expecting "ProvisioningRequestConfig": bad parameters reference',
        ),
        (
            check(apiGroup="example.com"),
            CONFIG,
            True,
            "BadParametersRef",
            'wrong group "example.com", expecting "kueue.x-k8s.io": bad parameters reference',
        ),
        (
            check(),
            CONFIG,
            False,
            "ProvisioningRequestNotServed",
            "The API server does not serve ProvisioningRequests (autoscaling.x-k8s.io/v1): install the "
            "CustomResourceDefinition that is part of cluster-autoscaler",
        ),
        (check(), None, False, "BadParametersRef", ABSENT),
    ],
)
def test_a_check_is_active_if_its_config_exists_and_requests_are_served(
    found: Raw, config: Raw | None, served: bool, reason: str, message: str
) -> None:
    assert of_check(found, config, served=served) == (reason == "Active", reason, message)


def test_a_check_says_how_provisioning_requests_are_enabled_where_they_are_not() -> None:
    found = of_check(check(), None, served=False, enabled=False)
    assert (found.status, found.reason) == (False, "ProvisioningRequestNotEnabled")
    assert "provisioningRequests.enabled" in found.message
