"""What a probe costs those who serve: as good as nothing, however often it is asked."""

import asyncio

from app.probes import REMEMBERED_SECONDS, remembered


class Costly:
    """A check that counts how often it is made; it takes as long as the test wants it to."""

    def __init__(self) -> None:
        self.made = 0
        self.answer = ""
        self.gate = asyncio.Event()

    async def __call__(self) -> str:
        self.made += 1
        await self.gate.wait()
        return self.answer


async def test_a_hundred_callers_at_once_share_one_check() -> None:
    costly, now = Costly(), 0.0
    check = remembered(costly, clock=lambda: now)
    asking = [asyncio.ensure_future(check()) for _ in range(100)]
    await asyncio.sleep(0)
    costly.answer = "the certificate has expired"
    costly.gate.set()
    assert set(await asyncio.gather(*asking)) == {"the certificate has expired"}
    assert costly.made == 1


async def test_an_answer_counts_for_a_moment_and_then_the_check_is_made_again() -> None:
    costly, now = Costly(), 0.0
    costly.gate.set()
    check = remembered(costly, clock=lambda: now)
    assert await check() == ""
    costly.answer = "broken"
    now = REMEMBERED_SECONDS / 2
    assert await check() == ""
    now = REMEMBERED_SECONDS
    assert await check() == "broken"
    assert costly.made == 2
