"""A write of a Workload that is not sent to validation would be accepted by it."""

from __future__ import annotations

from random import Random

import cel
import pytest

from api import feature_gates, validate
from api.kinds import KINDS
from api.objects import Raw
from tests.api.objects import NOW, admitted, changed, condition, workload
from tests.api.random_objects import Maker
from tests.api.validate.test_update import CASES
from tests.cluster.rules import workloads
from tests.effort import cases
from webhook.workload_changes import TO_BE_CHECKED

ALL_GATES = dict.fromkeys(feature_gates.DEFAULTS, True)
WAITING = workload(status={"conditions": [condition("QuotaReserved", "False")]}, annotations={"a": "b"})
RESERVED = workload(status=admitted(), annotations={"a": "b"})
FINISHED = [*RESERVED["status"]["conditions"], condition("Finished")]
EVICTED = [condition("QuotaReserved", "False"), condition("Admitted", "False"), condition("Evicted")]
PROGRAM = cel.compile(TO_BE_CHECKED)


def sent(old: Raw | None, new: Raw) -> bool:
    """Whether the API server calls the webhook."""
    operation = "CREATE" if old is None else "UPDATE"
    found = PROGRAM.execute({"object": new, "oldObject": old, "request": {"operation": operation}})
    assert isinstance(found, bool)
    return found


LEFT_OUT = {
    "a finish": (RESERVED, changed(RESERVED, "status.conditions", FINISHED)),
    "a finish of one that waits": (WAITING, changed(WAITING, "status.conditions[1]", condition("Finished"))),
    "a release with its admission": (
        RESERVED,
        changed(changed(RESERVED, "status.conditions", EVICTED), "status.admission", ...),
    ),
    "a release": (RESERVED, changed(RESERVED, "status.conditions", EVICTED)),
    "a finalizer": (RESERVED, changed(RESERVED, "metadata.finalizers", ["a"])),
    "a label": (WAITING, changed(WAITING, "metadata.labels", {"a": "b"})),
    "nothing": (WAITING, WAITING),
}
LONG = {**condition("A"), "type": "x" * 64}
ZERO = {**condition("A"), "lastTransitionTime": "0001-01-01T00:00:00Z"}
CHECK = {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": NOW}
SENT: dict[str, tuple[Raw | None, Raw]] = {
    "a create": (None, workload()),
    "a first status": (workload(), WAITING),
    "a reservation": (WAITING, changed(RESERVED, "metadata", WAITING["metadata"])),
    "a reservation without an admission": (
        WAITING,
        changed(WAITING, "status.conditions", [condition("QuotaReserved")]),
    ),
    "an admission taken from one that holds quota": (RESERVED, changed(RESERVED, "status.admission", ...)),
    "another admission": (RESERVED, changed(RESERVED, "status.admission.clusterQueue", "other")),
    "the state of a check": (RESERVED, changed(RESERVED, "status.admissionChecks", [CHECK])),
    "reclaimable pods": (RESERVED, changed(RESERVED, "status.reclaimablePods", [{"name": "main", "count": 1}])),
    "reclaimable pods removed": (
        changed(RESERVED, "status.reclaimablePods", [{"name": "main", "count": 1}]),
        RESERVED,
    ),
    "a condition with a long type": (WAITING, changed(WAITING, "status.conditions[1]", LONG)),
    "a condition without a time": (WAITING, changed(WAITING, "status.conditions[1]", ZERO)),
    "a priority": (WAITING, changed(WAITING, "spec.priority", 5)),
    "a queue": (WAITING, changed(WAITING, "spec.queueName", "other")),
    "an annotation": (WAITING, changed(WAITING, "metadata.annotations", {"a": "c"})),
    "annotations removed": (WAITING, changed(WAITING, "metadata.annotations", ...)),
    "a spec removed": (WAITING, changed(WAITING, "spec", ...)),
}


@pytest.mark.parametrize(("old", "new"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_a_write_that_changes_nothing_that_is_checked_is_not_sent(old: Raw, new: Raw) -> None:
    assert validate.update(old, new, ALL_GATES) == []
    assert not sent(old, new)


@pytest.mark.parametrize(("old", "new"), SENT.values(), ids=SENT.keys())
def test_a_write_that_a_rule_looks_at_is_sent(old: Raw | None, new: Raw) -> None:
    assert sent(old, new)


REFUSED = {
    name: (rule.old, rule.new)
    for name, rule in (workloads.CHANGED | workloads.GIVEN).items()
    if rule.by and rule.old is not None
} | {name: (old, new) for name, (old, new, errors) in CASES.items() if new["kind"] == "Workload" and errors}


@pytest.mark.parametrize(("old", "new"), REFUSED.values(), ids=REFUSED.keys())
def test_every_change_that_a_rule_refuses_is_sent(old: Raw, new: Raw) -> None:
    assert sent(old, new)


@pytest.mark.parametrize("seed", range(cases(4, 60)))
def test_the_rules_accept_every_change_that_is_not_sent(seed: int) -> None:
    """Changes of valid Workloads: of a random part of the status, often with quota released or reserved."""
    (kind,) = (kind for kind in KINDS if kind.kind == "Workload")
    maker, draw = Maker(kind, seed), Random(seed)
    left_out = 0
    for _ in range(300):
        base = draw.choice([WAITING, RESERVED])
        old = changed(base, "status", {**base["status"], **_some(draw, maker.part("status"))})
        if validate.update(base, old, ALL_GATES):
            continue
        new = changed(old, "status", {**old["status"], **_some(draw, maker.part("status"))})
        for field in draw.sample(sorted(new["status"]), k=draw.randrange(2)):
            del new["status"][field]
        new["status"]["conditions"] = draw.choice(
            [EVICTED, FINISHED, [condition("Finished")], maker.part("status").get("conditions", [])]
        )
        if validate.form(new) or sent(old, new):
            continue
        left_out += 1
        assert validate.update(old, new, ALL_GATES) == []
    assert left_out


def _some(draw: Random, status: Raw) -> Raw:
    """At most one field of the status."""
    return {name: status[name] for name in draw.sample(sorted(status), k=min(len(status), draw.randrange(2)))}


class _Metadata(dict[str, object]):
    """Metadata that remember which of their fields were read."""

    def __init__(self, metadata: Raw, read: set[object]) -> None:
        super().__init__(metadata)
        self._read = read

    def __getitem__(self, name: str) -> object:
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> object:
        self._read.add(name)
        return super().get(name, default)


@pytest.mark.parametrize(("old", "new"), (REFUSED | LEFT_OUT).values(), ids=(REFUSED | LEFT_OUT).keys())
def test_the_rules_read_nothing_of_the_metadata_but_annotations(old: Raw, new: Raw) -> None:
    """A write that changes only other metadata is not sent."""
    read: set[object] = set()
    before, after = ({**each, "metadata": _Metadata(each["metadata"], read)} for each in (old, new))
    validate.update_rules(before, after, ALL_GATES)
    assert read == {"annotations"}
