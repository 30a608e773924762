"""The annotation of how workloads are spread: what is refused, with Kueue's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api import validate
from api.objects import Raw
from api.topology_spreading import ONE, SpreadingRule, errors, parsed
from core.jobs.admission.topology import Annotated, groups
from core.jobs.admission.topology import errors as of_template
from tests.api.objects import changed, workload

GATE = "TASTopologySpreading"
KEY = "kueue.x-k8s.io/podset-topology-spreading"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
GROUP = "kueue.x-k8s.io/podset-group-name"
ZONE = {"topologyKey": "zone", "maxShareAllowingPlacement": "0.5"}
APP = {"key": "app", "operator": "In", "values": ["web"]}


def annotation(*rules: Any, **fields: Any) -> str:
    return json.dumps({"rules": list(rules), **fields})


def test_an_annotation_is_read() -> None:
    text = annotation(
        ZONE | {"enforcementMode": "Preferred"}, {"topologyKey": "rack", "maxShareAllowingPlacement": 0.25}
    )
    found = parsed(text)
    assert [rule[:3] for rule in found.rules] == [("zone", ONE // 2, "Preferred"), ("rack", ONE // 4, "Required")]
    assert errors("a", text) == []
    assert parsed(annotation(ZONE, workloadLabelSelectors=[APP])).selectors == (APP,)


def test_a_share_is_rounded_up_to_billionths() -> None:
    assert parsed(annotation(ZONE | {"maxShareAllowingPlacement": "0.3333333333"})).rules == (
        SpreadingRule("zone", 333333334, "Required", "333333334n"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[]", 'a: Invalid value: "[]": must be a valid JSON object: an object was expected', id="a list"),
        pytest.param(
            annotation(),
            'a: Invalid value: "{\\"rules\\": []}": topology spreading rules must contain between 1 and 2 entries'
            ": got 0",
            id="no rule",
        ),
        pytest.param(
            annotation(ZONE | {"maxShareAllowingPlacement": "1"}),
            'a.rules[0].maxShareAllowingPlacement: Invalid value: "1": must be greater than 0 and less than 1',
            id="all of them",
        ),
        pytest.param(
            annotation({"topologyKey": "zone"}),
            'a.rules[0].maxShareAllowingPlacement: Invalid value: "0": must be greater than 0 and less than 1',
            id="no share",
        ),
        pytest.param(
            annotation(ZONE | {"enforcementMode": "Maybe"}),
            'a.rules[0].enforcementMode: Unsupported value: "Maybe": supported values: "Required", "Preferred"',
            id="another mode",
        ),
        pytest.param(
            annotation(ZONE, ZONE),
            'a.rules[1].topologyKey: Duplicate value: "zone (also at index 0)"',
            id="twice the same level",
        ),
        pytest.param(
            annotation(ZONE, workloadLabelSelectors=[APP, APP]),
            "a.workloadLabelSelectors: Too many: 2: must have at most 1 item",
            id="two requirements",
        ),
        pytest.param(
            annotation(ZONE, workloadLabelSelectors=[APP | {"operator": "NotIn"}]),
            'a.workloadLabelSelectors[0].operator: Unsupported value: "NotIn": supported values: "In"',
            id="another operator",
        ),
        pytest.param(
            annotation(ZONE, workloadLabelSelectors=[APP | {"values": []}]),
            'a.workloadLabelSelectors[0].values: Required value: must contain at least one value for the "In" operator',
            id="no value",
        ),
    ],
)
def test_what_is_wrong_is_refused(text: str, expected: str) -> None:
    assert [str(error) for error in errors("a", text)] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"rules": {}}',
        '{"rules": [1]}',
        annotation(ZONE | {"topologyKey": 1}),
        annotation(ZONE | {"maxShareAllowingPlacement": True}),
        annotation(ZONE | {"maxShareAllowingPlacement": "x"}),
        annotation(ZONE, workloadLabelSelectors=["a"]),
        " " * 20_000,
    ],
)
def test_what_has_another_form_is_refused(text: str) -> None:
    [found] = errors("a", text)
    assert found.field == "a"
    assert found.detail.startswith("must be a valid JSON object: ")


def of_job(annotations: dict[str, str], *, gate: bool = True) -> list[str]:
    found = of_template(Annotated("m", annotations, 2), elastic=False, enabled=lambda name: name != GATE or gate)
    return [str(error) for error in found]


def test_a_job_is_spread_together_with_a_required_topology() -> None:
    assert of_job({KEY: annotation(ZONE)}) == [
        f"m.annotations[{KEY}]: Forbidden: may only be set together with '{REQUIRED}'"
    ]
    assert of_job({KEY: annotation(ZONE), REQUIRED: "rack"}) == []
    assert len(of_job({KEY: "x", REQUIRED: "rack"})) == 1
    assert of_job({KEY: "x"}, gate=False) == [], "manifests may be prepared before the gate is on"


def test_the_pod_sets_of_a_group_are_spread_alike() -> None:
    def found(*texts: str | None) -> list[str]:
        members = [
            Annotated(f"m{index}", {GROUP: "g", REQUIRED: "rack"} | ({KEY: text} if text is not None else {}), 1)
            for index, text in enumerate(texts)
        ]
        return [error.field for error in groups(members, lambda name: True)]

    spaced = json.dumps(json.loads(annotation(ZONE)), indent=1)
    assert found(annotation(ZONE), spaced) == []
    assert found(None, None) == []
    assert found(annotation(ZONE), None) == [f"m1.annotations[{KEY}]"]
    assert found(annotation(ZONE), annotation(ZONE | {"maxShareAllowingPlacement": "0.6"})) == [
        f"m1.annotations[{KEY}]"
    ]


def spread(text: str, **topology: str) -> Raw:
    found = changed(workload(), "spec.podSets[0].template.metadata", {"annotations": {KEY: text}})
    return changed(found, "spec.podSets[0].topologyRequest", topology) if topology else found


def test_a_workload_is_judged_where_it_has_changed() -> None:
    at = f"spec.podSets[0].template.metadata.annotations[{KEY}]"
    on = {GATE: True}
    [error] = validate.create(spread("x", required="rack"), on)
    assert error.field == at
    [error] = validate.create(spread(annotation(ZONE)), on)
    assert str(error) == f"{at}: Forbidden: may only be set together with spec.podSets[0].topologyRequest.required"
    assert validate.create(spread(annotation(ZONE), required="rack"), on) == []
    assert validate.create(spread("x", required="rack"), {}) == [], "the gate is off, as Kueue ships it"
    stored = spread("x", required="rack")
    assert validate.update(stored, changed(stored, "spec.priority", 5), on) == []
    assert [error.field for error in validate.update(workload(), stored, on)] == [at]
