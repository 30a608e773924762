import asyncio
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from api.objects import Key
from controller.kube.workqueue import MOST_IN_A_ROW, WorkQueue
from tests.eventually import PATIENCE, eventually


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue[str]:
    return WorkQueue("test", clock=clock, draw=lambda: 1.0)


async def drain(queue: WorkQueue[str], workers: int = 1) -> list[str]:
    """Handles every queued key once, and ends."""
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)

    queue.close()
    await queue.run(workers, look)
    return looked


async def test_a_key_added_repeatedly_is_handled_once_and_the_order_is_kept(queue: WorkQueue[str]) -> None:
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert len(queue) == 3
    assert await drain(queue) == ["b", "a", "c"]


async def test_a_key_that_goes_first_is_taken_before_all_others_even_if_it_was_queued_before(
    queue: WorkQueue[str],
) -> None:
    for key in "abc":
        queue.add(key)
    queue.add("d", first=True)
    queue.add("b", first=True)
    queue.add("d")
    assert len(queue) == 4
    assert await drain(queue) == ["d", "b", "a", "c"]


async def test_a_queue_that_takes_the_newest_first_takes_the_oldest_in_one_of_four_turns() -> None:
    queue: WorkQueue[str] = WorkQueue("test", newest_first=True)
    for key in "abcdefgh":
        queue.add(key)
    assert await drain(queue) == list("hgfaedcb")


def keys(namespace: str, count: int) -> list[Key]:
    return [Key(namespace, str(number)) for number in range(count)]


@pytest.mark.parametrize("first", [False, True])
async def test_ten_thousand_keys_of_one_namespace_delay_those_of_another_by_one_each(first: bool) -> None:
    queue: WorkQueue[Key] = WorkQueue("test")
    for key in keys("many", 10_000):
        queue.add(key, first=first)
    for key in keys("few", 3):
        queue.add(key, first=first)
    looked: list[Key] = []

    async def look(key: Key) -> None:
        looked.append(key)

    queue.close()
    await queue.run(1, look)
    assert looked[:7] == [Key(namespace, number) for number in "012" for namespace in ("many", "few")] + [
        Key("many", "3")
    ]
    assert sorted(looked) == sorted([*keys("many", 10_000), *keys("few", 3)])
    assert [key for key in looked if key.namespace == "many"] == keys("many", 10_000), "in order"


async def test_a_namespace_whose_keys_are_added_again_and_again_takes_no_more_than_its_turns() -> None:
    queue: WorkQueue[Key] = WorkQueue("test")
    looked: list[Key] = []

    async def look(key: Key) -> None:
        looked.append(key)
        if key.namespace == "many":
            queue.add(key)
        if Key("few", "9") in looked:
            queue.close()
            queue.drop()

    for key in [*keys("many", 100), *keys("few", 10)]:
        queue.add(key)
    await queue.run(2, look)
    assert len(looked) <= 2 * 10 + 1


async def test_quota_in_use_comes_first_whatever_namespace_it_is_in() -> None:
    queue: WorkQueue[Key] = WorkQueue("test")
    for namespace in ("a", "b"):
        queue.add(Key(namespace, "new"))
    for number in range(2):
        queue.add(Key("a", f"uses{number}"), first=True)
    looked: list[Key] = []

    async def look(key: Key) -> None:
        looked.append(key)

    queue.close()
    await queue.run(1, look)
    assert [str(key) for key in looked] == ["a/uses0", "a/uses1", "a/new", "b/new"]


async def test_a_key_that_is_to_go_first_does_so_also_if_a_worker_has_it_now(queue: WorkQueue[str]) -> None:
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)
        if looked == ["a"]:
            queue.add("a", first=True)
            queue.add("a")
        if len(looked) == 3:
            queue.close()

    for key in "ab":
        queue.add(key)
    async with asyncio.timeout(PATIENCE):
        await queue.run(1, look)
    assert looked == ["a", "a", "b"]


