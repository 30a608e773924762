"""A Workload whose nodes are asked for with a ProvisioningRequest, before it is admitted. Pure, on values.

``rules`` decides the next write: which requests and PodTemplates exist, and which state of the check follows from the
conditions of a request. It is called again after each change, so nothing else is remembered. ``config`` reads a
ProvisioningRequestConfig and decides the condition Active of an AdmissionCheck, ``pods`` which pods a request asks for
and with which PodTemplates, and ``naming`` has the names. Words, conditions and order are those of Kueue's controller.
"""
