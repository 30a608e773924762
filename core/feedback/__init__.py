"""The warnings about an object that was submitted: findings of named rules, as values.

Nothing here refuses: the operator's policy decides whether a finding is ignored, a warning or a refusal
(`webhook.policy`). Each message has the numbers and the fix in at most 120 characters, the length that kubectl shows of
a warning.
"""

from core.feedback.rules import Finding, Rule, news
from core.feedback.submission import PodSpec, Submission, submission

__all__ = ["Finding", "PodSpec", "Rule", "Submission", "news", "submission"]
