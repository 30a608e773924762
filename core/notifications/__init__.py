"""Which changes and waits of Workloads receivers are notified of, in which words, and which addresses may be called."""
