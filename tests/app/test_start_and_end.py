"""What a start does about refusals, and that an end is one."""

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from app.composition import LONGEST_UNREACHABLE_SECONDS, LONGEST_WAIT_SECONDS, persistently
from certs.pki import CertificateError
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unintelligible,
    Unreachable,
)
from operations.install import NotEstablishedError
from tests.eventually import PATIENCE


class Attempts:
    """Fails so many times, and notes how long was waited in between."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times
        self.waits: list[float] = []

    async def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise self.error

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


PASSING = [
    Conflict(409, "Conflict", "the object has been modified"),
    AlreadyExists(409, "AlreadyExists", "it exists"),
    Forbidden(403, "Forbidden", 'User "x" cannot patch resource "customresourcedefinitions"'),
    NotFound(404, "NotFound", 'namespaces "seiretsu" not found'),
    TooManyRequests(429, "TooManyRequests", "later"),
    ApiError(408, "Timeout", "too slow"),
    ApiError(500, "InternalError", "etcdserver: leader changed"),
    Unreachable(0, "ClientConnectorError", "connection refused"),
    Unintelligible(400, "Unintelligible", "not a Kubernetes answer (text/html): <html>"),
    CertificateError("the CA could not be stored in 20 attempts"),
    NotEstablishedError("CRDs not established after 30 s: workloads.kueue.x-k8s.io: no answer yet"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: f"{type(error).__name__} {getattr(error, 'status', '')}")
async def test_what_may_pass_is_waited_for_ever_longer_and_named_once(error: Exception) -> None:
    attempts = Attempts(error, 20)
    with capture_logs() as logged:
        await persistently("publishing the CA bundle", attempts, sleep=attempts.sleep)
    assert len(attempts.waits) == 20
    assert attempts.waits == sorted(attempts.waits)
    assert attempts.waits[-1] in (LONGEST_UNREACHABLE_SECONDS, LONGEST_WAIT_SECONDS)
    assert [(line["doing"], line["error"]) for line in logged] == [("publishing the CA bundle", str(error))]


HOPELESS = [
    Unauthorized(401, "Unauthorized", "who are you"),
    Invalid(422, "Invalid", 'CustomResourceDefinition "x" is invalid'),
    ApiError(400, "BadRequest", "no such field"),
]


@pytest.mark.parametrize("error", HOPELESS, ids=lambda error: error.reason)
async def test_what_will_be_refused_for_ever_is_an_error_at_once(error: ApiError) -> None:
    attempts = Attempts(error, 1)
    with pytest.raises(type(error)):
        await persistently("installing the CRDs", attempts, sleep=attempts.sleep)
    assert attempts.waits == []


LARGE = """
import atexit, sys, threading
from app.serve import end

atexit.register(threading.Event().wait)  # as long as the interpreter takes to free a heap of any size
print("the last line", end="")
print("and the log's", end="", file=sys.stderr)
end(3)
"""


def test_the_end_waits_for_nothing_and_loses_no_line() -> None:
    ended = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "the last line", "and the log's")
