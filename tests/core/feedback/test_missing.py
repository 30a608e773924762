"""Names that do not exist: the one that was meant is found at bounded cost, and every text says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feedback import change
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.jobs import of_job
from core.feedback.queues import of_cohort, of_local_queue
from core.feedback.rules import (
    EACH,
    HINTS,
    LIMIT,
    LONGEST,
    Finding,
    closest,
    fitted,
    resembles,
    shortened,
)
from core.model import Raw
from core.wire import decode
from tests.core.feedback.world import job, world
from tests.cost import times

names = st.text(alphabet="abcdefghij-", min_size=1, max_size=253)
words = st.text(alphabet="abc", max_size=9)


def by_the_textbook(one: str, other: str) -> int:
    """The distance by its whole table."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i] + [0] * len(other)
        for j, against in enumerate(other, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


@given(words, words, st.integers(0, 9))
def test_texts_resemble_each_other_by_the_distance_of_the_textbook(one: str, other: str, limit: int) -> None:
    exact = by_the_textbook(one, other)
    assert resembles(one, other, limit) is (exact <= limit)


@given(words.filter(bool), st.lists(words.filter(bool), max_size=9))
def test_the_closest_name_is_that_of_comparing_all(name: str, known: list[str]) -> None:
    changed, meant = min(((by_the_textbook(name, each), each) for each in known), default=(99, ""))
    assert closest(name, known) == (meant if changed <= max(1, len(name) // 3) else None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mian", "main"),
        ("man", "main"),
        ("team_a", "team-a"),
        ("MAIN", "main"),
        ("Team-A", "team-a"),
        ("x", None),
        ("maini", "main"),
    ],
)
def test_the_closest_name(written: str, meant: str | None) -> None:
    assert closest(written, ["main", "team-a", "other"]) == meant


ALIKE = [3 * "".join(letters) for letters in permutations("abcdefg")]  # 5,040 names of the same letters


def test_the_closest_of_many_names_costs_no_more_than_in_proportion_to_their_number() -> None:
    few, many = times(
        lambda: closest("gfabcde" * 3, ALIKE[:500]), lambda: closest("gfabcde" * 3, ALIKE[:5000]), rounds=5
    )
    assert many < 2 * 10 * few, f"{many * 1000:.2f} ms for 5,000 names, {few * 1000:.2f} ms for 500"


def test_nothing_is_compared_with_a_name_longer_than_a_label() -> None:
    known = ["a" * length for length in range(1, 253)]
    assert closest("a" * LONGEST, known) == "a" * LONGEST
    assert closest("a" * (LONGEST + 1), known) is None


def flavors(*missing: str) -> list[Raw]:
    quota = [{"name": "cpu", "nominalQuota": 1}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": each, "resources": quota} for each in missing]}]


def of(kind: str, name: str, **spec: object) -> Raw:
    return {"kind": kind, "metadata": {"name": name, "namespace": "team-a"}, "spec": spec}


def test_the_closest_flavor_is_looked_for_once_and_for_so_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(name: str, known: tuple[str, ...]) -> str | None:
        asked.append(name)
        return closest(name, known)

    monkeypatch.setattr(change, "closest", counted)
    missing = [f"standar{n:x}" for n in range(16)]
    queue = decode.cluster_queue(of("ClusterQueue", "new", namespaceSelector={}, resourceGroups=flavors(*missing)))
    found = [each.message for each in of_cluster_queue(Change(None, queue), world()) if each.rule == "flavor-not-found"]
    assert asked == missing[:HINTS]
    assert len([text for text in found if 'did you mean "standard"?' in text]) == EACH - 1
    assert found[EACH - 1 :] == [f"... and {HINTS + 1 - (EACH - 1)} more of rule flavor-not-found"]


def of_missing(name: str, others: list[str]) -> list[Finding]:
    """What every rule about names that do not exist says of this one beside others that do."""
    more = "".join(
        f"""
- kind: LocalQueue
  metadata: {{name: "{other}", namespace: team-a}}
  spec: {{clusterQueue: "{name}"}}
- kind: ClusterQueue
  metadata: {{name: "{other}"}}
  spec: {{namespaceSelector: {{}}}}
- kind: ResourceFlavor
  metadata: {{name: "{other}"}}
"""
        for other in others
    )
    lookup = world(more)
    cluster_queue = decode.cluster_queue(of("ClusterQueue", "new", resourceGroups=flavors(name)))
    local_queue = decode.local_queue(of("LocalQueue", "new", clusterQueue=name))
    cohort = decode.cohort(of("Cohort", "new", resourceGroups=flavors(name)))
    found = [
        *of_job(job(queue=name, priority_class=name), lookup),
        *(each for other in others for each in of_job(job(queue=other, priority_class=name), lookup)),
        *of_cluster_queue(Change(None, cluster_queue), lookup),
        *of_local_queue(Change(None, local_queue), lookup),
        *of_cohort(Change(None, cohort), lookup),
    ]
    return [each for each in found if each.rule.endswith("-not-found")]


RULES = {"local-queue-not-found", "cluster-queue-not-found", "flavor-not-found", "priority-class-not-found"}


@given(names, st.lists(names, max_size=4, unique=True))
def test_whatever_the_names_it_is_said_that_one_does_not_exist(name: str, others: list[str]) -> None:
    name, others = f"x{name}"[:253], [f"y{other}"[:253] for other in others]
    found = of_missing(name, others)
    assert {each.rule for each in found} == RULES
    for each in found:
        assert "does not exist" in each.message
        assert f'"{name[:5]}' in each.message, "the wrong name is there, whatever gives way"
        assert len(each.message) <= LIMIT
        assert not each.message.endswith("..."), each.message


@pytest.mark.parametrize(
    ("name", "others", "text"),
    [
        ("q" * 63, ["p" * 50, "r" * 50], f'LocalQueue "{"q" * 63}" does not exist; available: main and 2 more'),
        (
            "q" * 63,
            ["q" * 62],
            'LocalQueue "qqqqqqqqqqqq..qqqqqqqqqqqq" does not exist in namespace "team-a": did you mean'
            ' "qqqqqqqqqqqq..qqqqqqqqqqqq"?',
        ),
        (
            "q" * 253,
            ["p" * 253],
            'LocalQueue "qqqqqqqqqqqq..qqqqqqqqqqq" does not exist in namespace "team-a"; available: main,'
            " pppppppppppp..ppppppppppp",
        ),
    ],
)
def test_a_list_never_takes_the_place_of_the_wrong_name(name: str, others: list[str], text: str) -> None:
    found = of_missing(name, others)
    assert next(each.message for each in found if each.rule == "local-queue-not-found") == text


@pytest.mark.parametrize(
    "read",
    [
        lambda text: resembles(text, "kueue.x-k8s.io", 2),
        lambda text: resembles("kueue.x-k8s.io", text, 2),
        lambda text: closest(text, ["main", text[1:]]),
        lambda text: fitted(f"{shortened(text)} is not known: {shortened(text)}"),
        lambda text: fitted(" ".join(map(shortened, text[: len(text) // 100])), text),
    ],
    ids=["compared with a name", "a name compared with it", "looked for", "cut", "many cut"],
)
def test_a_text_costs_no_more_than_in_proportion_to_its_length(read: Callable[[str], object]) -> None:
    short, long = ("q" * letters for letters in (20_000, 400_000))
    small, large = times(lambda: read(short), lambda: read(long), rounds=3)
    assert large < 2 * 20 * small, f"{large * 1000:.2f} ms for 400,000 letters, {small * 1000:.2f} ms for 20,000"
