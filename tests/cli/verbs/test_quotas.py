"""The options of `create` become the spec that kueuectl would make; kueuectl's documentation has these examples."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cli.target import UsageError
from cli.verbs.quotas import pairs, resource_groups, taints, tolerations


def quota(name: str, nominal: str, **limits: str) -> dict[str, str]:
    return {"name": name, "nominalQuota": nominal, **limits}


def test_one_flavor() -> None:
    assert resource_groups(["alpha:cpu=9;memory=36Gi"], [], []) == [
        {
            "coveredResources": ["cpu", "memory"],
            "flavors": [{"name": "alpha", "resources": [quota("cpu", "9"), quota("memory", "36Gi")]}],
        }
    ]


def test_two_flavors_of_the_same_resources_are_in_one_group_with_their_limits() -> None:
    both = "alpha:cpu=9;nvidia.com/gpu=10,beta:nvidia.com/gpu=20;cpu=18"
    limits = ["alpha:cpu=1;nvidia.com/gpu=1,beta:cpu=2;nvidia.com/gpu=2"]
    (group,) = resource_groups([both], limits, limits)
    assert group["coveredResources"] == ["cpu", "nvidia.com/gpu"]
    assert group["flavors"] == [
        {
            "name": "alpha",
            "resources": [
                quota("cpu", "9", borrowingLimit="1", lendingLimit="1"),
                quota("nvidia.com/gpu", "10", borrowingLimit="1", lendingLimit="1"),
            ],
        },
        {
            "name": "beta",
            "resources": [
                quota("cpu", "18", borrowingLimit="2", lendingLimit="2"),
                quota("nvidia.com/gpu", "20", borrowingLimit="2", lendingLimit="2"),
            ],
        },
    ]


def test_flavors_of_other_resources_are_in_another_group() -> None:
    groups = resource_groups(["alpha:cpu=9", "gpus:nvidia.com/gpu=10"], [], [])
    assert [each["coveredResources"] for each in groups] == [["cpu"], ["nvidia.com/gpu"]]


def test_a_limit_without_quota_has_quota_zero() -> None:
    (group,) = resource_groups([], ["alpha:cpu=1"], [])
    assert group["flavors"][0]["resources"] == [quota("cpu", "0", borrowingLimit="1")]


@pytest.mark.parametrize(
    ("nominal", "borrowing", "said"),
    [
        (["alpha"], [], "FLAVOR:RESOURCE=QUANTITY"),
        (["alpha:cpu"], [], "FLAVOR:RESOURCE=QUANTITY"),
        (["Alpha:cpu=1"], [], "FLAVOR:RESOURCE=QUANTITY"),
        (["alpha:cpu=1;cpu=2"], [], "cpu is given twice"),
        (["alpha:cpu=1"], ["alpha:memory=1"], "the same resources"),
        (["alpha:cpu=1;memory=1,beta:cpu=1"], [], "already in a group"),
    ],
)
def test_a_quota_that_cannot_be_read_is_named(nominal: list[str], borrowing: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resource_groups(nominal, borrowing, [])


def test_labels_taints_and_tolerations() -> None:
    assert pairs("node-labels", ["a/b=c,d=", "e=f"]) == {"a/b": "c", "d": "", "e": "f"}
    assert taints(["key1=value:NoSchedule,key2:NoExecute"]) == [
        {"key": "key1", "value": "value", "effect": "NoSchedule"},
        {"key": "key2", "effect": "NoExecute"},
    ]
    assert tolerations(["key1=value:NoSchedule,key2:NoExecute,key3=value,key4,:PreferNoSchedule"]) == [
        {"key": "key1", "operator": "Equal", "value": "value", "effect": "NoSchedule"},
        {"key": "key2", "operator": "Exists", "effect": "NoExecute"},
        {"key": "key3", "operator": "Equal", "value": "value"},
        {"key": "key4", "operator": "Exists"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
    ]


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (taints, "key", "KEY"),
        (taints, ":NoSchedule", "KEY"),
        (taints, "a:Never", "invalid taint effect: Never"),
        (taints, "a:NoSchedule,a=b:NoSchedule", "duplicated taints"),
        (tolerations, "=value", "KEY"),
        (tolerations, "a:b:c", "KEY"),
        (tolerations, ":Never", "invalid taint effect"),
    ],
)
def test_a_taint_that_cannot_be_read_is_named(read: Callable[[list[str]], object], text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read([text])
