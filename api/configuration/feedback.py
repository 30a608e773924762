"""Our own section, `seiretsu`: what admission says about objects that Kueue would let through and leave waiting.

Kueue does not know the section: a Configuration that has it is ours alone.
"""

from typing import Annotated, Literal

from pydantic import Field

from api.configuration.base import Section
from api.v1beta2.base import LabelSelector

Action = Literal["Ignore", "Warn", "Deny"]
"""What a rule that finds something does."""


class FeedbackRule(Section):
    """What one rule does in some namespaces."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    """The rule."""
    action: Action
    """Ignore says nothing, Warn lets the object in with a warning, Deny refuses it."""
    namespace_selector: LabelSelector | None = None
    """The namespaces this holds for; absent is all. Of several entries for a rule the first that matches counts."""


class Feedback(Section):
    """What admission says."""

    rules: list[FeedbackRule] = Field(default_factory=list)
    """Rules that differ from their default, which is Warn."""


class SeiretsuSection(Section):
    """What Kueue's Configuration has no place for."""

    feedback: Feedback = Field(default_factory=Feedback)
    """What admission says about objects that would wait for ever."""