async def test_workers_that_are_kept_for_keys_that_go_first_take_no_others(queue: WorkQueue[str]) -> None:
    hands: set[str] = set()
    go_on = asyncio.Event()

    async def look(key: str) -> None:
        hands.add(key)
        await go_on.wait()

    for key in "abcd":
        queue.add(key)
    running = asyncio.create_task(queue.run(3, look, kept=1))
    await eventually(lambda: len(hands) == 2)
    queue.add("d", first=True)
    await eventually(lambda: hands == {"a", "b", "d"})
    queue._check()
    queue.close()
    go_on.set()
    async with asyncio.timeout(PATIENCE):
        await running
    assert hands == {"a", "b", "c", "d"}


@pytest.mark.parametrize("fails", [True, False])
async def test_a_key_that_goes_first_does_so_also_after_a_failure_or_a_delay(
    queue: WorkQueue[str], clock: Clock, fails: bool
) -> None:
    looked: list[str] = []

    async def look(key: str) -> float | None:
        looked.append(key)
        if key == "urgent" and looked.count(key) == 1:
            asyncio.get_running_loop().call_soon(pass_the_time)
            if fails:
                raise ValueError("not yet")
            return 5.0
        if looked.count("urgent") == 2:
            queue.close()
        await asyncio.sleep(0)
        return None

    def pass_the_time() -> None:
        clock.now += 30
        queue.release_due()

    for key in "abcdefg":
        queue.add(key)
    queue.add("urgent", first=True)
    async with asyncio.timeout(PATIENCE):
        await queue.run(1, look)
    assert looked.count("urgent") == 2
    assert looked[-1] == "g"
    assert "urgent" in looked[1:4]


async def test_keys_that_go_first_do_not_hold_up_the_others_for_ever(queue: WorkQueue[str]) -> None:
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)
        if key == "plain" or len(looked) == 10 * MOST_IN_A_ROW:
            queue.close()
        queue.add(key, first=True)

    queue.add("plain")
    queue.add("urgent", first=True)
    async with asyncio.timeout(PATIENCE):
        await queue.run(1, look)
    assert looked[: MOST_IN_A_ROW + 1] == ["urgent"] * MOST_IN_A_ROW + ["plain"]


async def test_a_closed_queue_ends_also_if_a_kept_worker_may_not_take_what_is_left(queue: WorkQueue[str]) -> None:
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)
        await asyncio.sleep(0)

    for key in "abc":
        queue.add(key)
    queue.close()
    async with asyncio.timeout(PATIENCE):
        await queue.run(2, look, kept=1)
    assert looked == ["a", "b", "c"]


async def test_a_key_in_hand_is_never_in_a_second_hand_and_comes_again_afterwards(queue: WorkQueue[str]) -> None:
    hands: Counter[str] = Counter()
    looked: Counter[str] = Counter()

    async def look(key: str) -> None:
        hands[key] += 1
        assert hands[key] == 1
        looked[key] += 1
        if looked[key] < 3:
            queue.add(key)
        await asyncio.sleep(0)
        hands[key] -= 1
        if looked == {"a": 3, "b": 3, "c": 3}:
            queue.close()

    for key in "abc":
        queue.add(key)
    async with asyncio.timeout(PATIENCE):
        await queue.run(8, look)
    assert looked == {"a": 3, "b": 3, "c": 3}
    assert queue.in_hand == 0


async def test_a_delayed_key_comes_at_its_earliest_time(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    queue.add_after("now", 0)
    assert (len(queue), queue.delayed) == (1, 1)
    clock.now += 4.9
    queue.release_due()
    assert len(queue) == 1
    clock.now += 0.1
    queue.release_due()
    assert (len(queue), queue.delayed) == (2, 0)
    assert await drain(queue) == ["now", "a"]


async def test_the_timer_releases_on_a_real_clock() -> None:
    queue: WorkQueue[str] = WorkQueue("real")
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)
        queue.close()

    queue.add_after("a", 0.001)
    async with asyncio.timeout(PATIENCE):
        await queue.run(2, look)
    assert looked == ["a"]


async def test_patience_doubles_from_5_ms_to_16_minutes_and_starts_over_when_forgotten(queue: WorkQueue[str]) -> None:
    waits = [queue.retry("a") for _ in range(20)]
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[-1] == 960.0
    queue.forget("a")
    assert queue.retry("a") == 0.005
    assert queue.retry("b") == 0.005


async def test_waits_are_drawn_between_half_and_whole() -> None:
    queue: WorkQueue[str] = WorkQueue("low", draw=lambda: 0.0)
    assert queue.retry("a") == 0.0025


