"""When a node has failed for the pods that were placed on it."""

from __future__ import annotations

from typing import Any

import pytest

from core.model import Node, Taint, Toleration
from core.model.topology import NEVER_READY
from core.topology.health import FAILED, HEALTHY, FailureRules, NodeHealth, Tolerations, health
from core.wire import decode

NOW = 1000.0
READY = Node("n")
BROKEN, LONG_BROKEN = Node("n", unready_since=NOW - 10), Node("n", unready_since=NOW - 30)
CORDONED = Node("n", taints=(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),))
EMPTIED = Node("n", taints=(Taint("repair", "", "NoExecute"),))
NOTHING: Tolerations = ()
EVERYTHING: Tolerations = (Toleration(operator="Exists"),)
FOR_A_WHILE: Tolerations = (Toleration("repair", "Exists", temporary=True),)
DEFAULT = FailureRules()
AT_ONCE = FailureRules(on_termination=False)
TIMED = FailureRules(over_fixed_time=True)
ENDS = NodeHealth(True, ends_pods=True)
KEPT = NodeHealth(False, ends_pods=True)


@pytest.mark.parametrize(
    ("node", "tolerations", "rules", "runs", "expected"),
    [
        pytest.param(READY, NOTHING, DEFAULT, False, HEALTHY, id="a node that is ready"),
        pytest.param(None, NOTHING, DEFAULT, True, FAILED, id="a node that is gone has failed whatever ran there"),
        pytest.param(Node("n", unready_since=NEVER_READY), NOTHING, DEFAULT, True, FAILED, id="it never reported"),
        pytest.param(BROKEN, NOTHING, DEFAULT, True, KEPT, id="not ready, and a pod still runs"),
        pytest.param(BROKEN, NOTHING, DEFAULT, False, ENDS, id="not ready, and all pods have ended"),
        pytest.param(LONG_BROKEN, NOTHING, DEFAULT, True, KEPT, id="pods keep it however long it is not ready"),
        pytest.param(BROKEN, NOTHING, AT_ONCE, False, NodeHealth(None, 20), id="without that rule only time counts"),
        pytest.param(LONG_BROKEN, NOTHING, AT_ONCE, True, FAILED, id="after the time it has failed"),
        pytest.param(
            BROKEN, NOTHING, TIMED, True, NodeHealth(False, 20, ends_pods=True), id="both rules: time is left"
        ),
        pytest.param(LONG_BROKEN, NOTHING, TIMED, True, FAILED, id="both rules: the time is over"),
        pytest.param(CORDONED, NOTHING, DEFAULT, True, KEPT, id="cordoned while a pod runs"),
        pytest.param(CORDONED, NOTHING, DEFAULT, False, ENDS, id="cordoned, and no pod runs there"),
        pytest.param(CORDONED, EVERYTHING, DEFAULT, False, HEALTHY, id="the pods tolerate it"),
        pytest.param(EMPTIED, NOTHING, AT_ONCE, True, FAILED, id="a taint counts at once without the rule of pods"),
        pytest.param(EMPTIED, NOTHING, FailureRules(on_taints=False), False, HEALTHY, id="taints do not count"),
        pytest.param(EMPTIED, FOR_A_WHILE, DEFAULT, True, KEPT, id="tolerated for a while, and a pod runs"),
        pytest.param(EMPTIED, FOR_A_WHILE, DEFAULT, False, ENDS, id="tolerated for a while, which is over"),
        pytest.param(
            Node("n", taints=(Taint("slow", "", "PreferNoSchedule"),)), NOTHING, DEFAULT, False, HEALTHY, id="a wish"
        ),
    ],
)
def test_a_node(
    node: Node | None, tolerations: Tolerations, rules: FailureRules, runs: bool, expected: NodeHealth
) -> None:
    assert health(node, [tolerations], rules, NOW, runs=runs) == expected


def test_one_pod_set_that_does_not_tolerate_a_taint_is_enough() -> None:
    assert health(CORDONED, [EVERYTHING, NOTHING], DEFAULT, NOW, runs=False) == ENDS


@pytest.mark.parametrize(
    ("status", "usable", "since"),
    [
        pytest.param({"status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z"}, True, None, id="ready"),
        pytest.param({"status": "Unknown", "lastTransitionTime": "1970-01-01T00:01:40Z"}, False, 100.0, id="lost"),
        pytest.param(None, False, NEVER_READY, id="no condition"),
    ],
)
def test_since_when_a_node_is_not_ready(status: dict[str, Any] | None, usable: bool, since: float | None) -> None:
    conditions = [{"type": "Ready", **status}] if status else []
    raw = {
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "DiskPressure", "status": "True"}, *conditions]},
    }
    found = decode.node(raw)
    assert (found.usable, found.unready_since) == (usable, since)
