"""Our own section, `seiretsu`: what admission says about objects that Kueue would let through and leave waiting.

Kueue does not know the section: a Configuration that has it is ours alone.
"""

from typing import Annotated, Literal

from pydantic import Field

from api.configuration.base import Section
from api.v1beta2.base import LabelSelector

Action = Literal["Ignore", "Warn", "Deny"]
"""What a rule that finds something does."""


RuleName = Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""The name of a rule."""

ExpressionResource = Literal["jobs", "workloads", "clusterqueues", "localqueues", "cohorts", "resourceflavors"]
"""What a rule of the operator's own may look at."""


class FeedbackRule(Section):
    """What one rule does in some namespaces."""

    name: RuleName
    """The rule."""
    action: Action
    """Ignore says nothing, Warn lets the object in with a warning, Deny refuses it."""
    namespace_selector: LabelSelector | None = None
    """The namespaces this holds for; absent is all. Of several entries for a rule the first that matches counts."""


class FeedbackExpression(Section):
    """A rule of the operator's own. What it does is said as for any other rule, by its name among `rules`."""

    name: RuleName
    """The rule."""
    resources: list[ExpressionResource] = Field(["jobs"], min_length=1)
    """What it looks at: `jobs` are jobs of every kind that name a queue, `workloads` those made without a job."""
    expression: Annotated[str, Field(min_length=1, max_length=4096)]
    """CEL that is true of what is fine. It sees `object`, `oldObject` (null on create), `request` (`operation`,
    `namespace`, `name`, `username`, `dryRun`), `namespaceObject` and, of jobs and workloads, `job` (`queue`,
    `priorityClass`, `pods`, `requests` by resource: cpu in thousandths, the rest in units, as
    `amount(resource, quantity)` reads them)."""
    message: Annotated[str, Field(min_length=1, max_length=120)]
    """What to say where it is false: say what to do."""
    message_expression: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """CEL that makes the message; `message` is said where it fails."""


class Feedback(Section):
    """What admission says."""

    expressions: list[FeedbackExpression] = Field(default_factory=list)
    """Rules of the operator's own."""
    rules: list[FeedbackRule] = Field(default_factory=list)
    """Rules that differ from their default, which is Warn."""


class SeiretsuSection(Section):
    """What Kueue's Configuration has no place for."""

    feedback: Feedback = Field(default_factory=Feedback)
    """What admission says about objects that would wait for ever."""
