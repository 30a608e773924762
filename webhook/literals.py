"""Numbers and truth values in labels and annotations, read as Go's strconv reads them, complaints included."""

from __future__ import annotations

import re
from typing import Final

from api.errors import quote

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_LARGEST: Final = 2**63 - 1


def integer(text: str) -> int:
    """A 64-bit decimal integer. Raises ValueError with Go's text."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    # Longer than any 64-bit number, zeros aside: refused before int() is asked to read a megabyte of digits.
    if len(text.lstrip("+-0")) > 19 or not -_LARGEST - 1 <= int(text) <= _LARGEST:
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)


def boolean(text: str) -> bool:
    """A truth value. Raises ValueError with Go's text."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")
