"""Kueue's `Configuration` (config.kueue.x-k8s.io/v1beta2 and v1beta1): read, defaulted, every error with its path.

A class has the name of the section of the Configuration that it reads.
"""

from api.configuration.feedback import Action, Feedback, FeedbackExpression, FeedbackRule
from api.configuration.load import ConfigurationError, Loaded, load
from api.configuration.model import Configuration

__all__ = [
    "Action",
    "Configuration",
    "ConfigurationError",
    "Feedback",
    "FeedbackExpression",
    "FeedbackRule",
    "Loaded",
    "load",
]
