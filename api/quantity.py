"""Kubernetes quantities as exact integers: `1500m` of cpu is 1500, `1Gi` of memory is 1073741824.

Quota arithmetic uses integers (cpu in thousandths, everything else in whole units); text is parsed and formatted only
at the API. Finer parts are rounded away from zero, as apimachinery's Value and MilliValue do: a request of `0.0001` cpu
holds one thousandth. Unlike in apimachinery nothing saturates: `16Ei` is 2**64.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_NUMBER: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_BINARY: Final = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_LONGEST: Final = 256  # digits of a number, and the largest exponent: bounds the work a hostile value can cause
_CACHED: Final = 16384  # different values; malicious ones have the maximum length, and use some MB
_FORM: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Of a quantity in the schemas of Kubernetes."""
CPU: Final = "cpu"
_MILLI: Final = 3


def amount(resource: str, value: object) -> int:
    """Returns the integer amount of `resource` for `value` (a string, or a bare YAML number).

    cpu in thousandths, everything else in units, rounded away from zero. Raises ValueError with the mistake. Results
    are cached: a repeated value costs one look-up.
    """
    if not isinstance(value, str):
        value = _number_text(value)
    return _scaled(value, _MILLI if resource == CPU else 0)


def exact(value: object) -> Fraction:
    """The exact value, for comparisons without rounding. Raises ValueError like `amount`, and is cached like it."""
    return _fraction(value if isinstance(value, str) else _number_text(value))


def canonical(value: object) -> str:
    """`value` as Kubernetes prints it back: `0.5` is `500m`, `1024Mi` is `1Gi`, `1e3` stays an exponent."""
    return _styled(*_parse(value if isinstance(value, str) else _number_text(value)))


def total(first: object, second: object) -> int | str:
    """The exact sum: of integers an integer, else printed in the style of the first."""
    if type(first) is type(second) is int:
        return first + second
    return _combined(first, second, 1)


def difference(first: object, second: object) -> int | str:
    """The exact difference: of integers an integer, else printed in the style of the first."""
    if type(first) is type(second) is int:
        return first - second
    return _combined(first, second, -1)


def text(resource: str, amount: int) -> str:
    """The canonical text of an integer amount: bytes in a binary suffix where one fits, everything else in decimal.

    As in Kueue's status: 1024 bytes are `1Ki`, 1000000 bytes are `1M`. Of other resources whole Mi are printed so
    where that is shorter: it is memory of devices, for which Kueue does so if it counts by counter or capacity.
    """
    if resource == CPU:
        return _decimal_text(amount, -3)
    if amount and amount % 1024 == 0 and is_bytes(resource):
        return _binary_text(amount)
    decimal = _decimal_text(amount, 0)
    return decimal if not amount or amount % 1024**2 else min(decimal, _binary_text(amount), key=len)


def is_bytes(resource: str) -> bool:
    """Whether amounts of this resource are bytes and so print as Ki, Mi, Gi."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def _combined(first: object, second: object, sign: int) -> str:
    left, low, style = _parse(first if isinstance(first, str) else _number_text(first))
    right, other, _ = _parse(second if isinstance(second, str) else _number_text(second))
    exponent = min(low, other)
    return _styled(left * 10 ** (low - exponent) + sign * right * 10 ** (other - exponent), exponent, style)


def _styled(numerator: int, exponent: int, style: str) -> str:
    if exponent < -9:  # nothing finer than nano is kept, and nothing asked for becomes nothing
        numerator, exponent = _divide(numerator, 10 ** (-9 - exponent)), -9
    if style == "binary" and exponent >= 0 and abs(numerator) >= 1024:
        return _binary_text(numerator * 10**exponent)
    if style == "binary" and exponent < 0 and numerator % 10**-exponent == 0 and abs(numerator) >= 1024 * 10**-exponent:
        return _binary_text(numerator // 10**-exponent)
    return _decimal_text(numerator, exponent, as_exponent=style == "exponent")


def _number_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a quantity is a string or a number, not {type(value).__name__}")  # noqa: TRY004 - one kind of error for whatever a user wrote
    try:
        return repr(value)
    except ValueError:  # an int of more digits than Python converts
        raise ValueError(f"the number has more than {_LONGEST} digits") from None


@lru_cache(maxsize=_CACHED)
def _fraction(value: str) -> Fraction:
    numerator, exponent, _ = _parse(value)
    return Fraction(numerator * 10**exponent) if exponent >= 0 else Fraction(numerator, 10**-exponent)


@lru_cache(maxsize=_CACHED)
def _scaled(value: str, places: int) -> int:
    numerator, exponent, _ = _parse(value)
    exponent += places
    return numerator * 10**exponent if exponent >= 0 else _divide(numerator, 10**-exponent)


def _parse(value: str) -> tuple[int, int, str]:
    """`value` as numerator x 10**exponent, and how it was written: decimal, exponent or binary."""
    found = _NUMBER.fullmatch(value)
    if found is None or not (found[2] or found[3]):
        raise ValueError(_FORM)
    sign, whole, fraction, suffix = found[1], found[2] or "", found[3] or "", found[4] or ""
    if len(whole) + len(fraction) > _LONGEST:
        raise ValueError(f"the number has more than {_LONGEST} digits")
    numerator = int(sign + whole + fraction)
    exponent = -len(fraction)
    if suffix in _BINARY:
        return numerator * _BINARY[suffix], exponent, "binary"
    if suffix in _DECIMAL:
        return numerator, exponent + _DECIMAL[suffix], "decimal"
    if len(suffix) > 6 or abs(power := int(suffix[1:])) > _LONGEST:
        raise ValueError(f"the exponent is beyond {_LONGEST}")
    return numerator, exponent + (power if suffix[1] != "-" else -abs(power)), "exponent"


def _divide(numerator: int, denominator: int) -> int:
    """The quotient, rounded away from zero."""
    quotient = -(-abs(numerator) // denominator)
    return quotient if numerator >= 0 else -quotient


def _binary_text(units: int) -> str:
    suffix = ""
    for larger in _BINARY:
        if units % 1024:
            break
        units, suffix = units // 1024, larger
    return f"{units}{suffix}"


def _decimal_text(numerator: int, exponent: int, *, as_exponent: bool = False) -> str:
    if numerator == 0:
        return "0"
    if lower := exponent % 3:
        numerator, exponent = numerator * 10**lower, exponent - lower
    while numerator % 1000 == 0:
        numerator, exponent = numerator // 1000, exponent + 3
    if as_exponent or exponent not in _DECIMAL_SUFFIXES:
        return f"{numerator}e{exponent}" if exponent else str(numerator)
    return f"{numerator}{_DECIMAL_SUFFIXES[exponent]}"
