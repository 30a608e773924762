"""Reads, writes and reconciles: stores, reconcilers, the loop of the scheduler. Imports ``core`` and ``api``; never
``webhook`` or ``certs``.
"""
