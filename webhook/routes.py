"""What answers a call of each hook: a function from the body of the request to status and body, by path.

Everything below ``answer`` is a pure function of bytes; the answer to an edit of a queue also waits for its
``consequences``, and that to a dry run for its forecast (``webhook.dry_runs``). The body is never copied: it may be
megabytes, and everybody else would wait for each copy.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from api import validate
from core.model import Raw
from webhook import patch
from webhook.consequences import Consequences
from webhook.dry_runs import DryRuns
from webhook.hooks import HOOKS, Hook, HookPhase
from webhook.patch import PatchError
from webhook.review import BadReviewError, Request, Response, allow, bad_request, encode, parse
from webhook.settings import Context

_LOG: Final = structlog.get_logger("webhook")
_INTERNAL: Final = Response(
    allowed=False,
    code=500,
    reason="InternalError",
    message="the admission webhook failed on this object because of a bug in Seiretsu: see its log; nothing was"
    " changed and the request can be repeated",
)

ReceivedBody: TypeAlias = bytes | bytearray
StatusAndBody: TypeAlias = tuple[int, bytes]
"""HTTP status and body: JSON with 200, a sentence with any other."""
Route: TypeAlias = Callable[[ReceivedBody], Awaitable[StatusAndBody]]
Observe: TypeAlias = Callable[[Hook, Request, Response], None]
"""Gets each review with its verdict."""


def _unobserved(hook: Hook, request: Request, response: Response) -> None:
    """Does nothing."""


def routes(
    context: Context, observe: Observe = _unobserved, clock: Callable[[], float] = time.time
) -> dict[str, Route]:
    """Returns the routes of all hooks by path, also of those that the settings do not use. What their rules need is
    created here, not while the first client waits. ``clock`` is in epoch seconds.
    """
    validate.prepare()
    consequences, dry_runs = Consequences(context, clock=clock), DryRuns(context, clock=clock)
    return {hook.path: _route(hook, context, observe, consequences, dry_runs) for hook in HOOKS}


def _route(hook: Hook, context: Context, observe: Observe, consequences: Consequences, dry_runs: DryRuns) -> Route:
    async def route(body: ReceivedBody) -> StatusAndBody:
        request = _parsed(body)
        if not isinstance(request, Request):
            return request
        if request.dry_run and request.operation == "CREATE" and hook.phase is HookPhase.VALIDATING:
            response = await dry_runs.answer(lambda known: _judged(hook, request, known))
        else:
            response = _judged(hook, request, context)
        if hook.consequences:
            response = await consequences.beside(response, request)
        return _answered(hook, request, response, observe)

    return route


def answer(hook: Hook, body: ReceivedBody, context: Context, observe: Observe = _unobserved) -> StatusAndBody:
    """Returns HTTP status and body. 400 if there is no review to answer; an internal failure is a refusal, never a 500.

    If the API server may skip the hook (``Ignore``), an internal failure allows the object unchanged, as an outage
    would.
    """
    request = _parsed(body)
    if not isinstance(request, Request):
        return request
    return _answered(hook, request, _judged(hook, request, context), observe)


def _parsed(body: ReceivedBody) -> Request | StatusAndBody:
    try:
        return parse(body)
    except BadReviewError as bad:
        if not bad.uid:
            return 400, f"{bad}\n".encode()
        return 200, encode(bad.uid, bad_request(str(bad)))


def _answered(hook: Hook, request: Request, response: Response, observe: Observe) -> StatusAndBody:
    observe(hook, request, response)
    return 200, encode(request.uid, response)


def _judged(hook: Hook, request: Request, context: Context) -> Response:
    full = f"{request.resource}/{request.sub_resource}" if request.sub_resource else request.resource
    if request.group != hook.group or full not in hook.resources:
        expected = f"{', '.join(hook.resources)} of {hook.group}"
        return bad_request(f"{hook.path} looks at {expected}, not at {full[:60]!r} of {request.group[:60]!r}")
    if why := _misfit(hook, request):
        return bad_request(why)
    own = context.for_one()
    try:
        response = hook.handler(request, own)
        if response.patch:
            _check_patch(hook, request.new(), response)
    except Exception:
        _failed("admission", hook, request)
        return _INTERNAL if hook.failure_policy == "Fail" else allow()
    if hook.advice is None or not response.allowed:
        return response
    try:
        advised = hook.advice(request, own)
    except Exception:
        _failed("advice", hook, request)
        return response
    if not advised.allowed:
        return advised
    return replace(response, warnings=response.warnings + advised.warnings, rules=response.rules + advised.rules)


def _check_patch(hook: Hook, sent: Raw, response: Response) -> None:
    """Raises PatchError for a patch that does not apply to the object, or whose result is another object or malformed.

    The API server refuses the user's object for such a patch, even where it may skip the hook (``Ignore``).
    """
    patched = patch.apply(sent, response.patch)
    if errors := hook.form.errors(patched):
        raise PatchError("; ".join(map(str, errors)))
    before, after = _identity(sent), _identity(patched)
    if before != after:
        raise PatchError(f"the patch of {before} makes it {after}")


def _identity(raw: Raw) -> tuple[object, ...]:
    read = (raw.get("metadata") or {}).get
    return raw.get("apiVersion"), raw.get("kind"), read("namespace"), read("name"), read("generateName"), read("uid")


def _failed(what: str, hook: Hook, request: Request) -> None:
    _LOG.exception(f"{what} failed", hook=hook.name, namespace=request.namespace, name=request.name)


def _misfit(hook: Hook, request: Request) -> str:
    """Returns why this is not an object of the hook's kind and version, as a sentence; empty if it is one.

    The API server converts objects to the version of the hook (``matchPolicy: Equivalent``).
    """
    version = f"{hook.group}/{hook.version}" if hook.group else hook.version
    if request.kind != hook.kind:
        return f"{hook.path} looks at objects of kind {hook.kind}, not at a {request.kind[:60]!r}"
    for raw in (request.object, request.old_object):
        if raw is not None and (raw.get("apiVersion"), raw.get("kind")) != (version, hook.kind):
            found = f"{str(raw.get('kind'))[:60]!r} of {str(raw.get('apiVersion'))[:60]!r}"
            return f"{hook.path} looks at objects of kind {hook.kind} of {version}, not at a {found}"
    return ""
