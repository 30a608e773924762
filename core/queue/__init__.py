"""Workloads that wait: the order in a ClusterQueue, and which queue a workload is in.

``order`` compares two, ``queue`` keeps those of one ClusterQueue, ``routing`` keeps all of them, and
``admission_fair_sharing`` has the arithmetic of usage over time. When to look at them again is decided in
``core.state``.
"""
