"""The loop of all reconcilers: what is decided again, what a refusal and an object that is gone lead to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from api.objects import Key, Raw, Resource, key_of
from api.resources import POD_TEMPLATES, WORKLOADS
from controller.cache.churn import FREE, Churn
from controller.cache.reconciler import Reconciler
from controller.kube.errors import ApiError, Conflict, Forbidden, NotFound
from core.actions import Action, Create, Delete, Patch, Target, Wait, Write, Writes, first, insisted
from core.model.events import NORMAL, Event

KEY = Key("ns", "w")
EVENT, OTHER = Event(NORMAL, "Done", "it is done"), Event(NORMAL, "Patched", "it is patched")
AT = Target(POD_TEMPLATES, Key("ns", "t"))
BODY: Raw = {"metadata": {"uid": "u-t"}, "spec": {}}
GONE, REFUSED = NotFound(404, "NotFound", "it is gone"), Forbidden(403, "Forbidden", "you may not")


@dataclass
class World:
    """What is decided, a writer that answers with ``errors`` in turn, and a recorder. ``meanwhile`` is called when a
    turn begins.
    """

    action: Action | None
    meanwhile: Callable[[World], object] = lambda world: None
    errors: list[ApiError | None] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Raw] = field(default_factory=list)
    turns: int = 0
    churn: Churn = field(default_factory=Churn)

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str, *, first: bool) -> AsyncIterator[None]:
        self.turns += 1
        self.meanwhile(self)
        yield

    def _write(self, verb: str, resource: Resource, key: str) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.written.append(f"{verb} {resource.plural} {key}")

    async def create(self, resource: Resource, body: Raw) -> Raw:
        self._write("create", resource, body["metadata"]["name"])
        self.churn.created(resource, key_of(body))
        return body

    async def patch(self, resource: Resource, key: Key, body: Raw, *, subresource: str, kind: str) -> Raw:
        self._write(f"{kind} {subresource}".strip(), resource, key.name)
        self.bodies.append(body)
        return body

    async def delete(self, resource: Resource, key: Key, uid: str) -> None:
        self._write("delete", resource, key.name)

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.events.append((uid, event.reason))


class Example(Reconciler[str]):
    """Reconciles one Workload by what the world says."""

    workers = 1

    def __init__(self, world: World) -> None:
        super().__init__("example", WORKLOADS, cast(Any, world), cast(Any, world))
        self.world = world
        self.done: list[str] = []

    def gather(self, key: Key) -> str | None:
        return "situation" if self.world.action is not None else None

    def decide(self, situation: str) -> Action:
        assert self.world.action is not None
        return self.world.action

    def about(self, situation: str) -> tuple[Key, str]:
        return KEY, "u-w"

    async def refused(self, key: Key, situation: str, write: Write, error: ApiError) -> None:
        self.done.append(f"refused {type(error).__name__}")
        if not isinstance(error, Forbidden):
            raise error

    def created(self, key: Key, situation: str, create: Create, answer: Raw) -> None:
        self.done.append(f"created {answer['metadata']['name']}")

    async def written(self, key: Key, situation: str, action: Write | Writes) -> None:
        self.done.append(f"written {action.why}")


CREATE = Create({"metadata": {"name": "t"}}, POD_TEMPLATES, why="create", events=(EVENT,))
STATUS = Patch(BODY, "status", why="status", events=(EVENT,))
OF_ANOTHER = Patch(BODY, target=AT, apply=True, why="other", events=(EVENT,), target_events=(OTHER,))
DELETION = Delete("u-w", why="delete", events=(EVENT,))
SEVERAL = Writes((Patch(BODY), Delete("u-t", AT)), why="several", events=(EVENT,))


async def test_what_is_insisted_on_is_written_although_others_change_the_object() -> None:
    """Its second body is; a patch without one is decided again, and so is one that is refused twice."""
    conflict = Conflict(409, "Conflict", "another version")
    body: Raw = {"metadata": {"uid": "u-w", "resourceVersion": "5"}, "spec": {"suspend": True}}
    world = World(insisted(Patch(body, events=(EVENT,))), errors=[conflict])
    await Example(world).reconcile(KEY)
    assert (world.bodies, world.events) == (
        [{"metadata": {"uid": "u-w"}, "spec": {"suspend": True}}],
        [("u-w", "Done")],
    )

    for action, errors in ((Patch(body), [conflict]), (insisted(Patch(body)), [conflict, conflict])):
        world = World(action, errors=[*errors])
        with pytest.raises(Conflict):
            await Example(world).reconcile(KEY)
        assert world.bodies == []


@pytest.mark.parametrize(
    ("action", "written", "events"),
    [
        (CREATE, ["create podtemplates t"], ["Done"]),
        (STATUS, ["merge status workloads w"], ["Done"]),
        (OF_ANOTHER, ["apply podtemplates t"], ["Patched", "Done"]),
        (DELETION, ["delete workloads w"], ["Done"]),
        (SEVERAL, ["merge workloads w", "delete podtemplates t"], ["Done"]),
    ],
    ids=lambda value: getattr(value, "why", None),
)
async def test_an_action_is_written_with_its_events(action: Action, written: list[str], events: list[str]) -> None:
    world = World(action)
    example = Example(world)
    assert await example.reconcile(KEY) is None
    assert (world.written, [reason for _, reason in world.events]) == (written, events)
    assert world.turns == 1 and example.done[-1] == f"written {getattr(action, 'why', '')}"


async def test_an_event_on_what_is_written_names_that_object() -> None:
    world = World(OF_ANOTHER)
    await Example(world).reconcile(KEY)
    assert world.events == [("u-t", "Patched"), ("u-w", "Done")]


async def test_waiting_takes_no_turn() -> None:
    world = World(Wait(5.0))
    assert (await Example(world).reconcile(KEY), world.turns, world.written) == (5.0, 0, [])


@pytest.mark.parametrize(
    ("then", "again", "written"),
    [(None, None, []), (Wait(7.0), 7.0, []), (DELETION, None, ["delete workloads w"])],
    ids=["it is gone", "there is nothing to do any more", "something else is to be done"],
)
async def test_what_changes_before_the_turn_is_decided_again(
    then: Action | None, again: float | None, written: list[str]
) -> None:
    world = World(STATUS, lambda world: setattr(world, "action", then))
    assert await Example(world).reconcile(KEY) == again
    assert world.written == written


async def test_an_object_that_is_gone_has_no_event_and_is_no_error() -> None:
    world = World(STATUS, errors=[GONE])
    example = Example(world)
    assert await example.reconcile(KEY) is None
    assert (world.events, example.done) == ([], [])


async def test_several_writes_go_on_when_one_object_is_gone() -> None:
    world = World(SEVERAL, errors=[GONE])
    await Example(world).reconcile(KEY)
    assert (world.written, world.events) == (["delete podtemplates t"], [("u-w", "Done")])


async def test_a_refusal_that_is_handled_is_not_raised_and_has_no_event() -> None:
    world = World(CREATE, errors=[REFUSED])
    example = Example(world)
    await example.reconcile(KEY)
    assert (world.events, example.done) == ([], ["refused Forbidden"])


@pytest.mark.parametrize("action", [STATUS, CREATE, SEVERAL], ids=lambda action: action.why)
async def test_any_other_error_is_raised_so_that_the_queue_tries_again(action: Action) -> None:
    world = World(action, errors=[Conflict(409, "Conflict", "it has changed")])
    with pytest.raises(Conflict):
        await Example(world).reconcile(KEY)
    assert (world.written, world.events) == ([], [])


async def test_what_is_deleted_whenever_it_was_created_is_created_later_and_reported() -> None:
    """Whatever it is: every reconciler asks, and the writer of each cluster counts."""
    for action in (CREATE, Writes([CREATE], why="several")):
        world = World(action)
        waits = [await Example(world).reconcile(KEY) for _ in range(FREE + 2)]
        assert [wait is None for wait in waits] == [True] * FREE + [False] * 2
        assert (len(world.written), [reason for _, reason in world.events if reason != "Done"]) == (
            FREE,
            ["WorkloadCreatedAgain"],
        )


async def test_an_object_that_cannot_be_created_because_its_namespace_is_gone_is_refused() -> None:
    world = World(CREATE, errors=[GONE])
    with pytest.raises(NotFound):
        await Example(world).reconcile(KEY)


def test_the_first_rule_that_answers_decides() -> None:
    asked: list[str] = []

    def rule(name: str, answer: str | None) -> Callable[[int], str | None]:
        def asks(situation: int) -> str | None:
            asked.append(f"{name} {situation}")
            return answer

        return asks

    assert first((rule("a", None), rule("b", "write"), rule("c", "wait")), 1) == "write"
    assert asked == ["a 1", "b 1"]
    assert first((rule("d", None),), 2) is None
