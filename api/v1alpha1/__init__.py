"""The first versions: v0.1's Queue, ClusterQueue and ResourceFlavor, and Cohort and Topology as 0.9 served them."""
