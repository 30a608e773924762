"""MultiKueue: connections to worker clusters (``clusters``, ``remote``), and the Workloads and jobs that are written
there and here (``workloads``). The rules are in ``core.multikueue``.
"""
