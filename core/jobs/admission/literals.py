"""Numbers and booleans in labels and annotations, parsed as Go's strconv does; the errors name the correct form."""

from __future__ import annotations

import re
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_LARGEST: Final = 2**63 - 1


def integer(text: str) -> int:
    """Parses a 64-bit decimal integer. Raises ValueError with the correct form."""
    if not _INTEGER.fullmatch(text):
        raise ValueError('must be a whole number in digits, such as "3"')
    # Longer than any 64-bit number, zeros aside: refused before int() is asked to read a megabyte of digits.
    if len(text.lstrip("+-0")) > 19 or not -_LARGEST - 1 <= int(text) <= _LARGEST:
        raise ValueError(f"must be a whole number of at most {_LARGEST}")
    return int(text)


def boolean(text: str) -> bool:
    """Parses a boolean. Raises ValueError with the correct form."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError('must be "true" or "false"')
