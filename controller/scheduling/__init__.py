"""The cycle and its writes, why a workload waits, and usage over time."""
