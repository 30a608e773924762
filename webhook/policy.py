"""The action for a finding: nothing, a warning or a refusal, as the operator configured it by rule and namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from api.configuration import Action, Feedback
from api.v1beta2.base import LabelSelector
from core.feedback import Finding
from core.feedback.rules import NOT_JUDGED
from core.matching import placement
from core.model import Labels, Raw, Selector
from core.wire import decode
from webhook.patch import Operation
from webhook.review import Response, deny

DEFAULT: Final[Action] = "Warn"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """The action of one rule in the namespaces that ``selector`` matches; None matches all, and objects without a
    namespace.
    """

    rule: str
    action: Action
    selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class FeedbackPolicy:
    """``seiretsu.feedback`` of the Configuration. Of several entries for a rule the first that matches counts."""

    entries: tuple[PolicyEntry, ...] = ()

    def action(self, rule: str, labels: Labels | None) -> Action:
        """Returns the action of the rule in a namespace with these labels (None: no namespace, or one that no cache
        has).

        An object that was not checked is refused if any rule would refuse: otherwise a user could avoid all rules with
        an object that is large enough.
        """
        if rule == NOT_JUDGED:
            rules = dict.fromkeys(entry.rule for entry in self.entries)
            return "Deny" if any(self.action(each, labels) == "Deny" for each in rules) else DEFAULT
        for entry in self.entries:
            if entry.rule == rule and _matches(entry.selector, labels):
                return entry.action
        return DEFAULT


def policy(feedback: Feedback) -> FeedbackPolicy:
    """The policy of a Configuration."""
    entries = (
        PolicyEntry(rule.name, rule.action, decode.selector(_wire(rule.namespace_selector))) for rule in feedback.rules
    )
    return FeedbackPolicy(tuple(entries))


def _wire(selector: LabelSelector | None) -> Raw | None:
    return None if selector is None else selector.model_dump(by_alias=True, exclude_none=True)


def _matches(selector: Selector | None, labels: Labels | None) -> bool:
    return selector is None or (labels is not None and placement.matches(selector, labels))


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """``refusals`` are sentences that end in the rule's name, so that people can look it up. ``rules`` are the rules
    that found something, each with its action.
    """

    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    rules: tuple[tuple[str, Action], ...] = ()

    def response(self, *, patch: tuple[Operation, ...] = ()) -> Response:
        """Refused where any rule does so, else let through with the warnings (and ``patch``)."""
        if self.refusals:
            return replace(deny("; ".join(self.refusals), warnings=self.warnings), rules=self.rules)
        return Response(allowed=True, patch=patch, warnings=self.warnings, rules=self.rules)


def judge(found: Iterable[Finding], policy: FeedbackPolicy, labels: Labels | None) -> PolicyVerdict:
    """Sorts findings by the action of the policy; their order is kept."""
    warnings, refusals, rules = [], [], []
    for finding in found:
        action = policy.action(finding.rule, labels)
        rules.append((finding.rule, action))
        match action:
            case "Warn":
                warnings.append(finding.message)
            case "Deny":
                refusals.append(f"{finding.message} (rule {finding.rule})")
            case "Ignore":
                pass
    return PolicyVerdict(tuple(warnings), tuple(refusals), tuple(rules))
