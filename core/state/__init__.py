"""All that scheduling depends on, kept up to date as objects change, and what is asked of it.

``state.State`` is the only thing in core that changes: it routes workloads, takes over plans and decides who is looked
at again. Its parts (``wake_ups``, ``preempted``, ``local_queue_usage``) and those who read it (``drain``, ``queries``,
``queue_status``, ``lookup``, ``what_if``) live here. One event loop owns it; there is no I/O.
"""
