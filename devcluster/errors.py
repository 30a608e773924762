"""The one exception of this package: a sentence for a person, with the fix."""


class ClusterError(Exception):
    """The reason and the fix; printed without a traceback."""
