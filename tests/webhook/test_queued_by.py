"""The name of the user who queued a job: admission writes it for the history, and nobody else."""

from __future__ import annotations

import pytest

from api.names import Annotation, Label
from core.model import Raw
from tests.webhook.cluster import ask, job, review
from tests.webhook.test_jobs import CRON_JOB, DEFAULT, MUTATE, after, patched, with_default_queue
from webhook.settings import WebhookSettings

ON = WebhookSettings(records_users=True)
QUEUE = {Label.QUEUE_NAME: "main"}
ALICE, FORGED = {Annotation.QUEUED_BY: "alice"}, {Annotation.QUEUED_BY: "the boss"}


def name_after(new: Raw, old: Raw | None = None, *, path: str = MUTATE, settings: WebhookSettings = ON) -> str | None:
    knows = with_default_queue() if path == DEFAULT else None
    found = after(new, patched(ask(path, review(new, old=old), settings=settings, knows=knows)))
    name = (found["metadata"].get("annotations") or {}).get(Annotation.QUEUED_BY)
    return None if name is None else str(name)


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        pytest.param(job(labels=QUEUE), None, "alice", id="who creates a queued job"),
        pytest.param(job(labels=QUEUE, annotations=FORGED), None, "alice", id="whatever the manifest says"),
        pytest.param(
            job(labels=QUEUE, annotations=FORGED, suspend=True),
            job(labels=QUEUE, annotations={Annotation.QUEUED_BY: "bob"}, suspend=True),
            "bob",
            id="an update does not change it",
        ),
        pytest.param(
            job(labels=QUEUE, suspend=True),
            job(labels=QUEUE, annotations={Annotation.QUEUED_BY: "bob"}, suspend=True),
            "bob",
            id="an apply of the manifest does not remove it",
        ),
        pytest.param(
            job(labels=QUEUE, annotations=FORGED, suspend=True),
            job(labels=QUEUE, suspend=True),
            None,
            id="nobody adds it to a job of which it is not known",
        ),
        pytest.param(
            job(labels=QUEUE, annotations=FORGED, suspend=True),
            job(annotations=FORGED, suspend=True),
            "alice",
            id="who queues a job that was not queued",
        ),
        pytest.param(job(annotations=FORGED), None, "the boss", id="a job that is not queued is left alone"),
        pytest.param(job(labels=QUEUE, owner=CRON_JOB), None, "alice", id="a job of a CronJob has its creator"),
    ],
)
def test_the_user_is_the_one_who_queued_the_job(new: Raw, old: Raw | None, wanted: str | None) -> None:
    assert name_after(new, old) == wanted


def test_a_job_that_gets_the_default_queue_has_its_creator() -> None:
    assert name_after(job(), path=DEFAULT) == "alice"


def test_without_a_history_no_name_is_written() -> None:
    assert name_after(job(labels=QUEUE), settings=WebhookSettings()) is None
