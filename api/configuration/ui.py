"""The section `seiretsu.ui`: whether the page is served, where, and which proxy may name its users.

Kueue has no page in its process.
"""

from pydantic import Field

from api.configuration.base import Section


class AuthenticatingProxy(Section):
    """A proxy that authenticates people and proves itself by a client certificate; as that of the API server."""

    client_ca_file: str
    """The CA that has signed its certificate, a file."""
    allowed_names: list[str] = Field(default_factory=list)
    """The names that its certificate may have; any name if there are none."""
    username_headers: list[str] = Field(default_factory=lambda: ["X-Remote-User"])
    """The headers that have the user."""
    group_headers: list[str] = Field(default_factory=lambda: ["X-Remote-Group"])
    """The headers that have his groups."""
    extra_headers_prefix: list[str] = Field(default_factory=lambda: ["X-Remote-Extra-"])
    """The beginnings of the names of headers with further attributes."""


class Ui(Section):
    """The page for people."""

    enable: bool = False
    """Whether it is served. Without it nothing of it runs."""
    bind_address: str = ""
    """HOST:PORT; without one `0.0.0.0:8445` in a cluster, and outside of it a free port that only this machine reaches,
    which is served without TLS.
    """
    proxy: AuthenticatingProxy | None = None
    """The proxy that may name users; without it they need tokens."""
