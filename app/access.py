"""Decides who may read what this process serves: the API server checks the client's token (TokenReview) and the rights
of its user (SubjectAccessReview).

Any client can send requests with any token. So the results are cached, and the reviews have a rate of their own, of
which each user has an equal part: users take turns, with one review of a user at a time, and tokens whose user is not
known yet count together as one more.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from typing import Final, NamedTuple

import structlog

from api.objects import Raw, Resource
from app.limits import RefusedCallError
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.flow.throttle import Throttle

log = structlog.get_logger("seiretsu.access")

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 5.0
"""For how long a result is used."""
UNREVIEWED: Final = frozenset({"system:masters"})
"""Groups that may do everything, as in every API server."""
REMEMBERED = 1000
REVIEWS_PER_SECOND, REVIEWS_AT_ONCE = 10.0, 20
WAIT_SECONDS = 2.0


class User(NamedTuple):
    """Who sends a request, as the API server knows users."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class AccessVerdict(NamedTuple):
    """The result of a review: a user or None, or a sentence that refuses (empty: allowed); until when it is used."""

    user: User | None
    refusal: str
    until: float


class _Turn:
    """Whose turn it is among the reviews of one user."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class Reviews:
    """Asks the API server, and remembers its answers."""

    def __init__(
        self,
        client: Client,
        *,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._clock = clock
        self._throttle = throttle or Throttle(REVIEWS_PER_SECOND, REVIEWS_AT_ONCE)
        self._known: dict[Hashable, AccessVerdict] = {}
        self._turns: dict[str, _Turn] = {}

    async def user(self, authorization: bytes) -> User:
        """Returns the user of the token in this header. Raises `RefusedCallError`."""
        scheme, _, token = authorization.decode("latin1").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RefusedCallError(401, "send a token: Authorization: Bearer TOKEN")
        digest = hashlib.sha256(token.encode()).digest()
        found = await self._reviewed("", digest, lambda: self._user(token.strip()))
        if found.user is None:
            raise RefusedCallError(401, found.refusal)
        return found.user

    async def allow(self, user: User, wanted: Mapping[str, Raw], what: str) -> None:
        """Raises `RefusedCallError` unless a user has a right: ``resourceAttributes`` or ``nonResourceAttributes``."""
        ((kind, attributes),) = wanted.items()
        key = (user, kind, *sorted(attributes.items()))
        found = await self._reviewed(user.name, key, lambda: self._allowed(user, wanted, what))
        if found.refusal:
            raise RefusedCallError(403, found.refusal)

    async def may(self, user: User, attributes: Mapping[str, str]) -> bool:
        """Whether a user has a right on resources: for what may be shown to him, not for whether he is answered. A
        refusal is used as long as a permission, and an API server that does not review in time counts as a refusal.
        """
        key = (user, "may", *sorted(attributes.items()))
        wanted: Mapping[str, Raw] = {"resourceAttributes": dict(attributes)}
        try:
            found = await self._reviewed(user.name, key, lambda: self._allowed(user, wanted, "", ALLOWED_SECONDS))
        except RefusedCallError:
            return False
        return not found.refusal

    async def _reviewed(self, who: str, key: Hashable, review: Callable[[], Awaitable[AccessVerdict]]) -> AccessVerdict:
        verdict = self._remembered(key)
        if verdict is None:
            try:
                async with asyncio.timeout(WAIT_SECONDS), self._turn(who):
                    verdict = self._remembered(key)
                    if verdict is None:
                        await self._throttle.take()
                        verdict = await review()
            except TimeoutError:
                raise RefusedCallError(503, "the API server has not reviewed the request in time: try again") from None
            except ApiError as error:
                log.warning("A client could not be reviewed", error=str(error))
                raise RefusedCallError(
                    503, "the API server did not review the client: the log has the reason"
                ) from None
            self._remember(key, verdict)
        return verdict

    @contextlib.asynccontextmanager
    async def _turn(self, who: str) -> AsyncIterator[None]:
        """One review of a user at a time; what nobody waits for is forgotten."""
        turn = self._turns.setdefault(who, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[who]

    def _remembered(self, key: Hashable) -> AccessVerdict | None:
        found = self._known.get(key)
        return found if found is not None and self._clock() < found.until else None

    def _remember(self, key: Hashable, verdict: AccessVerdict) -> None:
        self._known.pop(key, None)
        self._known[key] = verdict
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    async def _user(self, token: str) -> AccessVerdict:
        review = {**_review_of(TOKEN_REVIEWS), "spec": {"token": token}}
        status = (await self._client.create(TOKEN_REVIEWS, review)).get("status") or {}
        if not status.get("authenticated"):
            return AccessVerdict(None, "the API server does not accept the token", self._clock() + DENIED_SECONDS)
        user = status.get("user") or {}
        extra = tuple(sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items()))
        found = User(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra)
        return AccessVerdict(found, "", self._clock() + ALLOWED_SECONDS)

    async def _allowed(
        self, user: User, wanted: Mapping[str, Raw], what: str, denied_seconds: float = DENIED_SECONDS
    ) -> AccessVerdict:
        extra = {key: list(values) for key, values in user.extra}
        spec = {"user": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra, **wanted}
        answer = await self._client.create(ACCESS_REVIEWS, {**_review_of(ACCESS_REVIEWS), "spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return AccessVerdict(user, "", self._clock() + ALLOWED_SECONDS)
        return AccessVerdict(None, f"{user.name} may not {what}", self._clock() + denied_seconds)


class Access:
    """Who may get the page at `path`, as Kueue's metrics: users with the right `get` on the path. `check` decides."""

    def __init__(self, reviews: Reviews, path: str) -> None:
        self._reviews = reviews
        self._path = path

    async def check(self, authorization: bytes) -> None:
        """Raises `RefusedCallError` unless the token in this header may get the page."""
        user = await self._reviews.user(authorization)
        what = f"get {self._path}: it needs the right get on the nonResourceURL {self._path}"
        await self._reviews.allow(user, {"nonResourceAttributes": {"path": self._path, "verb": "get"}}, what)


def _review_of(resource: Resource) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
