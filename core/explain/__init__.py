"""Explains why a workload waits, what it would need and which workloads hold that: ``analysis`` computes it,
``explanation`` is its result.
"""
