"""Decides, on values: no I/O and no clock (``now`` is an argument). Only ``core.state`` holds data that changes.

It imports only ``api``.
"""
