"""Whether labels match: of pods and the nodes of a flavor, of namespaces and selectors.

Kubernetes' rules for selectors, affinity, taints and tolerations are in this package. It does not know quota or queues,
so its answers depend on two values only.
"""
