"""What the controller and the process that makes forecasts send each other.

A message is four bytes of length and a pickle: the other end of the pipe is the same program.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from api.objects import Key
from core.forecast.edits import ObjectEdit
from core.forecast.newcomers import NewcomerKind
from core.forecast.situation import Situation
from core.model import Node, Requests, Workload
from core.model.effects import Effects
from core.model.forecast import StartForecast

LENGTH: Final = struct.Struct("<I")
AT_ONCE: Final = 100
"""So many workloads or starts are in one message: a third of a millisecond of the event loop at the other end."""


class RunTimesKnown(Struct):
    """What the process knew already: all that it learned about run times in an earlier one."""

    run_times: bytes
    since: float
    """Since when arrivals are known."""


class Arrived(Struct):
    """Workloads that were created."""

    workloads: list[Workload]


class Workloads(Struct):
    """Workloads that are new or have changed."""

    workloads: list[Workload]


class Ended(Struct):
    """Workloads that have finished, and how long they ran."""

    ran: list[tuple[Workload, float]]


class Named(Struct):
    """The keys of some workloads of the next question."""

    waiting: list[Key]
    holding: list[Key]


NodeRecord: TypeAlias = tuple[str, Node | None, Requests | None]
"""The name of a node, the node unless it is gone, and what other pods use there."""


class Nodes(Struct):
    """Nodes of topologies that are new or have changed, with what other pods use there, and those that are gone. A
    question about an arena with a topology is about all of them.
    """

    nodes: list[NodeRecord]


class Question(Struct):
    """A situation whose workloads are those that were named since the last question. Others of the arena are forgotten.
    ``placed``: with the nodes that were sent. ``quick``: the first answer is enough. ``arrivals``: others are taken to
    arrive as lately.
    """

    about: Situation
    seed: int
    placed: bool = False
    quick: bool = False
    arrivals: bool = False


class Compare(Struct):
    """An edit of a situation whose workloads are those that were named. ``seconds`` is the CPU time for the starts that
    move, 0 if these are not asked for.
    """

    about: Situation
    edit: ObjectEdit
    seed: int
    seconds: float


class Compared(Struct):
    """Whom the edit hits; ``starts``: also whose start moves. ``last``: there is no better answer."""

    effects: Effects
    starts: bool = False
    last: bool = False


class Starts(Struct):
    """A part of an answer."""

    starts: list[StartForecast]


class Newcomers(Struct):
    """The answers for jobs that do not exist yet."""

    starts: list[tuple[NewcomerKind, StartForecast]]


class ArenasGone(Struct):
    """Arenas that do not exist any more: what is known of them is forgotten."""

    arenas: list[str]


class Answer(Struct):
    """The parts before it are one answer about an arena; ``last``: the question is answered."""

    arena: str
    at: float
    final: bool
    last: bool
    runs: int
    seconds: float


def encoded(message: object) -> Iterable[bytes]:
    """Returns a message as it is sent."""
    data = pickle.dumps(message, protocol=5)
    return LENGTH.pack(len(data)), data


def decoded(data: bytes) -> Any:
    """Returns the message of these bytes, which the other end of the pipe has written."""
    return pickle.loads(data)
