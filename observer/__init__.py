"""An observer outside the product: reads etcd and reports every moment at which a promise of the queue did not hold.

It runs as a process of its own (``python -m observer``) and uses nothing but Python's standard library: a bug in the
code of Seiretsu, or in the API server's watch cache, cannot hide itself here. Its classes may have the names of those
of Seiretsu, with which they share nothing. ``etcd`` reads, ``decode`` makes values of what is stored, ``rules`` judges.
"""
