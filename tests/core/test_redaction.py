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


def test_headers_of_probes_attributes_of_volumes_and_texts_for_lists_are_removed() -> None:
    probe = {"httpGet": {"path": "/", "httpHeaders": [{"name": "Authorization", "value": "hunter2"}]}}
    spec = {
        "containers": [{"livenessProbe": probe, "lifecycle": {"preStop": probe}}],
        "volumes": [
            {"csi": {"driver": "d", "volumeAttributes": {"password": "hunter2"}}},
            {"flexVolume": {"driver": "d", "options": {"password": "hunter2"}}},
        ],
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
        "command": "run --password=hunter2",
        "args": "hunter2",
        "data": None,
    }
    found = redacted({"spec": spec})["spec"]
    assert "hunter2" not in json.dumps(found)
    (header,) = found["containers"][0]["livenessProbe"]["httpGet"]["httpHeaders"]
    assert header == {"name": "Authorization", "value": REDACTED}
    assert found["volumes"][0]["csi"] == {"driver": "d", "volumeAttributes": {"password": REDACTED}}
    assert (found["command"], found["args"], found["data"]) == (REDACTED, REDACTED, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["env", "args", "data", "httpHeaders"]), inner)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_it_takes_any_object_and_is_idempotent(raw: Raw) -> None:
    assert redacted(redacted(raw)) == redacted(raw)
