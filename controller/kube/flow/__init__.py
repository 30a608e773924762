"""Flow control: which write to the API server begins when.

A write passes these in series; without other traffic none of them waits:

1. ``budget``: only what people read later (why a workload waits, counts of queues, events). These begin one after the
   other, at intervals that grow with the latency of all writes of this process (``pressure``). An idle API server
   gets up to four at once, a busy one five a second, and one a second while admissions wait to be written.
2. ``precedence``: while admission calls arrive, between 4 and 12 writes are in flight, and the fewer the more calls
   arrive; writes that release or use quota come first, namespaces take turns. A client waits for the answer of an
   admission call; each write in flight may delay it, because one event loop handles both.
3. ``throttle``: every call. The limit of a client that the Configuration sets (300 a second); an answer 429 halves it.

So the classes are: admissions, evictions and starts first, then Workloads of new jobs, then what can wait. None waits
for ever: each of the limits has a time after which the next write begins. How far decisions may run ahead of their
writes is in ``decisions``. ``limits`` has every figure, with what was measured when it was chosen. Fairness between
namespaces is ``controller.kube.turns``.
"""
