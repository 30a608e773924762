"""Takes in pods and jobs that run and that no queue has seen: which LocalQueue each belongs to, which flavor it uses,
and which writes are still missing. ``cli.importing`` reads the cluster and makes the writes.
"""
