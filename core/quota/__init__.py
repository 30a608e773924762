"""Quota and its usage: trees of Cohorts and ClusterQueues with the quota that is reserved in them.

The specifications (``hierarchy``), the trees built from them (``tree``, ``node``, ``shares``), the arenas of trees that
are decided together (``arena``), what limits workloads beside quota (``capacity``), what they request and hold
(``demand``, ``usage``) and the reservations in all arenas are in this package. ``core.scheduling`` decides which
workload gets quota.
"""
