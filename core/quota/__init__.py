"""Quota and its usage: trees of Cohorts and ClusterQueues with the quota that is reserved in them.

The specifications (``hierarchy``), the trees built from them (``tree``, ``node``, ``shares``), what workloads request
and hold (``demand``, ``usage``) and the reservations in all trees are in this package. ``core.scheduling`` decides
which workload gets quota.
"""