async def test_a_failing_key_is_retried_and_the_others_go_on() -> None:
    queue: WorkQueue[str] = WorkQueue("real", first_seconds=0.0001)
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)
        if looked.count("bad") == 3:
            queue.close()
        elif key == "bad":
            raise ValueError("not yet")

    queue.add("bad")
    queue.add("good")
    async with asyncio.timeout(PATIENCE):
        await queue.run(1, look)
    assert looked == ["bad", "good", "bad", "bad"]
    assert queue.failures("bad") == 0


async def test_a_key_may_be_queued_again_for_later(queue: WorkQueue[str], clock: Clock) -> None:
    looked: list[str] = []

    async def look(key: str) -> float | None:
        looked.append(key)
        if len(looked) == 2:
            queue.close()
            return None
        asyncio.get_running_loop().call_soon(pass_the_time)
        return 30.0

    def pass_the_time() -> None:
        assert (queue.delayed, queue.failures("a")) == (1, 0)
        clock.now += 30
        queue.release_due()

    queue.add("a")
    async with asyncio.timeout(PATIENCE):
        await queue.run(1, look)
    assert looked == ["a", "a"]


async def test_a_closed_queue_takes_no_keys_but_finishes_the_queued_ones(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("later", 1)
    queue.close()
    queue.add("b")
    queue.add_after("c", 1)
    assert await drain(queue) == ["a"]
    assert queue.delayed == 0


async def test_a_key_cut_off_by_cancellation_is_first_when_work_goes_on(queue: WorkQueue[str]) -> None:
    started = asyncio.Event()

    async def hang(key: str) -> None:
        started.set()
        await asyncio.Event().wait()

    queue.add("a")
    running = asyncio.create_task(queue.run(3, hang))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await drain(queue) == ["a"]


async def test_dropping_forgets_everything(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.retry("b")
    queue.drop()
    assert (len(queue), queue.delayed, queue.failures("b")) == (0, 0, 0)


class Machine(RuleBasedStateMachine):
    """Whatever is added, taken, failed and let go: nothing is lost, nothing is doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue: WorkQueue[int] = WorkQueue("model", clock=self.clock, tenant=lambda key: key % 2)
        self.hands: set[int] = set()
        self.owed: set[int] = set()

    @rule(key=st.integers(0, 4), first=st.booleans())
    def add(self, key: int, first: bool) -> None:
        self.queue.add(key, first=first)
        self.owed.add(key)

    @rule(key=st.integers(0, 4), seconds=st.floats(0.1, 9))
    def add_after(self, key: int, seconds: float) -> None:
        self.queue.add_after(key, seconds)

    @rule(key=st.integers(0, 4))
    def retry(self, key: int) -> None:
        self.queue.retry(key)

    @rule(seconds=st.floats(0.1, 20))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.owed |= {key for key, due in self.queue._due.items() if due <= self.clock.now}
        self.queue.release_due()

    @rule()
    def take(self) -> None:
        if len(self.queue):
            key = self.queue._take()
            assert key not in self.hands
            self.hands.add(key)
            self.owed.discard(key)

    @rule(key=st.integers(0, 4))
    def release(self, key: int) -> None:
        if key in self.hands:
            self.hands.remove(key)
            self.queue._finalizer_removal(key)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        self.queue._check()
        assert self.owed == set(self.queue) | self.queue._again.keys()
        assert self.queue._in_hand.keys() == self.hands


TestMachine = Machine.TestCase
TestMachine.settings = settings(stateful_step_count=40)


async def test_waiting_for_few_keys_ends_when_enough_are_done_and_delayed_ones_do_not_count(
    queue: WorkQueue[str],
) -> None:
    allowed = asyncio.Semaphore(0)

    async def look(key: str) -> None:
        await allowed.acquire()
        if key == "fails":
            raise ValueError(key)

    for key in ("one", "fails", "two", "three"):
        queue.add(key)
    working = asyncio.create_task(queue.run(2, look))
    waiting = asyncio.create_task(queue.at_most(2))
    await asyncio.sleep(0)
    allowed.release()
    await eventually(lambda: len(queue) + queue.in_hand == 3)
    assert not waiting.done()
    allowed.release()  # one of them fails and is delayed
    await waiting
    assert len(queue) + queue.in_hand == 2
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
