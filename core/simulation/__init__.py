"""The life of many workloads on a virtual clock, with the same State, cycle and rules as the controller."""
