"""The section `seiretsu.population`: LocalQueues that are created by themselves.

What Kueue's separate program kueue-populator does, with its names.
"""

from typing import Literal

from api.configuration.base import Section
from api.v1beta2.base import LabelSelector


class Population(Section):
    """A LocalQueue in each namespace that is selected here and by the namespaceSelector of a ClusterQueue."""

    enable: bool = False
    local_queue_name: str = ""
    """`default` if it is empty; not with the mode AsClusterQueue."""
    local_queue_name_mode: Literal["Static", "AsClusterQueue"] = "Static"
    """Static: one LocalQueue in a namespace, `localQueueName`. AsClusterQueue: one for each ClusterQueue, with its
    name.
    """
    namespace_selector: LabelSelector | None = None
    """The namespaces; absent: those of `managedJobsNamespaceSelector`."""
