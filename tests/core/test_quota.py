"""Quota in trees of cohorts, by cases one can work out by hand."""

from hypothesis import given
from hypothesis import strategies as st

from core.model import ClusterQueue, Cohort, Key, Quota
from core.quota.node import QueueNode, borrowing_level
from core.quota.tree import Forest, build_trees, circular
from core.quota.usage import Reservation, Usage
from tests.builders import DEFAULT, cluster_queue, workload


def only(*queues: ClusterQueue, cohorts: dict[str, Cohort] | None = None) -> Forest:
    (tree,) = build_trees(cohorts or {}, {q.name: q for q in queues}, ()).values()
    return tree


def test_a_queue_alone_has_its_nominal_quota() -> None:
    node = only(cluster_queue("a", 5)).queues["a"]
    node.add({DEFAULT: 2})
    assert (node.available(DEFAULT), node.potential(DEFAULT), borrowing_level(node, DEFAULT, 9)) == (3, 5, (0, False))


def test_members_of_a_cohort_borrow_what_others_do_not_use() -> None:
    tree = only(cluster_queue("a", 5, cohort="all"), cluster_queue("b", 3, cohort="all"))
    tree.queues["b"].add({DEFAULT: 2})
    assert (tree.queues["a"].available(DEFAULT), tree.queues["a"].potential(DEFAULT)) == (6, 8)


def test_a_borrowing_limit_bounds_what_is_borrowed_and_a_lending_limit_what_is_lent() -> None:
    tree = only(cluster_queue("a", 5, cohort="all", borrowing=1), cluster_queue("b", 6, cohort="all", lending=2))
    a, b = tree.queues["a"], tree.queues["b"]
    assert (a.potential(DEFAULT), b.potential(DEFAULT)) == (6, 11)
    b.add({DEFAULT: 6})
    assert a.available(DEFAULT) == 5


def test_own_quota_of_a_cohort_and_levels_of_borrowing_go_up_the_tree() -> None:
    cohorts = {"team": Cohort("team", parent="org", quotas={DEFAULT: Quota(4)}), "org": Cohort("org")}
    tree = only(cluster_queue("a", 1, cohort="team"), cluster_queue("b", 10, cohort="org"), cohorts=cohorts)
    a = tree.queues["a"]
    assert [borrowing_level(a, DEFAULT, n) for n in (1, 5, 6, 99)] == [(0, True), (1, True), (2, False), (2, False)]
    assert a.path() == "/org/team/a"


def test_parents_in_a_circle_leave_their_queues_alone() -> None:
    cohorts = {"x": Cohort("x", parent="y"), "y": Cohort("y", parent="x")}
    trees = build_trees(cohorts, {"a": cluster_queue("a", 5, cohort="x"), "b": cluster_queue("b", 1)}, ("a",))
    assert sorted(trees) == ["queue/a", "queue/b"]
    assert circular(cohorts, "x") and not circular(cohorts, "z")


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=12),
)
def test_usage_that_is_kept_is_usage_recomputed(
    quotas: list[tuple[int, int | None, int | None]], held: list[tuple[int, int]]
) -> None:
    cohorts = {"c1": Cohort("c1", parent="c0", quotas={DEFAULT: Quota(2, None, 1)})}
    queues = {
        f"q{i}": cluster_queue(f"q{i}", nominal, cohort=f"c{i % 2}", borrowing=borrowing, lending=lending)
        for i, (nominal, borrowing, lending) in enumerate(quotas)
    }
    trees = build_trees(cohorts, queues, ())
    for number, (index, amount) in enumerate(held):
        name = f"q{index % len(quotas)}"
        tree = next(tree for tree in trees.values() if name in tree.queues)
        key = Key("ns", f"w{number // 2}")
        if any(key in queue.reserved for queue in tree.queues.values()):
            tree.release(key, next(q.name for q in tree.queues.values() if key in q.reserved))
        else:
            usage = Usage({DEFAULT: amount})
            tree.reserve(key, Reservation(workload(key.name, amount), name, usage, True, False, (True, 0, 0.0, "")))
        tree.check()
        copy = tree.copy()
        copy.check()
        node: QueueNode = copy.queues[name]
        assert node.available(DEFAULT) == tree.queues[name].available(DEFAULT) <= node.potential(DEFAULT)
