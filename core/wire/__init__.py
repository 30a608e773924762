"""Conversion between JSON and the values of ``core.model``: reads API objects, and makes the patches that change them.

Decoding, conditions and times, effective requests of pods, and guards of writes are in this package. It decides nothing
about workloads.
"""
