"""What the client makes of the API server's answers; the calls themselves are made in tests/cluster/test_client.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from seiretsu.client.http import refusal, warnings


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
