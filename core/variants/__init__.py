"""Concurrent admission: a Workload, the parent, is admitted through variants, one for each flavor. Pure, on values.

``rules`` decides the next write about a parent and its variants; it is called again after each change, so nothing else
is remembered. The cycle decides about variants as about any workload, and which of them may run is in
``core.scheduling.variants``. Words, conditions and events are those of Kueue's controller.
"""
