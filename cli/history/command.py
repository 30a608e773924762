"""`seiretsu report`: use, waits, preemptions, fairness and idle quota of a time, from the history.

The server is asked, through the visibility API, with the rights of the user: for the whole cluster, or, if that is
refused, for one namespace. ``--file`` reads a file of the history instead, a copy of which can be kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import quote

import typer

from api import visibility
from api.objects import Raw
from cli import target
from cli.history import text
from cli.reader import Reader
from cli.scenario import duration
from cli.target import As, AsGroup, ContextOption, FailedError, Kubeconfig, UnreadableError
from controller.history import document, queries
from controller.history.database import Database, DatabaseFailedError, Sqlite
from controller.history.queries import GroupedBy
from controller.kube.errors import ApiError, Forbidden, NotFound
from core.explain.sight import EVERYTHING, of_namespace
from core.history.record import LifeRecord
from core.history.report import Window, window

By = Literal["queue", "cohort", "namespace", "user", "localqueue"]
OutputForm = Literal["table", "csv", "html", "json", "yaml"]
_BASE: Final = f"/apis/{visibility.GROUP}/{visibility.VERSIONS[0]}"


def command(
    since: Annotated[str, typer.Option(help="How far back: 7d, 12h.")] = "7d",
    until: Annotated[str, typer.Option(help="How long ago it ends; 0s is now.")] = "0s",
    by: Annotated[By, typer.Option(help="What use and waits are grouped by.")] = "queue",
    workloads: Annotated[
        bool, typer.Option("--workloads", help="List the workloads that ended instead, as a table or CSV.")
    ] = False,
    file: Annotated[Path | None, typer.Option(help="Read this file of a history instead of asking the server.")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")] = "",
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    output: Annotated[OutputForm, typer.Option("--output", "-o", help="How to print it.")] = "table",
) -> None:
    """Show who used how much, who waited how long, preemptions, fairness and idle quota."""
    with target.failing("report", output, ValueError, DatabaseFailedError):
        now = time.time()
        ago, ends = duration(since), duration(until)
        if ends >= ago:
            raise target.UsageError("--until must be less than --since: both are how long ago")
        over = window(now - ago, now - ends)
        if file is not None:
            found = _of_file(file, over, by, namespace, workloads=workloads)
        else:
            here = target.target(kubeconfig, context, as_user, as_group).connection()
            with Reader(here) as reader, target.reached(here.server):
                found = _of_server(reader, over, by, namespace, here.namespace, workloads=workloads)
        typer.echo(printed(found, output), nl=False)


def printed(found: Raw, output: OutputForm) -> str:
    """Returns a document in the form that is asked for."""
    if output in ("json", "yaml"):
        return target.written(target.document(visibility.REPORT, found), output)
    if "workloads" in found:
        ended = document.workloads_read(found["workloads"])
        if output == "html":
            raise target.UsageError("--workloads is a table or CSV: -o table, csv, json or yaml")
        return text.as_csv(text.workload_rows(ended)) if output == "csv" else text.workload_table(ended)
    report = document.read(found)
    if output == "csv":
        return text.as_csv(text.rows(report))
    return text.html(report) if output == "html" else text.table(report)


def _of_file(path: Path, over: Window, by: By, namespace: str, *, workloads: bool) -> Raw:
    if not path.is_file():
        raise UnreadableError(f"{path} is no file: --file names the file of a history (history.sqlite)")
    sight = of_namespace(namespace) if namespace else EVERYTHING
    database: Database = Sqlite(path, read_only=True)
    try:
        if not workloads:
            return document.written(queries.report(database, over, GroupedBy(by), sight))
        return _all_pages(lambda offset: queries.finished(database, over, sight, offset=offset))
    finally:
        database.close()


def _of_server(reader: Reader, over: Window, by: By, namespace: str, usual: str, *, workloads: bool) -> Raw:
    name = visibility.FINISHED if workloads else by
    query = {"since": repr(over.start), "until": repr(over.end)}

    def get(where: str, more: dict[str, str]) -> Raw:
        place = f"/namespaces/{quote(where, safe='')}" if where else ""
        return reader.get(f"{_BASE}{place}/{visibility.REPORTS}/{name}", {**query, **more})

    def asked(where: str) -> Raw:
        if not workloads:
            return get(where, {})
        return _all_pages(lambda offset: document.workloads_read(get(where, {"offset": str(offset)})["workloads"]))

    try:
        try:
            return asked(namespace)
        except Forbidden:
            if namespace:
                raise
            typer.echo(f"you may not read the report of all namespaces: this is that of {usual}", err=True)
            return asked(usual)
    except NotFound as error:
        raise FailedError(_missing(error)) from None


def _missing(error: ApiError) -> str:
    if "history" in error.message:
        return error.message
    return (
        "the server does not serve reports: they need the values history.enabled and visibility.enabled of the chart;"
        " --file reads the file of a history"
    )


def _all_pages(page: Callable[[int], list[LifeRecord]]) -> Raw:
    found: list[LifeRecord] = []
    while part := page(len(found)):
        found += part
        if len(part) < queries.MOST_ROWS:
            break
    return {"workloads": document.workloads_written(found)}
