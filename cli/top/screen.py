"""Draws the page with curses, and reads the keys.

curses is part of Python, sends a terminal only what has changed (a page over ssh costs a few hundred bytes), knows each
terminal by its terminfo, and is imported in a few milliseconds. Textual takes as long to import as the whole plugin may
take to start, and rich draws the whole page each time.
"""

from __future__ import annotations

import contextlib
import curses
import locale
import select
import sys
import time
from collections.abc import Callable
from typing import Final

from api.objects import Key
from cli.top.feed import Feed
from cli.top.model import Board
from cli.top.view import LineStyle, Rows, ScreenLine, View, page, pressed, scrolled

TICK_MILLISECONDS: Final = 100
"""So long a key is waited for before changes are entered."""
ENTER_SECONDS: Final = 0.05
"""Changes are entered for at most this time before keys are looked at again."""
REDRAW_SECONDS: Final = 1.0
"""Ages move on, at least."""
ESCAPE_MILLISECONDS: Final = 50
_COLORS: Final[dict[LineStyle, int]] = {
    "running": curses.COLOR_GREEN,
    "waiting": curses.COLOR_YELLOW,
    "alarm": curses.COLOR_RED,
    "title": curses.COLOR_CYAN,
}
_KEYS: Final = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "pgup",
    curses.KEY_NPAGE: "pgdn",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "backspace",
    curses.KEY_DC: "backspace",
}
_LETTERS: Final = {"\n": "enter", "\r": "enter", "\x1b": "esc", "\x7f": "backspace", "\x08": "backspace", "\x03": "q"}


def run(feed: Feed, view: View, clock: Callable[[], float] = time.time) -> None:
    """Shows the page until the user quits."""
    locale.setlocale(locale.LC_ALL, "")
    curses.set_escdelay(ESCAPE_MILLISECONDS)
    curses.wrapper(lambda window: _loop(window, feed, view, clock))


def _loop(window: curses.window, feed: Feed, view: View, clock: Callable[[], float]) -> None:
    styles = _styles()
    window.timeout(TICK_MILLISECONDS)
    board, rows = Board(), Rows(time.monotonic)
    drawn, notice_before = 0.0, ""
    while not view.quit:
        height, width = window.getmaxyx()
        body = max(1, height - 4)
        changed = not view.paused and feed.enter(board, ENTER_SECONDS)
        key = _key(window)
        found = rows.of(board, view)
        if key:
            view = pressed(view, key, found, body)
            feed.open(_places(board, view))
            found = rows.of(board, view)
        notice = feed.notice()
        if key or changed or notice != notice_before or clock() - drawn >= REDRAW_SECONDS:
            view = scrolled(view, len(found), body)
            _draw(window, page(board, view, found, clock(), width, height, notice), styles)
            drawn, notice_before = clock(), notice


def _places(board: Board, view: View) -> tuple[Key, ...]:
    """The queues whose positions are shown."""
    if view.queue is not None:
        return (view.queue,)
    record = board.lines.get(view.job) if view.job is not None else None
    return (board.place(record),) if record is not None else ()


def _key(window: curses.window) -> str:
    """The key that was pressed; empty if none was, or the size of the terminal has changed."""
    try:
        found = window.get_wch()
    except (curses.error, KeyboardInterrupt) as error:
        return "q" if isinstance(error, KeyboardInterrupt) or _is_gone(sys.stdin.fileno()) else ""
    if isinstance(found, int):
        return _KEYS.get(found, "resize" if found == curses.KEY_RESIZE else "")
    return _LETTERS.get(found, found)


def _is_gone(terminal: int) -> bool:
    """Whether the terminal was closed: every read then returns at once, and no key ever comes."""
    watch = select.poll()
    watch.register(terminal, 0)
    return bool(watch.poll(0))


def _styles() -> dict[LineStyle, int]:
    found: dict[LineStyle, int] = {
        "plain": curses.A_NORMAL,
        "head": curses.A_BOLD,
        "title": curses.A_BOLD,
        "chosen": curses.A_REVERSE,
        "running": curses.A_NORMAL,
        "waiting": curses.A_NORMAL,
        "dim": curses.A_DIM,
        "alarm": curses.A_BOLD,
    }
    if curses.has_colors():
        curses.use_default_colors()
        for number, (style, color) in enumerate(_COLORS.items(), 1):
            curses.init_pair(number, color, -1)
            found[style] |= curses.color_pair(number)
    with contextlib.suppress(curses.error):  # not every terminal can hide it
        curses.curs_set(0)
    return found


def _draw(window: curses.window, lines: list[ScreenLine], styles: dict[LineStyle, int]) -> None:
    window.erase()
    height, width = window.getmaxyx()
    for place, (text, style) in enumerate(lines[:height]):
        # the last cell of the screen cannot be written without scrolling
        shown = text[: width - 1] if place == height - 1 else text[:width]
        try:
            window.addstr(place, 0, shown, styles[style])
        except curses.error:
            return  # the terminal has become smaller meanwhile: it is drawn again
    window.refresh()
