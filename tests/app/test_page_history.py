"""What the page shows of the history: use over time, preemptions and stories, to whom they may be shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.access import Reviews, User
from app.limits import RefusedCallError
from app.page.questions import QuestionAnswers
from app.page.rights import Rights
from controller.history.history import HistoryReader
from controller.kube.flow.throttle import Throttle
from controller.settings import HistorySettings
from tests.controller.history import HOUR, recorded
from tests.paging import EVERYTHING, PagedCluster, reader

DAYS = 5 / 24


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("page"))


def questions(cluster: PagedCluster, directory: Path) -> QuestionAnswers:
    return QuestionAnswers(
        cluster.caches,
        str,
        HistoryReader(HistorySettings(str(directory))),
        clock=lambda: 5 * HOUR,
        compare=cluster.compare,
    )


def rights(cluster: PagedCluster, user: str) -> Rights:
    return Rights(User(user), Reviews(cluster.api, throttle=Throttle(0)))


@pytest.fixture(scope="module")
def cluster() -> PagedCluster:
    return PagedCluster(users={"admin": EVERYTHING, "ann": reader("one", "workloads"), "nobody": ()})


async def test_use_over_time_has_quota_for_who_may_see_it(cluster: PagedCluster, directory: Path) -> None:
    found = await questions(cluster, directory).usage(rights(cluster, "admin"), "queue", DAYS, "")
    assert found["used"]
    assert found["nominal"]
    assert all(len(each["values"]) == len(found["times"]) for each in (*found["used"], *found["nominal"]))
    group = found["used"][0]["group"]
    alone = await questions(cluster, directory).usage(rights(cluster, "admin"), "queue", DAYS, "", group)
    assert {each["group"] for each in (*alone["used"], *alone["nominal"], *alone["waiting"])} == {group}


async def test_a_tenant_sees_the_use_of_his_namespace(cluster: PagedCluster, directory: Path) -> None:
    asked = questions(cluster, directory)
    found = await asked.usage(rights(cluster, "ann"), "user", DAYS, "one")
    assert {each["group"] for each in found["used"]} == {"alice"}
    assert found["nominal"] == []
    for namespace in ("", "two"):
        with pytest.raises(RefusedCallError, match="ann may not list workloads"):
            await asked.usage(rights(cluster, "ann"), "user", DAYS, namespace)


async def test_what_is_no_group_is_refused(cluster: PagedCluster, directory: Path) -> None:
    with pytest.raises(RefusedCallError, match="by must be one of queue"):
        await questions(cluster, directory).usage(rights(cluster, "admin"), "colour", DAYS, "")
