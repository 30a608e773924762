"""The two databases of the history behind one interface: SQLite in a file, PostgreSQL by a URL.

All calls block, so they are made in threads. Errors of both are ``DatabaseFailedError`` with what to do; a file that is
no database any more is ``CorruptError``.
"""

from __future__ import annotations

import contextlib
import importlib
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from controller.history.schema import META, TABLES, VERSION, Statement

try:
    import sqlite3
except ImportError:  # a Python without it serves, too: the history may be off, or in PostgreSQL
    sqlite3 = None  # type: ignore[assignment]

DatabaseRow = Sequence[Any]
BUSY_SECONDS: Final = 5.0
_CORRUPT: Final = (11, 26)
"""SQLITE_CORRUPT and SQLITE_NOTADB."""
_STEPS_BETWEEN_CHECKS: Final = 20_000
PRUNED_AT_ONCE: Final = 500
FILE: Final = "history.sqlite"


class DatabaseFailedError(Exception):
    """The database cannot do what it was asked; the message is a sentence."""


class CorruptError(DatabaseFailedError):
    """The file is no database, or a damaged one."""


class Database(Protocol):
    """What the writer and the queries need."""

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[DatabaseRow]:
        """Returns the rows of a query, with values for its names (``:name``)."""

    def write(self, several: Iterable[Statement]) -> None:
        """Runs all statements or none of them."""

    def floor(self, number: str) -> str:
        """Returns the expression of the largest integer below one that is not negative."""

    def size(self) -> int | None:
        """Returns how many bytes are in use; None if that is not known, and so not limited."""

    def close(self) -> None:
        """Closes the connection."""


