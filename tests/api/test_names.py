"""Names are unique where they are keys, and have the form Kubernetes accepts."""

import re

import pytest

from api import names

KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


def members(namespace: type) -> dict[str, str]:
    return {key: value for key, value in vars(namespace).items() if key.isupper()}


@pytest.mark.parametrize("namespace", [names.Label, names.Annotation, names.SchedulingGate, names.Finalizer])
def test_keys_are_qualified_names_under_a_kueue_prefix(namespace: type) -> None:
    for key in members(namespace).values():
        assert KEY.fullmatch(key.removesuffix("/")), key
        assert "kueue.x-k8s.io" in key


@pytest.mark.parametrize(
    "namespace",
    [value for value in vars(names).values() if isinstance(value, type)],
    ids=lambda namespace: namespace.__name__,
)
def test_no_two_names_of_one_namespace_are_the_same(namespace: type) -> None:
    values = list(members(namespace).values())
    assert len(values) == len(set(values))


@pytest.mark.parametrize(
    "namespace", [names.Condition, names.PendingReason, names.EvictedReason, names.Event, names.ClusterQueueReason]
)
def test_reasons_have_the_form_a_condition_accepts(namespace: type) -> None:
    for reason in members(namespace).values():
        assert re.fullmatch(r"[A-Z][A-Za-z]*", reason)
