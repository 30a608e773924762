"""The page in a browser: every view in both themes and three sizes, by keyboard, and with what changes meanwhile.

Screenshots are kept in ``build/page``: look at them after a change.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from api import resources
from app.page.served import ServedPage
from tests.browser import ARGUMENTS, axe, chromium
from tests.eventually import PATIENCE, until
from tests.paged_example import GPU, example
from tests.paging import PagedCluster

pytestmark = pytest.mark.cluster  # needs Chromium, which the first run fetches

SHOTS = Path(__file__).resolve().parents[2] / "build" / "page"
VIEWS = {
    "overview": "",
    "queue": "queues/vision",
    "running": "queues/vision?part=running",
    "job": "jobs/vision/job-train-0",
    "preempted": "jobs/weather/job-forecast",
    "preemptions": "preemptions",
    "usage": "usage",
    "what-if": "what-if?queue=vision",
    "topology": "topology",
}
SIZES = {"wide": (1440, 900), "zoomed": (640, 450), "narrow": (360, 740)}
"""A window of 1280 pixels at 200 % has 640."""
JUDGED = {("light", "wide"), ("dark", "zoomed"), ("dark", "narrow")}
"""Where axe judges: each theme and each size once."""
_Result = TypeVar("_Result")


class ServedCluster:
    """The example, served by an event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.over = asyncio.Event()
        self.cluster: PagedCluster
        self.page: ServedPage
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        self.cluster = example(time.time())
        async with self.cluster.served() as self.page:
            self.ready.set()
            await self.over.wait()

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Runs a function in the event loop."""

        async def called() -> _Result:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(PATIENCE)


@pytest.fixture(scope="module")
def served() -> Iterator[ServedCluster]:
    made = ServedCluster()
    made.thread.start()
    assert made.ready.wait(PATIENCE)
    yield made
    made.call(made.over.set)
    made.thread.join(PATIENCE)
    made.loop.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = chromium()
    with sync_playwright() as started:
        launched = started.chromium.launch(
            executable_path=str(found.program), args=list(ARGUMENTS), env={**found.environment} or None
        )
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Browser, served: ServedCluster) -> Iterator[Callable[..., Page]]:
    """Opens a page in a new window; a message on its console, or a violation of its policy, is an error."""
    said: list[str] = []
    contexts = []

    def open_(path: str = "", *, token: str = "admin", size: str = "wide", theme: Any = "light") -> Page:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, locale="en-US")
        context.set_default_timeout(PATIENCE * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{served.page.url}#token={token}" if token else served.page.url)
        if token:
            expect(page.locator("#live")).to_have_text("Live")
            page.goto(f"{served.page.url}#/{path}")
        return page

    expect.set_options(timeout=PATIENCE * 1000)
    yield open_
    for context in contexts:
        context.close()
    assert not [text for text in said if "401" not in text and "404" not in text], said


def settled(page: Page) -> None:
    """Waits until the view is there: nothing in it is loading."""
    expect(page.locator(".loading")).to_have_count(0)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_can_be_used_by_everybody(opened: Callable[..., Page], theme: str, size: str) -> None:
    page = opened(size=size, theme=theme)
    # the policy of the page allows no script of others: the test runs it beside the page
    script = axe().read_text()
    SHOTS.mkdir(parents=True, exist_ok=True)
    for name, path in VIEWS.items():
        page.evaluate("path => { location.hash = `#/${path}` }", path)
        settled(page)
        page.screenshot(path=SHOTS / f"{name}-{theme}-{size}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than its window"
        if (theme, size) in JUDGED:
            page.evaluate(script + "; undefined")
            found = page.evaluate("axe.run({resultTypes: ['violations']})")
            told = [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found["violations"]]
            assert not told, name


def test_what_changes_is_on_screen_without_a_reload(opened: Callable[..., Page], served: ServedCluster) -> None:
    page = opened()
    row = page.locator("virtual-list .queue", has_text="speech")
    expect(row).to_contain_text("15 waiting")
    cluster = served.cluster
    served.call(lambda: cluster.workload("speech", "job-late", "main", {"cpu": "1", GPU: "1"}, age=0))
    expect(row).to_contain_text("16 waiting")
    served.call(served.page.hub.drop)
    gone = cluster.caches.workloads.get(("speech", "job-late"))
    assert gone is not None
    served.call(lambda: cluster.delete(resources.WORKLOADS, gone))
    expect(row).to_contain_text("15 waiting")


def test_the_keyboard_reaches_a_job(opened: Callable[..., Page]) -> None:
    page = opened()
    page.keyboard.press("/")
    page.keyboard.type("vision")
    expect(page.locator("#found li").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("vision")
    settled(page)
    page.locator("#tab-line").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-running")).to_be_focused()
    expect(page.locator("#tab-running")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    settled(page)
    first = page.locator("virtual-list a").first
    first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("virtual-list [aria-posinset='2'] a")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Job")


def test_a_list_of_many_rows_has_few_elements(opened: Callable[..., Page]) -> None:
    page = opened("queues/vision", size="narrow")
    settled(page)
    assert page.locator("virtual-list > *").count() < 25
    last = page.locator("virtual-list [aria-posinset='15']")

    def reached() -> bool:  # the list may still grow after a scroll to its end
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        return last.is_visible()

    until(reached, "the last row")


def test_a_wrong_token_says_so_and_a_tenant_sees_his_own(opened: Callable[..., Page]) -> None:
    page = opened(token="")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("the API server does not accept the token")
    page.get_by_label("Token").fill("tenant")
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("virtual-list .queue")).to_have_count(1)
    text = page.locator("body").inner_text()
    assert "vision" in text
    assert not {name for name in ("speech", "genomics", "weather", "research") if name in text}
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_another_quota_is_played_in_place(opened: Callable[..., Page]) -> None:
    page = opened("what-if?queue=vision")
    page.get_by_label("gpu h100").fill("16")
    expect(page.locator(".hit").first).to_contain_text("train-segmenter")
    expect(page.locator("pre")).to_contain_text('"nominalQuota":"16"')
    page.screenshot(path=SHOTS / "what-if-effects.png")


def test_colours_can_be_chosen(opened: Callable[..., Page]) -> None:
    page = opened()
    button = page.get_by_role("button", name="Colours")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button.click()
    button.click()
    expect(button).to_have_attribute("title", "Colours: Dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_use_over_time_is_drawn(opened: Callable[..., Page]) -> None:
    page = opened()
    expect(page.locator("virtual-list .queue").first).to_be_visible()
    page.evaluate("""async () => {
      const { store } = await import('/ui/store.js');
      const now = Date.now() / 1000;
      const moment = (minute) => new Map([['vision cpu', 1000 * minute], ['speech cpu', 40_000 - 500 * minute]]);
      store.seen = Array.from({ length: 60 }, (_, minute) => [now - 60 * (60 - minute), moment(minute)]);
      location.hash = '#/usage';
    }""")
    chart = page.locator(".uplot")
    expect(chart).to_have_attribute("aria-label", re.compile("cpu in use: vision .* speech .* at the end"))
    assert page.locator(".uplot canvas").evaluate("(each) => each.width > 200 && each.height > 100")
    page.screenshot(path=SHOTS / "usage-chart.png")
