"""Whether labels match: of pods and the nodes of a flavor, of namespaces and selectors.

What Kubernetes' own rules say about selectors, affinity, taints and tolerations lives here. It knows no quota and no
queue, so its answers depend on two values alone.
"""
