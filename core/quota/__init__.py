"""Who may use how much, and who does: trees of Cohorts and ClusterQueues with the quota that is reserved in them.

What is specified (``hierarchy``), what it amounts to (``tree``, ``node``, ``shares``), what workloads ask for and hold
(``demand``, ``usage``) and the reservations in all trees live here. Who gets quota is decided in
``core.scheduling``.
"""
