"""The actions of all rules about objects, and how one is chosen: the first rule that answers decides.

One vocabulary, so that one reconciler (``controller.cache.reconciler``) applies what any chain of rules decides. A
write without ``target`` is of the object that is reconciled. ``why`` is a word of the chain for the write: it is
logged, and tests know the write by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

from api.objects import Key, Raw, Resource
from core.model import Workload
from core.model.events import Event
from core.wire.conditions import status_patch
from core.wire.guard import unversioned

A = TypeVar("A")
P = ParamSpec("P")


class Target(NamedTuple):
    """The object to write, if it is not the one that is reconciled."""

    resource: Resource
    key: Key


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object, or of its subresource.

    ``apply``: the body is for a server-side apply, which keeps the other elements of a list. ``or_else``: the body to
    write if the object has another version, or may not have the first: what its owner writes, however often, must not
    prevent what enforces quota. ``after`` is the Workload
    after the write, if it is one of its status. ``events`` are emitted on the object that is reconciled,
    ``target_events`` on the one that is written.
    """

    body: Raw
    subresource: str = ""
    target: Target | None = None
    apply: bool = False
    _: KW_ONLY
    or_else: Raw | None = None
    after: Workload | None = None
    why: str = ""
    events: tuple[Event, ...] = ()
    target_events: tuple[Event, ...] = ()


def insisted(patch: Patch) -> Patch:
    """The same patch, made whatever others change in the object at the same time."""
    return replace(patch, or_else=unversioned(patch.body))


@dataclass(frozen=True, slots=True)
class Create:
    """A new object. ``part`` is what it is for of the object that is reconciled, e.g. one check of several."""

    manifest: Raw
    resource: Resource
    _: KW_ONLY
    part: str = ""
    why: str = ""
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """The deletion of the object that has this uid."""

    uid: str
    target: Target | None = None
    _: KW_ONLY
    why: str = ""
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until something changes, or so many seconds have passed."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """Work that does not fit in one turn, because what is to be written is found first, or in other places: the
    reconciler's ``deferred`` does it, with a turn and a new decision for each write.
    """


Write: TypeAlias = Patch | Create | Delete


@dataclass(frozen=True, slots=True)
class Writes:
    """Several writes, in order; ``events`` are emitted after the last one."""

    steps: Sequence[Write]
    _: KW_ONLY
    why: str = ""
    events: tuple[Event, ...] = ()


Action: TypeAlias = Write | Writes | Deferred | Wait


def steps_of(action: Write | Writes) -> Sequence[Write]:
    """The writes of an action, in order."""
    return action.steps if isinstance(action, Writes) else (action,)


def first(rules: Iterable[Callable[P, A | None]], *args: P.args, **kwargs: P.kwargs) -> A | None:
    """The action of the first rule that asks for one; None if no rule does."""
    for rule in rules:
        action = rule(*args, **kwargs)
        if action is not None:
            return action
    return None


def status(
    before: Workload, after: Workload, why: str = "", *events: Event, target: Target | None = None
) -> Patch | None:
    """The write that changes the status of a Workload from one value to the other; None if they do not differ."""
    patch = status_patch(before, after)
    return Patch(patch, "status", target, after=after, why=why, events=events) if patch else None
