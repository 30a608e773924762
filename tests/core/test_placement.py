"""Pods go where labels, affinity and taints let them, and the reason names what is in the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.matching.placement import Mismatch, holds, matches, mismatch, tolerates
from core.model import Placement, Requirement, ResourceFlavor, Selector, Taint, Toleration

LABELS = {"gen": "3", "zone": "a"}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        pytest.param(Requirement("zone", "In", ("a", "b")), True, id="in one of the zones"),
        pytest.param(Requirement("zone", "In", ("b",)), False, id="in another zone"),
        pytest.param(Requirement("rack", "In", ("a",)), False, id="In needs the label to be there"),
        pytest.param(Requirement("zone", "NotIn", ("a",)), False, id="not in the excluded zone"),
        pytest.param(Requirement("rack", "NotIn", ("a",)), True, id="NotIn holds without the label"),
        pytest.param(Requirement("zone", "Exists"), True, id="the label exists"),
        pytest.param(Requirement("rack", "Exists"), False, id="the label does not exist"),
        pytest.param(Requirement("rack", "DoesNotExist"), True, id="absent as asked"),
        pytest.param(Requirement("gen", "Gt", ("2",)), True, id="newer than generation 2"),
        pytest.param(Requirement("gen", "Gt", ("3",)), False, id="Gt is strict"),
        pytest.param(Requirement("gen", "Lt", ("10",)), True, id="Lt compares numbers, not texts"),
        pytest.param(Requirement("zone", "Gt", ("1",)), False, id="a label that is no number is not greater"),
        pytest.param(Requirement("gen", "Near", ("3",)), False, id="an unknown operator holds for nothing"),
    ],
)
def test_a_requirement(requirement: Requirement, expected: bool) -> None:
    assert holds(requirement, LABELS) is expected


def test_an_empty_selector_selects_everything_and_several_terms_must_all_hold() -> None:
    assert matches(Selector(), {})
    both = Selector((Requirement("zone", "In", ("a",)), Requirement("rack", "Exists")))
    assert not matches(both, LABELS)


SPOT = Taint("spot", "true", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(Toleration("spot", value="true", effect="NoSchedule"), True, id="exactly this taint"),
        pytest.param(Toleration("spot", value="true"), True, id="any effect"),
        pytest.param(Toleration("spot", operator="", value="true"), True, id="no operator is Equal"),
        pytest.param(Toleration("spot", operator="Exists"), True, id="whatever its value"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration("spot", value="false"), False, id="another value"),
        pytest.param(Toleration("spot", value="true", effect="NoExecute"), False, id="another effect"),
        pytest.param(Toleration("gpu", operator="Exists"), False, id="another key"),
    ],
)
def test_a_toleration(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, SPOT) is expected


def test_tolerations_compare_numbers_with_gt_and_lt() -> None:
    taint = Taint("sla", "950", "NoSchedule")
    assert tolerates(Toleration("sla", "Gt", "900"), taint)
    assert not tolerates(Toleration("sla", "Lt", "900"), taint)
    assert not tolerates(Toleration("sla", "Gt", "many"), taint)


ARM = ResourceFlavor("arm", {"arch": "arm64", "gen": "3"})


def affinity(*terms: tuple[Requirement, ...]) -> Placement:
    return Placement(affinity=terms)


@pytest.mark.parametrize(
    ("placement", "reason"),
    [
        pytest.param(Placement(), None, id="no wish at all"),
        pytest.param(Placement({"arch": "arm64"}), None, id="the selector agrees"),
        pytest.param(
            Placement({"arch": "amd64"}), "flavor arm doesn't match node affinity", id="the selector wants other nodes"
        ),
        pytest.param(Placement({"zone": "b"}), None, id="a key the flavor does not define is not looked at"),
        pytest.param(
            affinity((Requirement("arch", "In", ("amd64",)),)),
            "flavor arm doesn't match node affinity",
            id="the affinity wants other nodes",
        ),
        pytest.param(
            affinity((Requirement("arch", "In", ("amd64",)),), (Requirement("gen", "Gt", ("2",)),)),
            None,
            id="one of two terms is enough",
        ),
        pytest.param(
            affinity((Requirement("arch", "In", ("amd64",)),), (Requirement("zone", "In", ("a",)),)),
            None,
            id="a term about other keys alone allows every flavor",
        ),
        pytest.param(
            affinity((Requirement("arch", "In", ("amd64",)), Requirement("zone", "In", ("a",)))),
            "flavor arm doesn't match node affinity",
            id="within a term the known keys still count",
        ),
        pytest.param(
            Placement({"arch": "amd64"}, ((Requirement("zone", "Exists"),),)),
            "flavor arm doesn't match node affinity",
            id="a free affinity does not undo the selector",
        ),
        pytest.param(affinity(), None, id="an affinity without terms restricts nothing"),
    ],
)
def test_node_selector_and_affinity_against_a_flavor(placement: Placement, reason: str | None) -> None:
    found = mismatch(placement, ARM)
    assert (found and found.text) == reason


GEN = "nodeSelectorTerms[0].matchExpressions[0]"
LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    ("requirement", "mistake"),
    [
        pytest.param(
            Requirement("gen", "Gt", ("many",)),
            f'{GEN}.values[0]: Invalid value: "many": {NO_INTEGER}',
            id="a bound that is no number",
        ),
        pytest.param(
            Requirement("gen", "Gt", ("9" * 20,)),
            f'{GEN}.values[0]: Invalid value: "{"9" * 20}": {NO_INTEGER}',
            id="a bound of more than 64 bits",
        ),
        pytest.param(
            Requirement("gen", "Lt", ("-1",)),
            f'{GEN}.values[0][gen]: Invalid value: "-1": {LABEL}',
            id="a bound that no label could have",
        ),
        pytest.param(
            Requirement("gen", "NotIn", ("3 or so",)),
            f'{GEN}.values[0][gen]: Invalid value: "3 or so": {LABEL}',
            id="a value that no label could have, though it is only to be avoided",
        ),
        pytest.param(
            Requirement("gen", "NotIn"),
            f"{GEN}.values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="nothing to avoid",
        ),
        pytest.param(
            Requirement("gen", "Exists", ("3",)),
            f'{GEN}.values: Invalid value: ["3"]: values set must be empty for exists and does not exist',
            id="a value where none is expected",
        ),
    ],
)
def test_a_malformed_affinity_is_reported_as_an_error_of_the_pod(requirement: Requirement, mistake: str) -> None:
    assert mismatch(affinity((requirement,)), ARM) == Mismatch(mistake, malformed=True)


def test_a_malformed_affinity_term_does_no_harm_beside_one_that_matches() -> None:
    malformed, good = Requirement("gen", "Gt", ("many",)), Requirement("arch", "Exists")
    assert mismatch(affinity((malformed,), (good,)), ARM) is None
    assert mismatch(affinity((malformed, good)), ARM) is not None


def test_several_errors_are_reported_once_each() -> None:
    one, other = Requirement("gen", "Gt", ("many",)), Requirement("gen", "Lt", ("few",))
    found = mismatch(affinity((one, other)), ARM)
    second = GEN.replace("Expressions[0]", "Expressions[1]")
    texts = [f'{GEN}.values[0]: Invalid value: "many"', f'{second}.values[0]: Invalid value: "few"']
    assert found == Mismatch(f"[{', '.join(f'{text}: {NO_INTEGER}' for text in texts)}]", malformed=True)


def test_the_first_untolerated_taint_is_named_as_kueue_names_it() -> None:
    soft = Taint("busy", "", "PreferNoSchedule")
    flavor = ResourceFlavor("f0", node_taints=(soft, SPOT, Taint("gpu", "", "NoExecute")))
    assert mismatch(Placement(), flavor) == Mismatch("untolerated taint {spot true NoSchedule <nil>} in flavor f0")
    spot = Placement(tolerations=(Toleration("spot", "Exists"),))
    assert mismatch(spot, flavor) == Mismatch("untolerated taint {gpu  NoExecute <nil>} in flavor f0")


def test_the_flavors_own_tolerations_count() -> None:
    flavor = ResourceFlavor("f0", node_taints=(SPOT,), tolerations=(Toleration("spot", "Exists"),))
    assert mismatch(Placement(), flavor) is None


labels = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "x"]))


@given(labels, st.sampled_from(["a", "b"]), st.lists(st.sampled_from(["1", "2", "x"]), min_size=1))
def test_not_in_is_the_opposite_of_in(found: dict[str, str], key: str, values: list[str]) -> None:
    inside = holds(Requirement(key, "In", tuple(values)), found)
    assert inside != holds(Requirement(key, "NotIn", tuple(values)), found)


@given(labels)
def test_a_flavor_takes_pods_that_select_exactly_its_labels(found: dict[str, str]) -> None:
    assert mismatch(Placement(found), ResourceFlavor("f", found)) is None


def test_a_number_of_thousands_of_digits_is_no_integer() -> None:
    flavor = ResourceFlavor("f", node_labels={"gen": "1"})
    found = mismatch(affinity((Requirement("gen", "Gt", ("9" * 5000,)),)), flavor)
    assert found is not None
    assert found.malformed
