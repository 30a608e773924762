"""What to do next about the CA, from what is stored and the time: the rotation as one pure table.

A CA is replaced in three phases, because a caBundle that loses the old CA before every serving certificate has changed
is a total outage (measured: every call of 4 s failed), while old and new together never fail one:

1. `START_ROTATION`: make the next CA and publish a bundle of both; `RECORD_PUBLICATION` once every client's bundle has
   been re-read and carries it.
2. `PROMOTE`, no sooner than `publish_wait` later: the next CA signs from now on; every replica renews its leaf.
3. `PRUNE`, once no leaf of the old CA can be alive: it leaves the bundle.

Everything the table reads is stored beside the CA, so that a crash between any two steps resumes from there.

Validity counts on both sides. A CA that is not valid yet was made by a process whose clock was wrong: nobody accepts
what it signs, so it is replaced like one that has expired. It stays in the bundle, where it does no harm: should it be
our clock that is wrong, the leaves that others serve go on verifying. Whose clock is right is not decided here: `now`
is the API server's time wherever it is known, for the API server is who verifies (`controller.kube.clock`), and so all
replicas judge by one clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class RenewalPolicy:
    """How long things live. `renew_fraction` of a life spent makes its renewal due, for the CA and for the leaf."""

    authority_life: timedelta = timedelta(days=365)
    leaf_life: timedelta = timedelta(days=30)
    renew_fraction: float = 2 / 3
    publish_wait: timedelta = timedelta(seconds=15)

    @property
    def retire_after(self) -> timedelta:
        """How long a replaced CA stays trusted: until the last leaf it can have signed has expired."""
        return self.leaf_life


class Validity(NamedTuple):
    """From when until when a certificate is good."""

    not_before: datetime
    not_after: datetime

    def holds(self, now: datetime) -> bool:
        """Whether `now` is within the validity."""
        return self.not_before <= now < self.not_after


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored CA as the table sees it.

    `signing` signs leaves; `next` waits to follow it; `retired` are only trusted. `published_at` is when the bundle
    with `next` was first seen with every client, `promoted_at` when `signing` last changed by rotation.
    """

    signing: Validity | None = None
    next: Validity | None = None
    retired: tuple[Validity, ...] = ()
    published_at: datetime | None = None
    promoted_at: datetime | None = None


class RotationStep(Enum):
    """The steps that the table can return; see the module's text."""

    CREATE = auto()
    KEEP = auto()
    START_ROTATION = auto()
    RECORD_PUBLICATION = auto()
    PROMOTE = auto()
    PRUNE = auto()


def decide(stored: Stored, now: datetime, policy: RenewalPolicy, *, published: bool) -> RotationStep:
    """The one next step. `published`: every client's bundle has just been read and carries the stored bundle."""
    if stored.signing is None or not stored.signing.holds(now):
        # Nothing verifies: a next CA that is good is better late than never.
        return RotationStep.PROMOTE if stored.next is not None and stored.next.holds(now) else RotationStep.CREATE
    if stored.next is not None:
        return _rotate(stored, stored.next, now, policy, published=published)
    life = stored.signing.not_after - stored.signing.not_before
    if now >= stored.signing.not_before + life * policy.renew_fraction:
        return RotationStep.START_ROTATION
    if stored.retired and _prunable(stored, now, policy):
        return RotationStep.PRUNE
    return RotationStep.KEEP


def _rotate(
    stored: Stored, following: Validity, now: datetime, policy: RenewalPolicy, *, published: bool
) -> RotationStep:
    if not following.holds(now):
        return RotationStep.START_ROTATION
    if not published:
        return RotationStep.KEEP
    if stored.published_at is None:
        return RotationStep.RECORD_PUBLICATION
    # The distance, not the difference: a clock that is set back after the publication must not block the rotation for
    # ever.
    return RotationStep.PROMOTE if abs(now - stored.published_at) >= policy.publish_wait else RotationStep.KEEP


def _prunable(stored: Stored, now: datetime, policy: RenewalPolicy) -> bool:
    if any(now >= validity.not_after for validity in stored.retired):
        return True
    return stored.promoted_at is None or now - stored.promoted_at >= policy.retire_after
