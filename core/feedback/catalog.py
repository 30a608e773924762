"""All rules by name: the names that the Configuration may use, and the list in the documentation."""

from __future__ import annotations

from typing import Any, Final

from core.feedback.affected import AFFECTED_RULES
from core.feedback.cluster_queues import CLUSTER_QUEUE_RULES
from core.feedback.fixed import FIXED_RULES
from core.feedback.jobs import JOB_RULES
from core.feedback.keys import KEY_RULES
from core.feedback.queues import COHORT_RULES, FLAVOR_RULES, LOCAL_QUEUE_RULES, QUEUE_RULES, TOPOLOGY_RULES
from core.feedback.rules import Rule
from core.feedback.strangers import DELETION_RULES, STRANGER_RULES

TABLES: Final[dict[str, tuple[Rule[Any], ...]]] = {
    "jobs": JOB_RULES,
    "labels and annotations": KEY_RULES,
    "pod templates of Jobs": FIXED_RULES,
    "what is not queued": STRANGER_RULES,
    "Workloads of Jobs": DELETION_RULES,
    "ClusterQueues": CLUSTER_QUEUE_RULES,
    "LocalQueues": LOCAL_QUEUE_RULES,
    "Queues of v0.1": QUEUE_RULES,
    "Cohorts": COHORT_RULES,
    "ResourceFlavors": FLAVOR_RULES,
    "Topologies": TOPOLOGY_RULES,
    "whom a change hits": AFFECTED_RULES,
}
"""Rules by subject; a name in two tables is one rule for the Configuration."""

NAMES: Final = tuple(dict.fromkeys(rule.name for rules in TABLES.values() for rule in rules))

_WITHIN: Final = frozenset(
    rule.name
    for subject in (
        "jobs",
        "labels and annotations",
        "pod templates of Jobs",
        "what is not queued",
        "Workloads of Jobs",
        "LocalQueues",
        "Queues of v0.1",
    )
    for rule in TABLES[subject]
)
OF_NO_NAMESPACE: Final = frozenset(NAMES) - _WITHIN
"""Those that are about objects of no namespace only, so that no selector of namespaces matches."""
