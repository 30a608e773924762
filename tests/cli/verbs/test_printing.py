"""Tables, ages, names and formats as kubectl prints them."""

from __future__ import annotations

import json

import pytest

from api.objects import Raw
from cli.target import UsageError
from cli.verbs.printing import Output, PrintedTable, age, done, output, table, written

QUEUE: Raw = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "main", "managedFields": [{"manager": "x"}]},
}
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 5, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 5 * MINUTE, "7h5m"),
        (9 * HOUR + 5 * MINUTE, "9h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (7 * DAY + HOUR, "7d1h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (731 * DAY, "2y1d"),
        (9 * 365 * DAY, "9y"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_a_table_has_the_columns_widths_of_kubectl() -> None:
    made = PrintedTable(("Name", "Pending Workloads", "Age"), [("a", "1", "5s"), ("a-longer-name", "22", "3m")])
    assert table(made) == (
        "NAME            PENDING WORKLOADS   AGE\n"
        "a               1                   5s\n"
        "a-longer-name   22                  3m\n"
    )


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    assert table(PrintedTable(("Name",), [("a\x1b[2Jb",)])) == "NAME\na [2Jb\n"


def test_what_was_written_is_one_line() -> None:
    assert done(QUEUE, "created") == "clusterqueue.kueue.x-k8s.io/main created\n"
    assert done(QUEUE, "created", "server") == "clusterqueue.kueue.x-k8s.io/main created (server dry run)\n"


def test_formats() -> None:
    items = {"kind": "ClusterQueueList", "items": [QUEUE]}
    assert written(items, output("name")) == "clusterqueue.kueue.x-k8s.io/main\n"
    assert written(items, output("jsonpath={.items[*].metadata.name}")) == "main"
    assert written(items, output("jsonpath", "{.items[*].metadata.name}")) == "main"
    assert json.loads(written(items, output("jsonpath-as-json={.items[*].kind}"))) == ["ClusterQueue"]
    assert json.loads(written(QUEUE, output("json")))["metadata"] == {"name": "main"}
    assert "managedFields" in written(QUEUE, output("yaml"), managed_fields=True)
    assert output("wide") == Output("wide")


@pytest.mark.parametrize("text", ["xml", "go-template={{.}}", "jsonpath", "json=x"])
def test_other_formats_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-o "):
        output(text)
