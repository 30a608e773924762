"""The page in a terminal: the program in a pseudo-terminal, and an emulator that shows what a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import queue as queues
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte

from api.objects import Raw
from tests.cli.api_server import EMPTY, Asked, Reply, kubeconfig, refusal, serving
from tests.cli.top.objects import cluster_queue, local_queue, running, waiting
from tests.eventually import PATIENCE, until

ROOT = Path(__file__).parents[3]
ENTER, ESCAPE, DOWN = "\r", "\x1b", "\x1bOB"


class Cluster:
    """An API server with queues and workloads; what is put into ``changes`` is told by the watch of workloads."""

    def __init__(self, *workloads: Raw, denied: bool = False) -> None:
        self.workloads = workloads
        self.changes: queues.Queue[Raw] = queues.Queue()
        self.denied = denied

    def __call__(self, asked: Asked) -> Reply:
        name = asked.path.rpartition("/")[2]
        if name == "pendingworkloads":
            item = {"metadata": {"name": "job-w", "namespace": "team-a"}}
            return Reply({"items": [item | {"positionInClusterQueue": 4, "positionInLocalQueue": 0}]})
        if self.denied and "namespaces" not in asked.path:
            return refusal(403, "Forbidden", f"{name} is forbidden")
        if "watch" in asked.query:
            return Reply(self.changes.get() if name == "workloads" else queues.Queue[Raw]().get())
        found = {
            "clusterqueues": [cluster_queue("cq", waiting=1, running=1), cluster_queue("broken", active=False)],
            "localqueues": [local_queue("main", "cq")],
            "workloads": [*self.workloads],
        }
        return Reply({"metadata": {"resourceVersion": "5"}, "items": found[name]}) if name in found else EMPTY


class Terminal:
    """A program in a terminal of so many columns and lines."""

    def __init__(self, words: list[str], columns: int = 130, lines: int = 20) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
        environ = {key: value for key, value in environ.items() if key not in ("COLUMNS", "LINES")}
        # the terminal of the session, so that Ctrl-C is a signal
        start = "import fcntl, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
        start += "; signal.signal(signal.SIGHUP, signal.SIG_IGN)"  # as under nohup: reads fail, nothing ends it
        # a shell that starts the tests in the background lets them, and what they start, ignore Ctrl-C
        start += "; signal.signal(signal.SIGINT, signal.default_int_handler)"
        code = f"{start}; sys.argv[1:] = {words!r}; from cli.main import plugin; plugin()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
        )
        os.close(slave)
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.received = 0
        self.last = b""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _pump(self) -> None:
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the program has ended
                return
            if not data:
                return
            self.received += len(data)
            self.last = (self.last + data)[-1000:]
            self._stream.feed(data)

    def lines(self) -> list[str]:
        self._pump()
        return [line.rstrip() for line in self.screen.display]

    def shows(self, text: str) -> None:
        try:
            until(lambda: any(text in line for line in self.lines()))
        except AssertionError:
            raise AssertionError(f"{text!r} is not in\n" + "\n".join(self.lines())) from None

    def line(self, text: str) -> list[str]:
        return next(line.split() for line in self.lines() if text in line)

    def hang_up(self) -> int:
        """Closes the terminal, as a lost ssh connection does; returns the exit code of the program."""
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDONLY)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def opened(tmp_path: Path, cluster: Cluster, *words: str) -> Iterator[Terminal]:
    with serving(cluster) as (url, _):
        terminal = Terminal(["top", *words, "--kubeconfig", str(kubeconfig(tmp_path / "config", url))])
        try:
            yield terminal
        finally:
            terminal.close()


def test_a_person_opens_a_queue_and_a_job_and_quits(tmp_path: Path) -> None:
    with opened(tmp_path, Cluster(running("r"), waiting("w", "2 cpu more needed"))) as terminal:
        terminal.shows("cpu 6/8 (+2 borrowed) default")
        assert terminal.line("broken")[4] == "INACTIVE"
        terminal.press("/cq" + ENTER)
        terminal.shows("with 'cq'")
        terminal.press(ENTER)
        terminal.shows("2 cpu more needed")
        terminal.shows(" 5 ")
        assert terminal.line("more needed")[:6] == ["w", "team-a", "main", "0", "waiting", "5"]
        terminal.press(DOWN + ENTER)
        terminal.shows("workload   team-a/job-w")
        terminal.shows("explain workload/job-w -n team-a")
        terminal.press(ESCAPE)
        terminal.shows("queue cq")
        terminal.press("?")
        terminal.shows("sort by the next column")
        terminal.press("q")
        assert terminal.process.wait(PATIENCE) == 0


def test_a_change_is_shown_without_a_key(tmp_path: Path) -> None:
    cluster = Cluster(waiting("w", "2 cpu more needed"))
    with opened(tmp_path, cluster) as terminal:
        terminal.press("w")
        terminal.shows("2 cpu more needed")
        cluster.changes.put({"type": "MODIFIED", "object": running("w", version="6")})
        terminal.shows("running")
        cluster.changes.put({"type": "DELETED", "object": running("w", version="7")})
        terminal.shows("nothing here")


def test_an_old_watch_lists_again(tmp_path: Path) -> None:
    cluster = Cluster(waiting("w"))
    with opened(tmp_path, cluster) as terminal:
        terminal.press("w")
        terminal.shows("waiting")
        cluster.workloads = (waiting("other"),)
        cluster.changes.put({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}})
        terminal.shows("other")
        until(lambda: not any(line[:3] == "w  " for line in terminal.lines()), "what is gone is removed")


def test_with_rights_in_a_namespace_its_queues_are_shown(tmp_path: Path) -> None:
    with opened(tmp_path, Cluster(waiting("w", "2 cpu more needed"), denied=True)) as terminal:
        terminal.shows("team-a/main")
        terminal.press(ENTER)
        terminal.shows("2 cpu more needed")
        until(lambda: terminal.line("more needed")[5] == "1", "its position in the LocalQueue")


def test_the_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path, Cluster()) as terminal:
        terminal.shows("seiretsu top")
        terminal.press("\x03")
        assert terminal.process.wait(PATIENCE) in (0, 130), "a signal ends it wherever it is"
        terminal.lines()
        assert b"\x1b[?1049l" in terminal.last, "the screen of before is shown again"


def test_a_row_that_moves_costs_a_terminal_little(tmp_path: Path) -> None:
    """Over ssh: a key sends what has changed, not the page."""
    with opened(tmp_path, Cluster(*(waiting(f"job{number:03}") for number in range(100)))) as terminal:
        terminal.press("w")
        terminal.shows("job000")
        terminal.shows("100 rows")
        page = terminal.received
        terminal.press("p")
        terminal.shows("PAUSED")
        before = terminal.received
        terminal.press(DOWN)
        until(lambda: terminal.lines() and terminal.received > before, "the next row is chosen")
        assert terminal.received - before < page / 3


def test_without_a_terminal_it_says_what_to_use(tmp_path: Path) -> None:
    code = "import sys; sys.argv[1:] = sys.argv[1:]; from cli.main import plugin; plugin()"
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    done = subprocess.run(
        [sys.executable, "-c", code, "top", "--kubeconfig", str(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, "use list workload -A -o wide" in done.stderr) == (2, True)


def test_it_ends_when_its_terminal_is_closed_even_where_the_signal_is_ignored(tmp_path: Path) -> None:
    with opened(tmp_path, Cluster(running("r"))) as terminal:
        terminal.shows("cq")
        terminal.hang_up()
