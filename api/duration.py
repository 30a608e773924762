"""Durations as Go writes them: `30m`, `1h30m`, `1.5h`, `300ms`."""

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS: Final = re.compile(_PART)
_WHOLE: Final = re.compile(rf"[+-]?({_PART})+")
_LARGEST: Final = 1 << 63  # nanoseconds: the range of Go's Duration


def parse(text: str) -> timedelta:
    """Returns the duration, to the microsecond. Raises ValueError with the mistake and the correct form."""
    if text in ("0", "+0", "-0"):
        return timedelta()
    if len(text) > 100 or not _WHOLE.fullmatch(text):
        raise ValueError('must be a duration such as "30s", "5m" or "1h30m"')
    nanoseconds = sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in _PARTS.findall(text))
    if nanoseconds >= _LARGEST:
        raise ValueError("is longer than 292 years")
    return timedelta(microseconds=float(nanoseconds / 1000) * (-1 if text[0] == "-" else 1))


def text(duration: timedelta) -> str:
    """The duration as Go prints it: `1h30m0s`, `1.5s`, `300ms`."""
    microseconds = duration // timedelta(microseconds=1)
    sign, microseconds = ("-" if microseconds < 0 else ""), abs(microseconds)
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:
        return f"{sign}{microseconds}µs"
    if microseconds < 1_000_000:
        return f"{sign}{_decimal(microseconds, 3)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    larger = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{larger}{_decimal(rest, 6)}s"


def _decimal(value: int, places: int) -> str:
    whole, fraction = divmod(value, 10**places)
    digits = f"{fraction:0{places}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
