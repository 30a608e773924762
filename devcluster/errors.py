"""The one exception of this package: a sentence for a person, with what to do about it."""


class ClusterError(Exception):
    """What went wrong and what to do; printed as it is, without a traceback."""
