"""The rotation table: what is asked for in every state a CA can be found in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from certs.plan import RenewalPolicy, RotationStep, Stored, Validity, decide

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = RenewalPolicy()


def lasting(*, since: timedelta, left: timedelta) -> Validity:
    return Validity(NOW - since, NOW + left)


FRESH = lasting(since=10 * DAY, left=355 * DAY)
JUST_DUE = Validity(NOW - 244 * DAY, NOW + 121 * DAY)
NOT_QUITE_DUE = Validity(NOW - 243 * DAY, NOW + 122 * DAY)
EXPIRED = lasting(since=366 * DAY, left=timedelta(0))
FUTURE = lasting(since=-300 * DAY, left=665 * DAY)
SECOND = timedelta(seconds=1)

CASES = [
    ("nothing is stored: make a CA", Stored(), True, RotationStep.CREATE),
    ("a fresh CA is kept", Stored(FRESH), True, RotationStep.KEEP),
    ("a CA that is not valid yet is replaced", Stored(FUTURE), True, RotationStep.CREATE),
    (
        "a CA that is not valid yet is followed at once by a next one that is",
        Stored(FUTURE, FRESH),
        False,
        RotationStep.PROMOTE,
    ),
    ("a CA and its next that are not valid yet: make one", Stored(FUTURE, FUTURE), True, RotationStep.CREATE),
    (
        "a next CA that is not valid yet is made anew",
        Stored(JUST_DUE, FUTURE, published_at=NOW),
        True,
        RotationStep.START_ROTATION,
    ),
    ("an expired CA with nothing to follow it: make one", Stored(EXPIRED), True, RotationStep.CREATE),
    ("an expired CA is followed at once by the next", Stored(EXPIRED, FRESH), False, RotationStep.PROMOTE),
    ("an expired CA and an expired next: make one", Stored(EXPIRED, EXPIRED), True, RotationStep.CREATE),
    ("no signer but a next: it signs", Stored(None, FRESH), False, RotationStep.PROMOTE),
    ("just before two thirds of its life the CA is kept", Stored(NOT_QUITE_DUE), True, RotationStep.KEEP),
    ("at two thirds of its life the rotation starts", Stored(JUST_DUE), True, RotationStep.START_ROTATION),
    ("the next CA is not published yet: wait", Stored(JUST_DUE, FRESH), False, RotationStep.KEEP),
    ("the next CA is seen published: say when", Stored(JUST_DUE, FRESH), True, RotationStep.RECORD_PUBLICATION),
    (
        "published 14 s ago: wait",
        Stored(JUST_DUE, FRESH, published_at=NOW - 14 * SECOND),
        True,
        RotationStep.KEEP,
    ),
    (
        "published 15 s ago: the next CA signs",
        Stored(JUST_DUE, FRESH, published_at=NOW - 15 * SECOND),
        True,
        RotationStep.PROMOTE,
    ),
    (
        "published, but a client has lost the bundle since: wait",
        Stored(JUST_DUE, FRESH, published_at=NOW - 15 * SECOND),
        False,
        RotationStep.KEEP,
    ),
    (
        "published in the future by a clock since set back: the next CA signs",
        Stored(JUST_DUE, FRESH, published_at=NOW + DAY),
        True,
        RotationStep.PROMOTE,
    ),
    ("a next CA that expired unused is made anew", Stored(JUST_DUE, EXPIRED), True, RotationStep.START_ROTATION),
    (
        "a retired CA stays while its leaves may live",
        Stored(FRESH, None, (JUST_DUE,), promoted_at=NOW - 29 * DAY),
        True,
        RotationStep.KEEP,
    ),
    (
        "a retired CA goes once its last leaf has expired",
        Stored(FRESH, None, (JUST_DUE,), promoted_at=NOW - 30 * DAY),
        True,
        RotationStep.PRUNE,
    ),
    ("an expired retired CA goes at once", Stored(FRESH, None, (EXPIRED,), promoted_at=NOW), True, RotationStep.PRUNE),
    ("a retired CA of unknown history goes", Stored(FRESH, None, (JUST_DUE,)), True, RotationStep.PRUNE),
]


@pytest.mark.parametrize(("stored", "published", "step"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_table(stored: Stored, published: bool, step: RotationStep) -> None:
    assert decide(stored, NOW, POLICY, published=published) is step


def test_a_clock_forty_days_ahead_after_a_sleep_finds_the_rotation_due() -> None:
    stored = Stored(NOT_QUITE_DUE)
    assert decide(stored, NOW + 40 * DAY, POLICY, published=True) is RotationStep.START_ROTATION


def test_a_shorter_wait_is_the_policys_to_choose() -> None:
    hasty = replace(POLICY, publish_wait=timedelta(0))
    assert decide(Stored(JUST_DUE, FRESH, published_at=NOW), NOW, hasty, published=True) is RotationStep.PROMOTE
