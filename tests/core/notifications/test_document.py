"""What receivers get, and which addresses may be called."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from core.model import Key
from core.model.owner import Owner
from core.notifications.addresses import refused
from core.notifications.document import LONGEST_MESSAGE, document, filled, text
from core.notifications.model import Notification, NotificationKind

LATE = Notification(
    NotificationKind.WAITING,
    1_700_003_600.0,
    Key("ns", "job-train-1a2b3"),
    "uid",
    Owner("batch", "Job", "ns", "train"),
    "lq",
    "cq",
    7,
    message="insufficient unused quota",
    seconds=5_400,
)


def test_a_cloud_event_is_whole() -> None:
    assert document(LATE, "/seiretsu", dropped=3) == {
        "specversion": "1.0",
        "id": "uid.waiting.1700003600",
        "source": "/seiretsu",
        "type": "io.seiretsu.workload.waiting.v1",
        "subject": "ns/job-train-1a2b3",
        "time": "2023-11-14T23:13:20Z",
        "datacontenttype": "application/json",
        "data": {
            "namespace": "ns",
            "workload": "job-train-1a2b3",
            "uid": "uid",
            "job": {"group": "batch", "kind": "Job", "name": "train"},
            "localQueue": "lq",
            "clusterQueue": "cq",
            "priority": 7,
            "reason": "",
            "message": "insufficient unused quota",
            "text": text(LATE),
            "waitedSeconds": 5_400,
            "droppedBefore": 3,
        },
    }


def about(kind: NotificationKind, *, times: int | None = None, seconds: int | None = None, message: str = "m") -> str:
    return text(Notification(kind, 0.0, Key("ns", "w"), "u", None, "lq", "cq", 0, "R", message, seconds, times))


def test_each_kind_has_its_sentence() -> None:
    kind = NotificationKind
    assert text(LATE) == (
        'Job train in namespace ns has waited for 90 min in ClusterQueue "cq": insufficient unused quota'
    )
    assert about(kind.ADMITTED, seconds=5) == (
        'Workload w in namespace ns was admitted by ClusterQueue "cq" after waiting 5 s'
    )
    assert about(kind.PREEMPTED) == 'Workload w in namespace ns was preempted in ClusterQueue "cq": m'
    assert about(kind.FAILED, message="") == "Workload w in namespace ns failed: R"
    assert about(kind.STARVING, times=9, seconds=200_000) == (
        "Workload w in namespace ns starves: in 2 d, 9 younger workloads with at most its priority got quota of"
        ' ClusterQueue "cq" before it'
    )
    assert about(kind.LOOP, times=5) == "Workload w in namespace ns was evicted 5 times for the same reason, R: m"


def test_a_body_for_a_chat_system_keeps_its_form_and_its_texts_name_nobody() -> None:
    message = 'x", "channel": "#all <!channel> @here [click](http://evil) `code`\nnew line'
    found = filled({"text": "*{type}*: {message}", "list": [{"n": "{namespace}"}, 3]}, _with(message))
    assert found == {
        "text": '*waiting*: x", "channel": "#all ‹!channel› ＠here (click)(http://evil) \'code\' new line',
        "list": [{"n": "ns"}, 3],
    }


def test_a_text_is_not_filled_twice() -> None:
    assert filled({"text": "{message}"}, _with("{namespace}")) == {"text": "{namespace}"}


def test_long_messages_are_cut() -> None:
    found = document(_with("x" * 5_000), "/s")["data"]["message"]
    assert (len(found), found[-3:]) == (LONGEST_MESSAGE, "...")


def _with(message: str) -> Notification:
    return Notification(NotificationKind.WAITING, 0.0, Key("ns", "w"), "u", None, "lq", "cq", 0, message=message)


@pytest.mark.parametrize(
    ("address", "networks", "allowed"),
    [
        ("8.8.8.8", [], True),
        ("2606:4700::1111", [], True),
        ("10.0.0.1", [], False),
        ("10.0.0.1", ["10.0.0.0/8"], True),
        ("10.0.0.1", ["192.168.0.0/16"], False),
        ("127.0.0.1", [], False),
        ("::1", [], False),
        ("100.64.0.1", [], False),
        ("fd00::1", [], False),
        ("fec0::1", [], False),
        ("169.254.169.254", ["0.0.0.0/0"], False),
        ("fe80::1%eth0", ["::/0"], False),
        ("0.0.0.0", ["0.0.0.0/0"], False),
        ("::ffff:10.0.0.1", [], False),
        ("::ffff:169.254.169.254", ["::/0"], False),
        ("64:ff9b::a00:1", [], False),
        ("2002:a00:1::", [], False),
        ("not an address", ["0.0.0.0/0"], False),
    ],
)
def test_addresses(address: str, networks: list[str], allowed: bool) -> None:
    assert (refused(address, [ip_network(each) for each in networks]) == "") is allowed
