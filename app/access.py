"""Decides who may read a page, as Kueue's metrics do: the API server checks the client's token (TokenReview) and the
rights of its user (SubjectAccessReview: `get` of the page's path).

Any client can send requests with any token. So the results are cached, and the reviews have a rate of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from api.objects import Raw, Resource
from app.limits import RefusedError
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.throttle import Throttle

log = structlog.get_logger("seiretsu.access")

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 5.0
"""For how long a result is used."""
REMEMBERED = 1000
REVIEWS_PER_SECOND, REVIEWS_AT_ONCE = 10.0, 20
WAIT_SECONDS = 2.0


class Verdict(NamedTuple):
    """The HTTP status and sentence for a token, and when the review expires; status 200 allows."""

    status: int
    message: str
    until: float


class Access:
    """Who may get the page at `path`. `check` has the decision."""

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._path = path
        self._clock = clock
        self._throttle = throttle or Throttle(REVIEWS_PER_SECOND, REVIEWS_AT_ONCE)
        self._known: dict[bytes, Verdict] = {}
        self._one_at_a_time = asyncio.Lock()

    async def check(self, authorization: bytes) -> None:
        """Raises `RefusedError` unless the token in this header may get the page."""
        scheme, _, token = authorization.decode("latin1").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RefusedError(401, "send a token: Authorization: Bearer TOKEN")
        digest = hashlib.sha256(token.encode()).digest()
        verdict = self._remembered(digest)
        if verdict is None:
            try:
                async with asyncio.timeout(WAIT_SECONDS), self._one_at_a_time:
                    verdict = self._remembered(digest) or await self._review(token.strip())
            except TimeoutError:
                raise RefusedError(503, "the API server has not reviewed the token in time: try again") from None
            except ApiError as error:
                log.warning("A token could not be reviewed", page=self._path, error=str(error))
                raise RefusedError(503, "the API server did not review the token: the log has the reason") from None
            self._remember(digest, verdict)
        if verdict.status != 200:
            raise RefusedError(verdict.status, verdict.message)

    def _remembered(self, digest: bytes) -> Verdict | None:
        found = self._known.get(digest)
        return found if found is not None and self._clock() < found.until else None

    def _remember(self, digest: bytes, verdict: Verdict) -> None:
        self._known.pop(digest, None)
        self._known[digest] = verdict
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    async def _review(self, token: str) -> Verdict:
        await self._throttle.take()
        review = {**_review_of(TOKEN_REVIEWS), "spec": {"token": token}}
        status = (await self._client.create(TOKEN_REVIEWS, review)).get("status") or {}
        if not status.get("authenticated"):
            return Verdict(401, "the API server does not accept the token", self._clock() + DENIED_SECONDS)
        user = status.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        answer = await self._client.create(ACCESS_REVIEWS, {**_review_of(ACCESS_REVIEWS), "spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return Verdict(200, "", self._clock() + ALLOWED_SECONDS)
        message = f"{spec['user']} may not get {self._path}: it needs the right get on the nonResourceURL {self._path}"
        return Verdict(403, message, self._clock() + DENIED_SECONDS)


def _review_of(resource: Resource) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
