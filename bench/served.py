"""The program that is measured: ``seiretsu serve`` in its own process, as an operator would start it."""

import contextlib
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from api.objects import Resource
from bench.measure import AHEAD, weigh
from controller.kube.client import Client

READY_SECONDS = 240.0
END_SECONDS = 30.0
PROGRAM = "from cli.main import main; main()"


_TIED = """import os, signal, threading
def end() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end, daemon=True).start()
"""

HOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "", namespaced=False)


def tied(program: str) -> str:
    """Returns a Python program that gets SIGTERM when its standard input ends: given a pipe of the bench, it does not
    outlive the bench, even if that is killed.
    """
    return _TIED + program


async def hooks_at(client: Client) -> str:
    """The URL below which a program that installed itself is called, without a slash at its end."""
    (configuration,) = (await client.list(HOOKS))["items"]
    url: str = configuration["webhooks"][0]["clientConfig"]["url"]
    return url.rsplit("/", 1)[0]


def metrics(base: str, authority: Path) -> str:
    """The metrics of a program with this URL, whose certificate this authority has issued."""
    trust = ssl.create_default_context(cafile=str(authority))
    with urllib.request.urlopen(f"{base}/metrics", context=trust, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


@contextlib.contextmanager
def served(
    kubeconfig: Path,
    scratch: Path,
    *more: str,
    ready_seconds: float = READY_SECONDS,
    program: str = PROGRAM,
    first: tuple[str, ...] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """Context in which serve runs, from the line ``ready`` on; raises ``RuntimeError`` with the end of the log if it
    fails. ``program`` starts it; it may take the ``first`` arguments for itself.
    """
    output, log = scratch / "serve.out", scratch / "serve.log"
    words = ["serve", "--install", "--kubeconfig", str(kubeconfig), "--bind", "127.0.0.1:0", "--lame-duck", "0"]
    words += ["--cert-dir", str(scratch / "certificates"), "--log-level", "warning", *more]
    with output.open("wb") as out, log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", tied(program), *first, *words],
            stdout=out,
            stderr=errors,
            stdin=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # its own share of the processors, like each of the control plane's programs
        )
        weigh(process.pid, AHEAD)
    try:
        deadline = time.monotonic() + ready_seconds
        while b"ready" not in output.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"serve did not get ready (exit {process.poll()}):\n{_end(log)}")
            time.sleep(0.05)
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"serve ended by itself with exit {process.returncode}:\n{_end(log)}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _end(log: Path) -> str:
    return log.read_bytes()[-4000:].decode(errors="replace")
