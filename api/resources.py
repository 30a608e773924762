"""Resources that modules name, as the API server names them; ``controller.run.watched`` has those that are watched."""

from __future__ import annotations

from api import names
from api.objects import Resource


def _ours(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(names.GROUP, names.STORAGE_VERSION, plural, kind, namespaced)


WORKLOADS = _ours(names.Plural.WORKLOADS, names.Kind.WORKLOAD, namespaced=True)
LOCAL_QUEUES = _ours(names.Plural.LOCAL_QUEUES, names.Kind.LOCAL_QUEUE, namespaced=True)
CLUSTER_QUEUES = _ours(names.Plural.CLUSTER_QUEUES, names.Kind.CLUSTER_QUEUE)
COHORTS = _ours(names.Plural.COHORTS, names.Kind.COHORT)
TOPOLOGIES = _ours(names.Plural.TOPOLOGIES, names.Kind.TOPOLOGY)
RESOURCE_FLAVORS = _ours(names.Plural.RESOURCE_FLAVORS, names.Kind.RESOURCE_FLAVOR)
WORKLOAD_PRIORITY_CLASSES = _ours(names.Plural.WORKLOAD_PRIORITY_CLASSES, names.Kind.WORKLOAD_PRIORITY_CLASS)
ADMISSION_CHECKS = _ours(names.Plural.ADMISSION_CHECKS, names.Kind.ADMISSION_CHECK)
MULTIKUEUE_CONFIGS = _ours(names.Plural.MULTIKUEUE_CONFIGS, names.Kind.MULTIKUEUE_CONFIG)
MULTIKUEUE_CLUSTERS = _ours(names.Plural.MULTIKUEUE_CLUSTERS, names.Kind.MULTIKUEUE_CLUSTER)
PROVISIONING_REQUEST_CONFIGS = _ours(names.Plural.PROVISIONING_REQUEST_CONFIGS, names.Kind.PROVISIONING_REQUEST_CONFIG)
PROVISIONING_REQUESTS = Resource(names.AUTOSCALING_GROUP, "v1", "provisioningrequests", names.Kind.PROVISIONING_REQUEST)
QUEUES = Resource(names.GROUP, names.V1ALPHA1, names.Plural.QUEUES, names.Kind.QUEUE)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
SECRETS = Resource("", "v1", "secrets", "Secret")
CLUSTER_PROFILES = Resource("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
RESOURCE_CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
