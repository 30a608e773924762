"""All input of scheduling, updated as objects change, and the queries about it.

``state.State`` is the only mutable object in core: it routes workloads, applies plans and chooses which heads are
decided again. Its parts (``kinship``, ``wake_ups``, ``preempted``, ``local_queue_usage``) and its readers (``drain``,
``queries``, ``queue_status``, ``lookup``, ``what_if``) are in this package. One event loop owns it; there is no I/O.
"""