class Sqlite:
    """A file. ``shared``: other hosts may read it over a network file system, where a write-ahead log does not work."""

    def __init__(self, path: Path, *, shared: bool = False, read_only: bool = False, seconds: float = 0.0) -> None:
        """Opens the file, and makes the tables unless it is ``read_only``; a query ends after so many seconds."""
        self.path = path
        if sqlite3 is None:
            raise DatabaseFailedError("this Python has no SQLite: use PostgreSQL for the history, or another image")
        with _failing(f"the history in {path}"):
            mode = "ro" if read_only else "rwc"
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                timeout=BUSY_SECONDS,
                check_same_thread=False,
            )
            try:
                if seconds:
                    self._limit(seconds)
                if not read_only:
                    self._prepare(shared=shared)
                self._check_version()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, *, shared: bool) -> None:
        run = self._connection.execute
        run("PRAGMA auto_vacuum=INCREMENTAL")
        run(f"PRAGMA journal_mode={'TRUNCATE' if shared else 'WAL'}")
        run("PRAGMA synchronous=NORMAL")
        found = run("PRAGMA quick_check(1)").fetchone()
        if found is None or found[0] != "ok":
            raise CorruptError(f"{self.path} is damaged: {found[0] if found else 'it cannot be read'}")
        run("BEGIN IMMEDIATE")
        for each in TABLES:
            run(each)
        run("INSERT OR IGNORE INTO meta (name, value) VALUES ('version', ?)", (VERSION,))
        run("COMMIT")

    def _check_version(self) -> None:
        found = self._connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
        check_version(found, str(self.path))

    def _limit(self, seconds: float) -> None:
        def late() -> bool:
            return time.monotonic() > self._until

        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._connection.set_progress_handler(late, _STEPS_BETWEEN_CHECKS)

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[DatabaseRow]:
        """Returns the rows of a query."""
        self._until = time.monotonic() + getattr(self, "_seconds", 0.0)
        with _failing(f"the history in {self.path}"):
            return self._connection.execute(sql, values).fetchall()

    def write(self, several: Iterable[Statement]) -> None:
        """Runs all statements in one transaction."""
        run = self._connection.execute
        with _failing(f"the history in {self.path}"):
            run("BEGIN IMMEDIATE")
            try:
                for sql, values in several:
                    run(sql, values)
                run("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    run("ROLLBACK")
                raise

    def floor(self, number: str) -> str:
        """Returns the expression in SQLite's words."""
        return f"CAST({number} AS INTEGER)"

    def size(self) -> int | None:
        """Returns the bytes of the pages that are in use."""
        with _failing(f"the history in {self.path}"):
            pages, free, bytes_each = (
                self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * bytes_each)

    def shrink(self) -> None:
        """Gives pages that are free back to the file system."""
        with _failing(f"the history in {self.path}"):
            self._connection.execute("PRAGMA incremental_vacuum(2000)").fetchall()
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


class Postgres:
    """A server. The tables are in the schema that the URL names (``?schema=``), one for each cluster."""

    def __init__(self, url: str, *, read_only: bool = False, seconds: float = 0.0) -> None:
        """Connects, and makes the schema and its tables unless the connection is ``read_only``."""
        try:
            driver = importlib.import_module("pg8000.native")
        except ImportError:
            raise DatabaseFailedError(
                "the driver of PostgreSQL is not installed: pip install 'seiretsu[postgres]'"
            ) from None
        parts = urlsplit(url)
        options = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.scheme not in ("postgres", "postgresql") or not parts.hostname:
            raise DatabaseFailedError("the URL of the history is not postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
        self._name = f"the history in PostgreSQL at {parts.hostname}"
        self._errors = (driver.DatabaseError, driver.InterfaceError, OSError)
        self.schema = options.get("schema", "seiretsu")
        if not self.schema.replace("_", "a").isalnum():
            wrong = f"schema={self.schema!r} in the URL of the history"
            raise DatabaseFailedError(f"{wrong}: a schema has letters, digits and _")
        with self._failing():
            self._connection = driver.Connection(
                unquote(parts.username or "postgres"),
                host=parts.hostname,
                port=parts.port or 5432,
                database=unquote(parts.path.strip("/")) or "postgres",
                password=unquote(parts.password) if parts.password else None,
                ssl_context=_tls(options),
                timeout=max(BUSY_SECONDS, seconds + 1.0),
                application_name="seiretsu",
            )
        try:
            with self._failing():
                run = self._connection.run
                if seconds:
                    run(f"SET statement_timeout = {int(seconds * 1000)}")
                if not read_only:
                    run(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
                run(f"SET search_path TO {self.schema}")
                if not read_only:
                    for each in TABLES:
                        run(each)
                    run(
                        "INSERT INTO meta (name, value) VALUES ('version', :version) ON CONFLICT DO NOTHING",
                        version=VERSION,
                    )
                found = run("SELECT value FROM meta WHERE name = 'version'")
            check_version(found[0] if found else None, self._name)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise DatabaseFailedError(f"{self._name}: {_of_server(error)}") from error

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[DatabaseRow]:
        """Returns the rows of a query."""
        with self._failing():
            return list(self._connection.run(sql, **values) or [])

    def write(self, several: Iterable[Statement]) -> None:
        """Runs all statements in one transaction."""
        run = self._connection.run
        with self._failing():
            run("BEGIN")
            try:
                for sql, values in several:
                    run(sql, **values)
                run("COMMIT")
            except BaseException:
                with contextlib.suppress(*self._errors):
                    run("ROLLBACK")
                raise

    def floor(self, number: str) -> str:
        """Returns the expression in PostgreSQL's words."""
        return f"CAST(FLOOR({number}) AS BIGINT)"

    def size(self) -> int | None:
        """None: a table keeps its size when rows are deleted, so only their age is limited."""
        return None

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(*self._errors):
            self._connection.close()


def alive(database: Database) -> float:
    """Returns when the history was written last; 0 if never."""
    found = database.rows("SELECT value FROM meta WHERE name = 'alive'", {})
    return float(found[0][0]) if found else 0.0


def written_at(now: float) -> Statement:
    """Returns the statement that remembers when the history was written last."""
    return META, {"name": "alive", "value": now}


def prune(database: Database, before: float, most_bytes: int) -> int:
    """Deletes the workloads that finished, or did not change, before a time; then, while more bytes are in use than
    ``most_bytes``, those that ended first. Returns how many, at most ``PRUNED_AT_ONCE``.
    """
    old = database.rows(
        f"SELECT uid FROM workloads WHERE changed < :before AND (finished IS NOT NULL OR NOT EXISTS"
        f" (SELECT 1 FROM uses WHERE uses.uid = workloads.uid AND until IS NULL)) ORDER BY changed"
        f" LIMIT {PRUNED_AT_ONCE}",
        {"before": before},
    )
    size = database.size()
    if not old and size is not None and size > most_bytes:
        old = database.rows(f"SELECT uid FROM workloads ORDER BY finished IS NULL, changed LIMIT {PRUNED_AT_ONCE}", {})
    deleted: list[Statement] = [
        (f"DELETE FROM {table} WHERE uid = :uid", {"uid": uid})
        for (uid,) in old
        for table in ("uses", "attempts", "steps", "workloads")
    ]
    deleted.append(("DELETE FROM quotas WHERE until < :before", {"before": before}))
    database.write(deleted)
    return len(old)


def set_aside(path: Path, now: float) -> Path:
    """Renames a file that is damaged, and what belongs to it; returns its new name."""
    aside = path.with_name(f"{path.name}.corrupt-{int(now)}")
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).replace(aside.with_name(aside.name + ending))
    return aside


def check_version(found: DatabaseRow | None, where: str) -> None:
    """Raises ``DatabaseFailedError`` if the tables are those of a newer program."""
    if found is None:
        raise DatabaseFailedError(f"{where} has no history yet")
    if found[0] > VERSION:
        raise DatabaseFailedError(
            f"{where} was written by a newer Seiretsu (tables of version {found[0]:.0f}, this one knows {VERSION}):"
            " use that version, or another directory"
        )


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise DatabaseFailedError(f"{what}: the query took too long: ask for a shorter time") from error
        raise DatabaseFailedError(f"{what}: {error}") from error
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", _CORRUPT[0]) & 0xFF in _CORRUPT:
            raise CorruptError(f"{what}: {error}") from error
        raise DatabaseFailedError(f"{what}: {error}") from error


def _of_server(error: Exception) -> str:
    """The message of the server without the fields that only programs read."""
    given = error.args[0] if error.args else str(error)
    return str(given.get("M", given)) if isinstance(given, dict) else str(error)


def _tls(options: Mapping[str, str]) -> ssl.SSLContext | None:
    mode = options.get("sslmode", "verify-full")
    if mode == "disable":
        return None
    context = ssl.create_default_context(cafile=options.get("sslrootcert"))
    if mode in ("require", "verify-ca"):
        context.check_hostname = False
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context
