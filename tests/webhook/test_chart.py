from pathlib import Path

from webhook import backstop, enforcement
from webhook.chart import template

CHART = Path(__file__).parents[2] / "charts" / "seiretsu"


def test_the_template_in_the_chart_is_the_one_the_table_of_hooks_gives() -> None:
    assert (CHART / "templates" / "webhooks.yaml").read_text() == template(), "run `make generate`"


def test_the_template_of_the_admission_policies_in_the_chart_is_the_generated_one() -> None:
    assert (CHART / "templates" / "backstop.yaml").read_text() == backstop.template(), "run `make generate`"
    assert (CHART / "templates" / "enforcement.yaml").read_text() == enforcement.template(), "run `make generate`"
