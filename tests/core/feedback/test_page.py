"""The documentation says what the rules say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.feedback.catalog import TABLES
from core.feedback.page import page
from core.feedback.rules import LIMIT, Rule
from tests.core.feedback import (
    test_affected,
    test_dry_run,
    test_jobs,
    test_keys,
    test_nodes,
    test_outside,
    test_queues,
    test_resource_quotas,
    test_strangers,
    test_topology,
    test_workers,
)

PAGE = Path(__file__).parents[3] / "docs" / "feedback.md"


def test_the_page_is_the_one_the_rules_give() -> None:
    assert PAGE.read_text() == page(), "run `make generate`"


@pytest.mark.parametrize("rule", [rule for rules in TABLES.values() for rule in rules], ids=lambda rule: rule.name)
def test_every_example_is_a_message_of_its_rule(rule: Rule[Any]) -> None:
    cases = (
        *test_affected.CASES,
        *test_jobs.CASES,
        *test_jobs.ONE_BY_ONE,
        *test_jobs.SEVERAL,
        *test_jobs.RESIZED,
        *test_keys.CASES,
        *test_keys.WITHDRAWN,
        *test_queues.CASES,
        *test_strangers.CASES,
        *test_jobs.WITHOUT_NODES,
        *test_resource_quotas.RESOURCE_QUOTAS,
        *test_workers.CASES,
        *test_nodes.CASES,
        *test_nodes.OF_QUEUES,
        *test_outside.CASES,
        *test_dry_run.CASES,
    )
    said = {(case.values[-2], case.values[-1]) for case in cases if isinstance(case.values[-1], str)}
    assert (rule.name, rule.example) in said | test_topology.SAID
    assert len(rule.example) <= LIMIT
