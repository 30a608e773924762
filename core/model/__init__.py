"""The values with which core decides: the content of API objects, in exact integers and without other fields.

Frozen structs, the choices of the administrator (``policy``) and the messages of kubectl (``messages``) are in this
package; it decides nothing. A struct has the name of the kind or field in ``api`` that it is made of. They are separate
from the models of ``api`` because the scheduler reads them a million times: structs are created and changed
(``core.model.workload.replace``) many times as fast as dataclasses. Amounts are integers in base units (milli for cpu,
bytes for memory, counts for the rest; see ``api.quantity``); times are seconds since the epoch; ``None`` means "no
limit" or "absent".
"""

from api.objects import Key, Raw
from core.model.decisions import Decision, Plan, Requeue, Reserve, StayPending, Tried, Victim
from core.model.kubernetes import (
    ANYWHERE,
    NODE_NAME,
    Condition,
    Labels,
    Placement,
    Requests,
    Requirement,
    Selector,
    Taint,
    Toleration,
)
from core.model.queues import (
    AdmissionCheck,
    CheckRule,
    ClusterQueue,
    Cohort,
    FlavorResource,
    Fungibility,
    LocalQueue,
    Migration,
    Parameters,
    Preemption,
    QueueingStrategy,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
)
from core.model.topology import Node, Topology, TopologyAssignment, TopologyDomain
from core.model.workload import (
    Admission,
    CheckState,
    GateState,
    PodSet,
    PodSetAssignment,
    Spreading,
    SpreadRule,
    TopologyRequest,
    Workload,
)

__all__ = [
    "ANYWHERE",
    "NODE_NAME",
    "Admission",
    "AdmissionCheck",
    "CheckRule",
    "CheckState",
    "ClusterQueue",
    "Cohort",
    "Condition",
    "Decision",
    "FlavorResource",
    "Fungibility",
    "GateState",
    "Key",
    "Labels",
    "LocalQueue",
    "Migration",
    "Node",
    "Parameters",
    "Placement",
    "Plan",
    "PodSet",
    "PodSetAssignment",
    "Preemption",
    "QueueingStrategy",
    "Quota",
    "Raw",
    "Requests",
    "Requeue",
    "Requirement",
    "Reserve",
    "ResourceFlavor",
    "ResourceGroup",
    "Selector",
    "SpreadRule",
    "Spreading",
    "StayPending",
    "StopPolicy",
    "Taint",
    "Toleration",
    "Topology",
    "TopologyAssignment",
    "TopologyDomain",
    "TopologyRequest",
    "Tried",
    "Victim",
    "Workload",
]
