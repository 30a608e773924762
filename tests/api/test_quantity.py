"""Quantities are exact, round up, and print as Kubernetes prints them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import quantity


@pytest.mark.parametrize(
    ("resource", "value", "amount"),
    [
        ("cpu", "1", 1000),
        ("cpu", "1500m", 1500),
        ("cpu", "0.5", 500),
        ("cpu", ".5", 500),
        ("cpu", "1.", 1000),
        ("cpu", "+2", 2000),
        ("cpu", "-1", -1000),
        ("cpu", "0.0001", 1),
        ("cpu", "1n", 1),
        ("cpu", "100u", 1),
        ("cpu", "2k", 2_000_000),
        ("cpu", 3, 3000),
        ("cpu", 0.1, 100),
        ("memory", "1Gi", 1 << 30),
        ("memory", "1.5Gi", 3 << 29),
        ("memory", "1500m", 2),
        ("memory", "0.1Ki", 103),
        ("memory", "128974848", 128974848),
        ("memory", "129e6", 129_000_000),
        ("memory", "129E6", 129_000_000),
        ("memory", "129M", 129_000_000),
        ("memory", "1E", 10**18),
        ("memory", "1e-3", 1),
        ("memory", "16Ei", 1 << 64),
        ("memory", "1e-200", 1),
        ("nvidia.com/gpu", "1e2", 100),
        ("pods", "0", 0),
        ("pods", "-0", 0),
    ],
)
def test_a_value_is_read_exactly_and_rounded_up(resource: str, value: object, amount: int) -> None:
    assert quantity.amount(resource, value) == amount


@pytest.mark.parametrize(
    "value",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "a",
        "1ki",
        "1kk",
        "1K",
        "1Mii",
        "1.2.3",
        "1e",
        "1e1.5",
        "e3",
        "--1",
        "+",
        "-",
        ".",
        "1mi",
        "٣",
    ],
)
def test_a_wrong_quantity_gets_an_error_with_the_right_form(value: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        quantity.amount("cpu", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "a quantity is a string or a number, not bool"),
        (None, "a quantity is a string or a number, not NoneType"),
        ([], "a quantity is a string or a number, not list"),
        (float("nan"), "quantities must match"),
        (float("inf"), "quantities must match"),
        ("1e999999999", "the exponent is beyond 256"),
        ("1e257", "the exponent is beyond 256"),
        ("9" * 257, "the number has more than 256 digits"),
        pytest.param(10**5000, "the number has more than 256 digits", id="an integer Python will not print"),
    ],
)
def test_a_value_that_is_no_quantity_or_beyond_reason_is_refused_at_once(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantity.amount("cpu", value)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 1_000_000, "1k"),
        ("cpu", 0, "0"),
        ("cpu", -500, "-500m"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 3 << 29, "1536Mi"),
        ("memory", 1023, "1023"),
        ("memory", 1000, "1k"),
        ("memory", 1025, "1025"),
        ("memory", 1_000_000, "1M"),
        ("memory", 1 << 70, "1024Ei"),
        ("hugepages-2Mi", 1 << 21, "2Mi"),
        ("ephemeral-storage", 1 << 10, "1Ki"),
        ("nvidia.com/gpu", 8, "8"),
        ("nvidia.com/gpu", 1000, "1k"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 10**21, "1e21"),
        ("gpu.memory", 9728 << 20, "9728Mi"),
        ("gpu.memory", 500 << 20, "500Mi"),
        ("gpu.memory", 10**9, "1G"),
    ],
)
def test_an_amount_prints_in_canonical_form(resource: str, amount: int, text: str) -> None:
    assert quantity.text(resource, amount) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000m", "1"),
        ("1e3", "1e3"),
        ("1000e0", "1e3"),
        ("12e6", "12e6"),
        ("1000", "1k"),
        ("1.2345", "1234500u"),
        ("0.9n", "1n"),
        ("0Mi", "0"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("-1024Mi", "-1Gi"),
        ("1000E", "1e21"),
        (7, "7"),
    ],
)
def test_a_written_quantity_reads_back_as_kubernetes_prints_it(value: object, text: str) -> None:
    assert quantity.canonical(value) == text


@pytest.mark.parametrize(
    ("first", "second", "total", "difference"),
    [
        ("20", "10", "30", "10"),
        ("3", "500m", "3500m", "2500m"),
        ("2Gi", "1024Mi", "3Gi", "1Gi"),
        ("1Gi", "1", "1073741825", "1073741823"),
        ("1e3", 1, "1001", "999"),
        (1, 2, 3, -1),
    ],
)
def test_sums_and_differences_are_exact_and_keep_the_style(
    first: object, second: object, total: int | str, difference: int | str
) -> None:
    assert quantity.total(first, second) == total
    assert quantity.difference(first, second) == difference


RESOURCES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "pods", "example.com/gpu"])


@given(RESOURCES, st.integers(min_value=-(10**40), max_value=10**40))
def test_what_is_printed_reads_back_as_the_same_amount(resource: str, amount: int) -> None:
    assert quantity.amount(resource, quantity.text(resource, amount)) == amount


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**30),
    st.one_of(st.none(), st.text("0123456789", max_size=12)),
    st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e5", "E-3", "e+2"]),
)
def test_an_amount_is_the_exact_value_rounded_away_from_zero_by_less_than_one(
    sign: str, whole: int, fraction: str | None, suffix: str
) -> None:
    value = f"{sign}{whole}{'' if fraction is None else '.' + fraction}{suffix}"
    precise = quantity.exact(value) * 1000
    rounded = quantity.amount("cpu", value)
    assert abs(precise) <= abs(rounded) < abs(precise) + 1
    assert quantity.exact(quantity.canonical(value)) == precise / 1000 or (precise * 10**6).denominator != 1


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(value: str) -> None:
    try:
        found = quantity.exact(value)
    except ValueError:
        return
    assert isinstance(found, Fraction)
