"""What people should know at once about what they just submitted: findings of named rules, as values.

Nothing here refuses: whether a finding is ignored, a warning or a refusal is the operator's policy (`webhook.policy`).
Each message carries the numbers and what to do in at most 120 characters, for that is what kubectl shows of a warning.
"""

from core.feedback.rules import Finding, Rule, news
from core.feedback.submission import PodSpec, Submission, submission

__all__ = ["Finding", "PodSpec", "Rule", "Submission", "news", "submission"]
