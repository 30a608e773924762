"""The doing: stores, reconcilers, scheduler loop. Imports ``core`` and ``api``; never ``webhook`` or ``certs``."""
