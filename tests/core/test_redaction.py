"""What a report about a cluster does not contain."""

import json

from hypothesis import given
from hypothesis import strategies as st

from api.objects import Raw
from core.diagnosis.redaction import REDACTED, redacted


def test_values_go_and_names_stay() -> None:
    container = {
        "name": "main",
        "image": "x",
        "command": ["run", "--password=hunter2"],
        "args": ["hunter2"],
        "env": [
            {"name": "TOKEN", "value": "hunter2"},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    }
    raw: Raw = {
        "kind": "Workload",
        "metadata": {
            "name": "a",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "team": "b"},
        },
        "spec": {"podSets": [{"template": {"spec": {"containers": [container]}}}]},
    }
    found = redacted(raw)
    assert "hunter2" not in json.dumps(found)
    assert found["metadata"] == {"name": "a", "annotations": {"team": "b"}}
    (shown,) = found["spec"]["podSets"][0]["template"]["spec"]["containers"]
    assert shown == {
        "name": "main",
        "image": "x",
        "command": [REDACTED, REDACTED],
        "args": [REDACTED],
        "env": [{"name": "TOKEN", "value": REDACTED}, container["env"][1]],
    }
    assert raw["metadata"]["managedFields"], "the object itself is not changed"


def test_secrets_and_config_maps_keep_their_keys() -> None:
    assert redacted({"kind": "Secret", "data": {"a": "b"}, "stringData": {"c": "d"}}) == {
        "kind": "Secret",
        "data": {"a": REDACTED},
        "stringData": {"c": REDACTED},
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["env", "args", "data"]), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_it_takes_any_object_and_is_idempotent(raw: Raw) -> None:
    assert redacted(redacted(raw)) == redacted(raw)
