"""Just enough of a client to provision a control plane: synchronous, one request a call, as the administrator."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from devcluster.errors import ClusterError

_TIMEOUT_SECONDS = 60.0


class Administrator:
    """Talks to the API server of one control plane, as the user of its kubeconfig (JSON, with a token)."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._host = cluster["server"].removeprefix("https://")
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=trusted)
        self._token = config["users"][0]["user"]["token"]

    def connection(self, timeout: float = _TIMEOUT_SECONDS) -> http.client.HTTPSConnection:
        """For a client with thousands of calls: a handshake costs more than an answer. ``timeout`` in seconds."""
        return _Connection(self._host, self._token, timeout, self._context)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """The status and the content of an answer; `OSError` when the server cannot be reached."""
        connection = self.connection()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def ready(self) -> bool:
        """Whether the API server answers and all its own checks pass."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> dict[str, Any] | None:
        """Returns an object or a list; `None` if there is none, or no answer."""
        try:
            status, content = self.request("GET", path)
        except OSError:
            return None
        if status != 200:
            return None
        found: dict[str, Any] = json.loads(content)
        return found

    def create(self, path: str, item: dict[str, Any]) -> None:
        """Create an object; one that is there already is fine. `ClusterError` with the API server's words otherwise."""
        try:
            status, content = self.request("POST", path, item)
        except OSError as error:
            raise ClusterError(
                f"The API server did not answer when asked to create a {item['kind']}: {error}"
            ) from error
        if status not in {200, 201, 202, 409}:
            raise ClusterError(f"The API server refused a {item['kind']}: {message(content)}")


class _Connection(http.client.HTTPSConnection):
    """A connection whose requests have a token."""

    def __init__(self, host: str, token: str, timeout: float, context: ssl.SSLContext) -> None:
        super().__init__(host, timeout=timeout, context=context)
        self._token = token

    def putrequest(self, *arguments: Any, **options: Any) -> None:
        super().putrequest(*arguments, **options)
        self.putheader("Authorization", f"Bearer {self._token}")


def message(content: bytes) -> str:
    """Returns the message of a Status, or the whole content of another answer."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(content)["message"])
    return content.decode(errors="replace")
