"""What the client makes of the API server's answers; the calls themselves are made in tests/cluster/test_client.py."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from socket import gaierror
from urllib.error import URLError

import pytest

from seiretsu.client.http import Api, ApiError, document, refusal, unreachable, warnings


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        ([], ()),
        (['299 - "never starts: asks for 20 cpu"'], ("never starts: asks for 20 cpu",)),
        (['299 - "one", 299 - "two, with a comma"'], ("one", "two, with a comma")),
        (['299 - "LocalQueue \\"mian\\" does not exist"', '299 - "b"'], ('LocalQueue "mian" does not exist', "b")),
        (["not a warning"], ()),
    ],
)
def test_warnings_are_read_from_the_headers(headers: list[str], texts: tuple[str, ...]) -> None:
    assert warnings(headers) == texts


def test_an_object_that_is_nested_too_deep_hides_no_other() -> None:
    deep = b'[{"f:a": ' * 2_500 + b"{}" + b"}]" * 2_500
    found = document(b'{"items": [{"name": "deep", "managedFields": %s}, {"name": "b"}]}' % deep)
    assert [each["name"] for each in found["items"]] == ["deep", "b"]


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        (
            b'{"kind": "Status", "reason": "NotFound", "message": "jobs \\"a\\" not found"}',
            "NotFound",
            'jobs "a" not found',
        ),
        (b"upstream is gone\n", "", "upstream is gone"),
        (b"", "", "HTTP 404"),
        (b"[]", "", "[]"),
    ],
)
def test_a_refusal_is_what_kubectl_would_print(body: bytes, reason: str, message: str) -> None:
    found = refusal(404, body)
    assert (found.status, found.reason, str(found)) == (404, reason, message)


def test_it_imports_the_standard_library_only() -> None:
    code = (
        "import sys, seiretsu.client;"
        "own = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names);"
        "print(sorted(name for name in own if not name.startswith('_')))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['seiretsu']"


def test_an_api_server_that_is_down_is_an_api_error_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = Api(f"https://127.0.0.1:{port}", ssl.create_default_context(), lambda: "")
    for call in (lambda: api.get("/api"), lambda: list(api.watch("/api", 1))):
        with pytest.raises(ApiError) as told:
            call()
        said = f"The connection to the server 127.0.0.1:{port} was refused - did you specify the right host or port?"
        assert (told.value.status, told.value.reason, str(told.value)) == (0, "Unreachable", said)
        assert isinstance(told.value, OSError), "who caught URLError still catches it"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (URLError(gaierror(-2, "Name or service not known")), "there is no host api"),
        (URLError(TimeoutError("timed out")), "it does not answer in time"),
        (TimeoutError("timed out"), "it does not answer in time"),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "Unable to connect to the server api:6443: Connection reset",
        ),
    ],
)
def test_why_there_is_no_answer_is_plain(error: Exception, text: str) -> None:
    assert text in unreachable("https://api:6443", error)
