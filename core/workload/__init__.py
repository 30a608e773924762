"""What happens to a Workload outside of the cycle: eviction, backoff, deactivation, retention.

``lifecycle`` has the rules, ``actions`` the values they take and return, ``transitions`` the Workload after each of
them, ``priority`` where its priority comes from, and ``milestones`` what two versions of one differ in.
"""
