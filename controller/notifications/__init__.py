"""Sends notifications to the receivers of the Configuration; ``core.notifications`` decides which."""
