"""JSON without what is nested too deep: for the client and the program, with the standard library alone.

The API server takes documents of ten thousand levels, and everybody who may write an object can make one: the fields
of ``metadata.managedFields`` are kept as they were sent. A decoder that refuses such an object would refuse the list
in which it is, with all others.
"""

from __future__ import annotations

import re
from typing import Final

DEEPEST: Final = 100
"""So many levels are read of a document that the decoder cannot read: objects of Kubernetes have under thirty."""
_TOKEN: Final = re.compile(rb'[^][{}"]*+(?:"(?:[^"\\]++|\\.)*+"[^][{}"]*+)*+([][{}]?)', re.DOTALL)
"""Text and strings without brackets, and the bracket after them."""


def without_depths(text: bytes) -> bytes:
    """The same document with null for each value below the deepest level."""
    kept, start, depth = [], 0, 0
    for found in _TOKEN.finditer(text):
        bracket = found[1]
        if bracket in (b"{", b"["):
            depth += 1
            if depth == DEEPEST + 1:
                kept.append(text[start : found.start(1)])
                start = len(text)
        elif bracket:
            if depth == DEEPEST + 1:
                kept.append(b"null")
                start = found.end(1)
            depth -= 1
    return b"".join((*kept, text[start:]))
