"""What kubectl prints on stderr of an answer of the API server, composed here: a process of kubectl costs 0.2 s of CPU.

One case of each form is compared with what the real kubectl prints, where these functions are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from api.objects import Raw

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def refusal(answer: Raw, doing: str) -> str:
    """The error of a Status that refuses a write of an object from stdin. ``doing`` is `creating` or `replacing`."""
    if answer["reason"] != "Invalid":
        return f'Error from server ({answer["reason"]}): error when {doing} "STDIN": {answer["message"]}'
    about = answer["details"]
    causes = dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in about["causes"])
    errors = next(iter(causes)) if len(causes) == 1 else "".join(f"\n* {cause}" for cause in causes)
    return f'The {about["kind"]} "{about["name"]}" is invalid: {errors}'


def warnings(headers: Iterable[str]) -> list[str]:
    """The lines for the headers `Warning` of the answers to one command: each text once."""
    texts = (each for header in headers for each in _WARNING.findall(header.encode("latin-1").decode()))
    return [f"Warning: {each}" for each in dict.fromkeys(re.sub(r"\\(.)", r"\1", text) for text in texts)]
