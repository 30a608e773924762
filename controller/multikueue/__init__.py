"""MultiKueue: connections to worker clusters (``clusters``, ``remote``), and the Workloads and jobs that are written
here (``here``) and there (``there``). The rules are in ``core.multikueue``.

``workloads`` connects the parts: ``kinds`` finds the job of a Workload, ``groups`` gathers what is known of it,
``siblings`` and ``choices`` remember, ``orphans`` finds what is left in workers.
"""
