from pathlib import Path

import pytest

from bench import flow
from controller.kube.flow import limits

PAGE = Path(__file__).parents[2] / "docs" / "flow.md"
QUICK = ("SMOOTHING", "REFUSED_SLOWDOWN", "RECOVERY_SECONDS", "HIGHEST_IDLE_SECONDS", "DEFERRED_AT_ONCE", "MANY_CALLS")
"""Figures whose plays take less than a tenth of a second."""


def test_each_figure_of_flow_control_is_measured() -> None:
    figures = {name for name, value in vars(limits).items() if name.isupper() and isinstance(value, int | float)}
    assert figures - {each.name for each in flow.QUESTIONS} == {"SHORTEST_IDLE_SECONDS"}


@pytest.mark.parametrize("question", [pytest.param(each, id=each.name) for each in flow.QUESTIONS])
def test_the_page_has_the_value_of_each_figure(question: flow.Question) -> None:
    assert f"| `{question.name}` {getattr(limits, question.name):.4g} |" in PAGE.read_text()


@pytest.mark.parametrize(
    "question", [pytest.param(each, id=each.name) for each in flow.QUESTIONS if each.name in QUICK]
)
def test_the_page_has_what_is_measured(question: flow.Question) -> None:
    assert "\n".join(flow.rows(question)) in PAGE.read_text()


def test_a_figure_that_was_changed_for_a_play_is_restored() -> None:
    before = limits.CLIMB
    with flow.changed("CLIMB", 2.0):
        assert before * 2 == limits.CLIMB
    assert before == limits.CLIMB
