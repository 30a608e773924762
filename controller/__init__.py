"""The doing: stores, reconcilers and the scheduler loop. Imports ``core`` and ``api``; never ``webhook`` or ``certs``."""
