"""The code that blocks the event loop is logged while it blocks."""

import threading

from structlog.testing import capture_logs

from app.watchdog import Watchdog
from tests.eventually import PATIENCE


def test_a_stall_is_logged_once_with_the_code_that_causes_it() -> None:
    late, seen = [0.0], threading.Event()

    def measured() -> float:
        seen.set()
        return late[0]

    def look() -> None:
        for _ in range(2):
            seen.clear()
            assert seen.wait(PATIENCE)

    def busy_step() -> None:
        late[0] = 1.0
        look()
        look()

    watchdog = Watchdog(measured, stall_seconds=0.05)
    with capture_logs() as logs:
        watchdog.start()
        look()
        busy_step()
        late[0] = 0.0
        look()
        watchdog.stop()
    (told,) = logs
    assert (told["event"], told["seconds"]) == ("The event loop is blocked", 1.0)
    assert any(line.endswith("busy_step") for line in told["stack"])
