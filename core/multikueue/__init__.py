"""A Workload that runs in another cluster: what is written here and in each worker cluster. Pure, on values.

``group`` has the input: the Workload and its job here, and what is seen of both in each worker. ``here`` decides the
next write in this cluster, ``there`` the next write in one worker; both are called again after each change, so nothing
else is remembered, and a slow worker delays no other. ``mirror`` makes the objects of a worker, ``dispatch`` decides
which workers a Workload is offered to, ``conditions`` what MultiKueueClusters and AdmissionChecks report, and
``kubeconfig`` which connections are allowed. Words, conditions and order are those of Kueue's MultiKueue.
"""
