"""When waiting workloads start: the State of one arena run forward by the cycle of the controller, with run times as
distributions.

The only opinion on this question: warnings, the visibility API, ``explain``, ``when``, the Python client and metrics
show it. Nothing here runs on the path of an admission call or of the scheduler.
"""
