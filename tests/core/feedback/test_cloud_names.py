"""Every message with names as clouds have them: the fact goes first, and only what comes after it is dropped.

The cases of the other modules are asked again after all names in them were replaced by long ones: label keys such as
``cloud.provider.com/node-group``, names of fifty characters. What a short message names before its first semicolon, a
long one names too, though cut in the middle, with the same figures. Only what the reader has written may be missing:
the namespace, the LocalQueue and its ClusterQueue; and what is in parentheses beside another figure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest
import yaml

from core.feedback.catalog import TABLES
from core.feedback.change import Change
from core.feedback.jobs import of_job
from core.feedback.rules import LIMIT, Finding
from core.model import Node
from core.state.lookup import Lookup
from tests.core.feedback import test_jobs, test_nodes, test_outside, test_queues
from tests.core.feedback.world import job, parsed, world

LONG: Mapping[str, str] = {
    "pool": "cloud.provider.com/node-group",
    "zone": "topology.kubernetes.io/zone-of-the-data-centre",
    "team": "organization.example.com/team",
    "standard": "standard-e2-highmem-16-europe-west4-preemptible-off",
    "spot": "spot-n2-standard-32-europe-west4-preemptible-on-001",
    "fast": "fast-a2-ultragpu-8g-europe-west4-reserved-capacity",
    "research": "research-and-development-of-the-whole-organization",
    "budget": "budget-check-of-the-finance-department-europe-west",
    "main": "main-queue-of-the-machine-learning-platform-team-a",
    "mian": "mian-queue-of-the-machine-learning-platform-team-a",
    "taem-a": "taem-a-of-the-machine-learning-platform-production",
    "standrad": "standrad-e2-highmem-16-europe-west4-preemptible-off",
    "spt": "spt-n2-standard-32-europe-west4-preemptible-on-001",
    "budgte": "budgte-check-of-the-finance-department-europe-west",
    "team-a": "team-a-of-the-machine-learning-platform-production",
    "team-b": "team-b-of-the-machine-learning-platform-production",
    "spare": "spare-queue-of-the-machine-learning-platform-tea-a",
}
OWN = {"team-a", "team-b", "main", "mian"}
"""The names that the reader has written, or that follow from these."""

SEEN = 3
"""The letters of a long name, from its beginning and to its end, by which a reader recognizes it."""


def long(value: Any) -> Any:
    """A value in which each name is a long one."""
    match value:
        case str():
            return LONG.get(value, value)
        case dict():
            return {long(key): long(each) for key, each in value.items()}
        case list() | tuple() if hasattr(value, "_fields"):
            return type(value)(*map(long, value))
        case list() | tuple() | frozenset():
            return type(value)(map(long, value))
        case msgspec.Struct():
            return msgspec.structs.replace(
                value, **{name: long(getattr(value, name)) for name in value.__struct_fields__}
            )
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(
                value, **{f.name: long(getattr(value, f.name)) for f in dataclasses.fields(value)}
            )
    return value


def manifests(text: str) -> str:
    return yaml.dump(long(parsed(text)), Dumper=yaml.CSafeDumper) if text else ""


def there(more: str, nodes: Any, **options: Any) -> Lookup:
    """The world with long names."""
    found = [long(each if isinstance(each, Node) else Node("n", each)) for each in nodes] if nodes else nodes
    return world(manifests(more), nodes=found, named=long, **options)


def of_jobs(case: Any, **options: Any) -> tuple[Iterable[Finding], Iterable[Finding]]:
    asked, more, *_ = case.values
    nodes = options.pop("nodes", case.values[2] if len(case.values) == 5 else None)
    return (
        of_job(asked, world(more, nodes=nodes, **options)),
        of_job(long(asked), there(more, nodes, **options)),
    )


def of_queues(case: Any) -> tuple[Iterable[Finding], Iterable[Finding]]:
    new, old, more, *_ = case.values
    read, find = test_queues.KINDS[(new or old)["kind"]]
    nodes = [{"pool": "standard", "zone": "a"}, {"pool": "spot"}]

    def found(lookup: Lookup, *objects: Any) -> Iterable[Finding]:
        return find(Change(*(each and read(each) for each in objects)), lookup)  # type: ignore[no-any-return]

    short = found(world(more, nodes=nodes, concurrent=True), old, new)
    return short, found(there(more, nodes, concurrent=True), long(old), long(new))


def pairs() -> Iterable[tuple[Any, Callable[[], Any]]]:
    """Each case, and what returns what is found with its own names, and with long ones: each process that runs tests
    makes the list of cases.
    """
    for case in (*test_jobs.CASES, *test_jobs.SEVERAL, *test_nodes.CASES, *test_outside.CASES):
        yield case, partial(of_jobs, case)
    for case in test_jobs.ONE_BY_ONE:
        yield case, partial(of_jobs, case, one_by_one=True)
    for nodes, *_ in (case.values for case in test_jobs.WITHOUT_NODES):
        case = pytest.param(job(), "", id=f"nodes {nodes}")
        yield case, partial(of_jobs, case, nodes=nodes)
    for case in test_queues.CASES:
        yield case, partial(of_queues, case)


OTHERS = {"one rule says three things at most"}
"""Cases in which other names are similar when they are long."""

PAIRS = [pytest.param(found, id=case.id) for case, found in pairs() if case.id not in OTHERS]


@pytest.mark.parametrize("found", PAIRS)
def test_what_a_short_message_names_first_a_long_one_names_too(
    found: Callable[[], tuple[tuple[Finding, ...], tuple[Finding, ...]]],
) -> None:
    short, cloud = found()
    assert [each.rule for each in short] == [each.rule for each in cloud]
    for one, other in zip(short, cloud, strict=True):
        fact = re.sub(r" \(\d+ own.*?\)", "", one.message.partition(";")[0])
        named = [name for name in LONG if name not in OWN and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", fact)]
        lost = [name for name in named if not re.search(recognized(LONG[name]), other.message)]
        figures = [figure for figure in re.findall(r"\d+", fact) if figure not in other.message]
        assert len(other.message) <= LIMIT
        assert not other.message.endswith("..."), other.message
        assert (lost, figures) == ([], []), f"{one.message} -> {other.message}"


def recognized(name: str) -> str:
    return rf"{re.escape(name[:SEEN])}[\w./-]*{re.escape(name[-SEEN:])}"


def test_every_rule_about_names_is_compared() -> None:
    """The others have no names but the keys of labels, which are Kueue's, and of kinds."""
    seen = {each.rule for _, found in pairs() for each in found()[0]}
    beside = {"about labels and annotations", "pod templates of Jobs", "what is not queued", "Workloads of Jobs"}
    expected = {rule.name for subject, rules in TABLES.items() if subject not in beside for rule in rules}
    assert expected - seen <= {rule.name for rule in TABLES["labels and annotations"]} | ALONE


ALONE = {
    *("resource-quota-too-small", "no-worker-cluster", "running-job-resized"),
    *("topology-level-not-found", "topology-too-small", "topology-full", "topology-slices-uneven"),
    *(
        "device-class-not-found",
        "topology-not-found",
        "topology-labels-not-found",
        "topology-flavors-overlap",
        "quota-beyond-nodes",
        "dry-run",
        "workloads-affected",
    ),
}
"""Rules whose own tests use names of any length."""
