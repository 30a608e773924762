"""The first versions: v0.1's Queue, ClusterQueue and ResourceFlavor, and Cohort and Topology as 0.9 served them.
Classes have the names of these kinds and fields, as in v1beta2.
"""
