"""Devices of dynamic resource allocation (KEP 2941): what the claims of a workload's pods count for in quota.

May live here: the values that are read of ResourceClaimTemplates, DeviceClasses and ResourceSlices (``model``), the
mapping of device classes to resources in the Configuration (``mapping``), which devices a selector matches
(``matching``), what one template counts for (``claims``), extended resources that a class stands for (``extended``),
and all of it together, kept as objects change (``inventory``). It knows no workloads, queues or quota.
"""
