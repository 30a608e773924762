"""Every rule of validation, as a table: an object that breaks this rule alone, and the sentence kubectl prints.

The rules are those of Kueue's webhooks and CRDs (0.19.2 and 0.20-dev), in its words. What the API server says by schema
or CEL comes first and hides what our webhook would say.
"""

from __future__ import annotations

from typing import NamedTuple

from api.objects import Raw


class Rule(NamedTuple):
    """One rule broken. `by` is the webhook that says so, '' where it is the API server itself, by schema or CEL.

    `old` is what is stored where the rule is about a change; `status` says that the change is one of the status.
    """

    new: Raw
    said: str
    by: str = ""
    old: Raw | None = None
    status: bool = False


def schema(new: Raw, said: str) -> Rule:
    """The API server refuses a new object."""
    return Rule(new, said)


def hook(new: Raw, said: str) -> Rule:
    """Our webhook refuses a new object."""
    return Rule(new, said, hook_of(new))


def schema_change(old: Raw, new: Raw, said: str) -> Rule:
    """The API server refuses a change."""
    return Rule(new, said, "", old)


def hook_change(old: Raw, new: Raw, said: str) -> Rule:
    """Our webhook refuses a change."""
    return Rule(new, said, hook_of(new), old)


def schema_status(old: Raw, new: Raw, said: str) -> Rule:
    """The API server refuses a change of status."""
    return Rule(new, said, "", old, status=True)


def hook_status(old: Raw, new: Raw, said: str) -> Rule:
    """Our webhook refuses a change of status."""
    return Rule(new, said, hook_of(new), old, status=True)


def hook_of(obj: Raw) -> str:
    """The name of the webhook, which is Kueue's."""
    return f"v{obj['kind'].lower()}.kb.io"
