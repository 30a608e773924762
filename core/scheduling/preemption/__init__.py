"""Whom to preempt so that a workload fits.

``candidates`` says who may be preempted and in which order, ``classical`` and ``fair`` choose among them, and
``algorithm`` is what the cycle and the search for flavors ask.
"""
