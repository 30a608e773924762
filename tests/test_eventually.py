import pytest

from tests.eventually import eventually


async def test_what_a_condition_looks_into_may_come_later() -> None:
    found: list[str] = []

    def first_is_ready() -> bool:
        try:
            return found[0] == "ready"
        finally:
            found.append("ready")

    await eventually(first_is_ready)


async def test_a_wait_in_vain_ends_with_what_was_missing() -> None:
    nothing: dict[str, str] = {}
    with pytest.raises(TimeoutError, match=r"not within 0\.01 s") as raised:
        await eventually(lambda: nothing["absent"], within=0.01)
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [RuntimeError("broken"), TimeoutError("no answer")], ids=str)
async def test_any_other_error_ends_the_wait(error: Exception) -> None:
    def broken() -> bool:
        raise error

    with pytest.raises(type(error), match=str(error)):
        await eventually(broken)
