"""Label selectors on raw objects: whether one matches a set of labels."""

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether the labels satisfy a metav1.LabelSelector: an empty one matches everything, `None` nothing."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_satisfied(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def _satisfied(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    found = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return found in requirement["values"]
        case "NotIn":
            return found not in requirement["values"]
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
    return False
