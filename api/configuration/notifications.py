"""The section `seiretsu.notifications`: who is notified of what happens to workloads, over HTTP.

Kueue sends no notifications. Everything about a receiver is set here and nothing by an object in the cluster: a tenant
chooses neither a URL nor a header. What is secret (a header, the secret part of a URL) is read from mounted files, so
that it is in no ConfigMap.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from ipaddress import ip_network
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field

from api import duration, syntax
from api.configuration.base import Duration, Section
from api.errors import FieldError, duplicate, forbidden, invalid
from api.v1beta2.base import LABEL_PATTERN, LabelSelector

NotificationType = Literal["admitted", "preempted", "failed", "waiting", "starving", "loop"]

PLACEHOLDERS: Final = (
    "clusterQueue",
    "job",
    "localQueue",
    "message",
    "name",
    "namespace",
    "priority",
    "reason",
    "text",
    "time",
    "type",
)
"""What a body may contain in braces."""
_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_RESERVED_HEADERS: Final = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding"})
_PATH: Final = "must be an absolute path"


def _but_admitted() -> list[NotificationType]:
    return ["preempted", "failed", "waiting", "starving", "loop"]


class SecretHeader(Section):
    """A header whose value is the content of a file, which is read for each call."""

    name: str
    file: str


class Receiver(Section):
    """A URL that gets notifications."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=LABEL_PATTERN)]
    """The name in logs and metrics."""
    url: str
    """`https://`, without user, query and fragment."""
    path_file: str | None = None
    """A file with the rest of the path: many chat systems have a secret there. The host is always that of `url`."""
    header: SecretHeader | None = None
    ca_file: str | None = None
    """The authorities that may have signed the receiver's certificate; absent: those of the system."""
    allow_http: bool = False
    """Whether `url` may begin with `http://`; never with a secret."""
    networks: list[str] = Field(default_factory=list)
    """Addresses that are not public are called only in these networks, such as `10.96.0.0/12`."""
    types: list[NotificationType] = Field(default_factory=_but_admitted, min_length=1)
    namespace_selector: LabelSelector | None = None
    """The namespaces of the workloads; absent is all."""
    rate_per_minute: Annotated[int, Field(ge=1, le=6000)] = 60
    queue_length: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """How many notifications may wait to be sent."""
    body: dict[str, Any] | None = None
    """What is sent instead of a CloudEvent, for chat systems: JSON whose texts have placeholders such as `{text}`."""


class Starving(Section):
    """A workload that waits starves when others overtake it."""

    overtaken_by: Annotated[int, Field(ge=1, le=1000)] = 20
    """So many younger workloads with at most its priority."""


class Loop(Section):
    """The same decision about a workload, again and again."""

    evictions: Annotated[int, Field(ge=2, le=100)] = 5
    """So many evictions for the same reason."""
    within: Duration = timedelta(hours=1)


class Notifications(Section):
    """Notifications; off without receivers."""

    receivers: list[Receiver] = Field(default_factory=list, max_length=32)
    source: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[!-~]+$")] = "/seiretsu"
    """The `source` of CloudEvents; set it to the cluster's name where several clusters have one receiver."""
    waiting_after: Duration = timedelta(hours=1)
    """When a workload that waits causes a notification; then again each time that the wait has doubled."""
    starving: Starving = Field(default_factory=Starving)
    loop: Loop = Field(default_factory=Loop)


def wrong(section: Notifications, path: str) -> Iterator[FieldError]:
    """Yields the errors that the types of the fields do not find."""
    if section.waiting_after < timedelta(minutes=1):
        yield invalid(f"{path}.waitingAfter", duration.text(section.waiting_after), "must be at least 1m")
    if section.loop.within < timedelta(minutes=1):
        yield invalid(f"{path}.loop.within", duration.text(section.loop.within), "must be at least 1m")
    names: set[str] = set()
    for index, receiver in enumerate(section.receivers):
        at = f"{path}.receivers[{index}]"
        if receiver.name in names:
            yield duplicate(f"{at}.name", receiver.name)
        names.add(receiver.name)
        yield from _address(receiver, at)
        yield from _files(receiver, at)
        yield from _placeholders(receiver.body or {}, f"{at}.body")
        if receiver.namespace_selector is not None:
            selector = receiver.namespace_selector.model_dump(by_alias=True, exclude_none=True)
            yield from syntax.label_selector(f"{at}.namespaceSelector", selector)


def _address(receiver: Receiver, path: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(receiver.url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        yield invalid(f"{path}.url", "", "is no URL")
        return
    # The value is not shown: people put secrets into URLs.
    if parts.scheme not in ("https", "http") or not host or not receiver.url.isascii():
        yield invalid(f"{path}.url", parts.scheme, "must be https://HOST[:PORT]/PATH")
    elif parts.username is not None or parts.password is not None:
        yield forbidden(f"{path}.url", "has a user or password; write it to the file of header")
    elif parts.query or parts.fragment or "?" in receiver.url or "#" in receiver.url:
        yield forbidden(f"{path}.url", "has a query or fragment; write the end of the URL to the file of pathFile")
    elif parts.scheme == "http" and not receiver.allow_http:
        yield forbidden(f"{path}.url", "http:// is neither encrypted nor authenticated; use https:// or set allowHttp")
    elif parts.scheme == "http" and (receiver.header is not None or receiver.path_file is not None):
        yield forbidden(f"{path}.url", "a secret is not sent over http://; use https://")
    for number, network in enumerate(receiver.networks):
        try:
            ip_network(network)
        except ValueError:
            yield invalid(f"{path}.networks[{number}]", network, "must be a network such as 10.96.0.0/12")


def _files(receiver: Receiver, path: str) -> Iterator[FieldError]:
    for field, file in (("pathFile", receiver.path_file), ("caFile", receiver.ca_file)):
        if file is not None and not file.startswith("/"):
            yield invalid(f"{path}.{field}", file, _PATH)
    header = receiver.header
    if header is None:
        return
    if not _HEADER.fullmatch(header.name):
        yield invalid(f"{path}.header.name", header.name, "must consist of letters, digits and hyphens")
    elif header.name.lower() in _RESERVED_HEADERS:
        yield forbidden(f"{path}.header.name", f"{header.name} is set by Seiretsu")
    if not header.file.startswith("/"):
        yield invalid(f"{path}.header.file", header.file, _PATH)


def _placeholders(value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _placeholders(child, f"{path}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _placeholders(child, f"{path}[{index}]")
    elif isinstance(value, str):
        for name in _PLACEHOLDER.findall(value):
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                yield invalid(path, value, f"{{{name}}} is no placeholder; there are {known}")
