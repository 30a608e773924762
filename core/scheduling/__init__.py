"""One scheduling cycle: heads and a snapshot in, a plan out. Pure: it knows no State, and changes nothing.

The cycle, the order of its heads, the search for flavors and preemption live here.
"""
