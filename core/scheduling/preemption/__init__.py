"""Chooses the workloads to preempt so that a workload fits.

``candidates`` returns which workloads may be preempted and in which order, ``classical`` and ``fair`` choose among
them, and ``algorithm`` is the interface for the cycle and the search for flavors.
"""
