"""Workloads that wait: the order in a ClusterQueue, and which queue a workload is in.

``order`` compares two workloads, ``queue`` stores those of one ClusterQueue, ``routing`` stores all queues, and
``admission_fair_sharing`` has the arithmetic of usage over time. ``core.state`` decides when they are decided again.
"""
