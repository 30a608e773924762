"""The lifecycle of a Workload outside of the cycle: eviction, backoff, deactivation, retention.

``lifecycle`` has the rules, ``actions`` the values they take and return, ``transitions`` the Workload after each of
them, ``priority`` the source of its priority, and ``milestones`` the difference between two versions of it.
"""
