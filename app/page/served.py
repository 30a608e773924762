"""The page as a part of the process: what it shows, and the listener that serves it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import secrets
import ssl
from dataclasses import dataclass

from app.access import Reviews
from app.page import assets
from app.page.answers import PageAnswers
from app.page.application import PageApplication
from app.page.jobs import JobAnswers
from app.page.questions import Comparer, QuestionAnswers
from app.page.stream import Hub
from app.page.topics import Changes
from app.server import Address, Listener
from app.standing import Standings, forecasts_of
from app.visibility import FrontProxy
from controller.cache.caches import Caches
from controller.forecasts.comparison import compared
from controller.history.history import HistoryReader
from controller.kube.client import Client
from core.forecast.run_times import RunTimes
from core.state.lookup import Lookup


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows: the caches, and how long workloads run, None if that is not learned. ``compare`` returns
    whom an edit hits.
    """

    caches: Caches
    run_times: RunTimes | None = None
    compare: Comparer = compared


@dataclass(frozen=True, slots=True)
class ServedPage:
    """The listener of the page, and the hub of its streams, which is to be run in a task."""

    hub: Hub
    listener: Listener

    @property
    def url(self) -> str:
        """The address for a browser, when the port is open."""
        return f"{'https' if self.listener.tls else 'http'}://{self.listener.bound or self.listener.address}/"


def served_page(
    shown: Shown,
    lookup: Lookup,
    client: Client,
    reviews: Reviews,
    address: Address,
    tls: ssl.SSLContext | None,
    proxy: FrontProxy,
    history: HistoryReader | None = None,
) -> ServedPage:
    """Returns the page, which follows the caches from now on. Reads its files."""
    changes = Changes(shown.caches)
    hub = Hub(changes.topic, changes.forget, epoch=secrets.token_hex(4))
    changes.connect(hub)
    answers = PageAnswers(
        shown.caches,
        lookup,
        shown.run_times,
        version=importlib.metadata.version("seiretsu"),
        history=history is not None,
    )
    caches, job_of = shown.caches, answers.job_of
    standings = Standings(lookup, caches.workloads.get, asyncio.Lock(), forecasts_of(lookup))
    jobs = JobAnswers(caches, client, standings, job_of, history)
    questions = QuestionAnswers(caches, job_of, history, compare=shown.compare)
    app = PageApplication(
        answers, jobs, questions, hub, reviews, assets.load(), proxy=proxy, ready=lambda: lookup.synced
    )
    return ServedPage(hub, Listener(app, address, tls))
