"""Starts programs apart from the terminal and stops exactly those: each is recorded with its start time.

A process id alone may belong to another process later (after a crash, a reboot): a record also has the start time of
the process, and only a process that matches both is signalled. Every program leads its own process group, so that
Ctrl-C in the terminal does not reach it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Record:
    """A process we started: enough to recognise it later, from another process."""

    name: str
    pid: int
    started: str

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return start_time(self.pid) == self.started

    def send(self, signum: signal.Signals) -> None:
        """Signal the process and its group; nothing happens when it is gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signum)


def start_time(pid: int) -> str | None:
    """Returns when a process started, in the form of the system; `None` if it does not run."""
    stat = Path(f"/proc/{pid}/stat")
    if sys.platform == "linux":
        try:
            # the name, in parentheses, may itself contain spaces and parentheses
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in {"Z", "X"} else fields[19]
    output = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, started = output.partition(" ")
    return started.strip() if output and not state.startswith("Z") else None


def start(
    name: str, command: Sequence[str | Path], *, log: Path, records: Path, environ: Mapping[str, str] | None = None
) -> Record:
    """Starts a program in its own session, its output appended to `log`, its record in the directory `records`."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # no Ctrl-C between the process and its record
    try:
        record = Record(name, pid := _spawn(command, log, environ), start_time(pid) or "")
        scratch = records / f".{name}.json"
        scratch.write_text(json.dumps(asdict(record)))
        scratch.rename(records / f"{name}.json")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return record


def _spawn(command: Sequence[str | Path], log: Path, environ: Mapping[str, str] | None) -> int:
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # rather than subprocess.Popen, which warns when its object is deleted before its process ends, which is intended
    # here
    return os.posix_spawn(
        command[0],
        [os.fspath(word) for word in command],
        os.environ if environ is None else environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.fspath(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE,),  # which Python ignores, and a child would inherit that
    )


def exit_code(record: Record) -> int | None:
    """Returns how a child process ended, minus the signal's number if by one; `None` while it runs. Answers once, then
    -1.
    """
    alive = record.alive()  # asked first: one that ends from here on is still there to be collected
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(record.pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
    return None if alive else -1


def recorded(records: Path) -> tuple[Record, ...]:
    """All processes recorded in a directory, by name; those that no longer run included."""
    found = (json.loads(path.read_text()) for path in sorted(records.glob("[!.]*.json")))
    return tuple(Record(**fields) for fields in found)


def stop(records: Iterable[Record], *, grace: float) -> None:
    """Asks processes to end, all at once, and kills the rest after `grace` seconds; returns when all are gone."""
    waiting = list(records)
    for record in waiting:
        record.send(signal.SIGCONT)  # a paused process would not see the next signal
        record.send(signal.SIGTERM)
    deadline = time.monotonic() + grace
    killed = False
    while waiting := [record for record in waiting if exit_code(record) is None]:
        if not killed and time.monotonic() >= deadline:
            killed = True
            for record in waiting:
                record.send(signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
