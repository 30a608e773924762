"""One scheduling cycle: computes a plan from heads and a snapshot. Pure: it does not know State and changes nothing.

The cycle, the order of its heads, the search for flavors and preemption are in this package.
"""
