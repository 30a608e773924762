"""What receivers of notifications are told of Workloads: which changes and waits, in which words, and which addresses
may be called.
"""
