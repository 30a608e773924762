"""What is kept of workloads after they are gone: ``record`` computes it from each change of a Workload, ``report`` adds
it up.

Values only: where they are kept is decided by ``controller.history``.
"""
