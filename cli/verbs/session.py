"""A command's calls to the API server, with failures in kubectl's words; and the options that all commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple, get_type_hints

import typer

from api import names
from api.objects import Raw, Resource
from cli import target
from cli.reader import PAGE_SIZE
from cli.target import As, AsGroup, ContextOption, FailedError, Kubeconfig, Namespace, UnreadableError
from cli.verbs.kinds import closest
from cli.verbs.printing import Output, done, output, written
from cli.writer import DryRun, ObjectWriter
from controller.kube.errors import ApiError, Forbidden, Unauthorized, Unintelligible, Unreachable

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]


class Option(NamedTuple):
    """An option that commands share."""

    annotation: Any
    default: Any


_NAMESPACED: Final = {"namespace": Option(Namespace, "")}
_EVERYWHERE: Final = {
    "all_namespaces": Option(Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")], False)
}
_WRITES: Final = {
    "dry_run": Option(
        Annotated[
            DryRun, typer.Option("--dry-run", help="client: nothing is sent; server: it is checked and not stored.")
        ],
        "none",
    )
}
_PRINTS: Final = {
    "output": Option(
        Annotated[
            str,
            typer.Option(
                "--output", "-o", metavar="FORMAT", help="wide, json, yaml, name, jsonpath=TEMPLATE and others."
            ),
        ],
        "",
    ),
    "template": Option(
        Annotated[str, typer.Option("--template", help="The template of -o jsonpath, or its file.")], ""
    ),
    "show_managed_fields": Option(
        Annotated[bool, typer.Option("--show-managed-fields", help="Print metadata.managedFields, too.")], False
    ),
    "allow_missing_template_keys": Option(
        Annotated[
            bool, typer.Option("--allow-missing-template-keys", help="Accepted as in kueuectl: it is always so.")
        ],
        True,
    ),
}
_CLUSTER: Final = {
    "kubeconfig": Option(Kubeconfig, None),
    "context": Option(ContextOption, ""),
    "as_user": Option(As, ""),
    "as_group": Option(AsGroup, None),
}


class Session(NamedTuple):
    """What a command of a verb is given: an open client, and the options that all commands of its kind share.

    ``namespace`` is that of ``-n``, else that of the context; ``where`` is empty for all namespaces.
    """

    client: ObjectWriter
    namespace: str
    where: str
    output: Output
    dry_run: DryRun
    managed_fields: bool

    def print(self, value: Raw) -> None:
        """Prints an object or a list as ``-o`` asks for, which is no table."""
        typer.echo(written(value, self.output, managed_fields=self.managed_fields), nl=False)

    def wrote(self, raw: Raw, verb: str) -> None:
        """Prints what was written: a line with the verb, or the object as ``-o`` asks for."""
        if self.output.is_table:
            typer.echo(done(raw, verb, self.dry_run), nl=False)
        else:
            self.print(raw)


def verb(
    command: str, *, namespaced: bool = False, everywhere: bool = False, writes: bool = False, prints: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command: it gets a Session first, and its own options. The command has these and the shared
    ones. A failure ends it with its sentence and exit code.
    """
    shared = {
        **(_NAMESPACED if namespaced else {}),
        **(_EVERYWHERE if everywhere else {}),
        **(_WRITES if writes else {}),
        **(_PRINTS if prints else {}),
        **_CLUSTER,
    }

    def made(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [each for each in inspect.signature(function).parameters.values() if each.name != "opened"]

        @functools.wraps(function)
        def run(**given: Any) -> None:
            chosen = {name: given.pop(name, option.default) for name, option in shared.items()}
            with target.failing(command, chosen.get("output") or ""), _opened(chosen) as opened:
                function(opened, **given)

        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, keyword, default=option.default, annotation=option.annotation)
            for name, option in shared.items()
        ]
        parameters = [each.replace(kind=keyword, annotation=hints[each.name]) for each in own] + added
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        del run.__wrapped__
        return run

    return made


@contextmanager
def _opened(chosen: Mapping[str, Any]) -> Iterator[Session]:
    asked = output(chosen.get("output", ""), chosen.get("template", ""))
    here = target.target(*(chosen[name] for name in _CLUSTER)).connection()
    dry_run = chosen.get("dry_run", "none")
    namespace = chosen.get("namespace") or here.namespace
    where = "" if chosen.get("all_namespaces") else namespace
    with ObjectWriter(here, dry_run=dry_run == "server") as client, answered(here.server):
        yield Session(client, namespace, where, asked, dry_run, chosen.get("show_managed_fields", False))


@contextmanager
def answered(server: str) -> Iterator[None]:
    """Turns an error of a call into a failure in kubectl's words: exit code 3 if there was no answer, 1 if the API
    server refused.
    """
    try:
        yield
    except ApiError as error:
        unread = isinstance(error, (Unreachable, Unauthorized, Unintelligible))
        raise (UnreadableError if unread else FailedError)(target.sentence(error, server)) from None


def listed(
    client: ObjectWriter, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
) -> tuple[list[Raw], str]:
    """Returns all objects of a kind, with the version of the list. Raises UnreadableError without the right."""
    query = {"limit": str(PAGE_SIZE)}
    query |= {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
    items: list[Raw] = []
    while True:
        try:
            page = client.get(resource.path(namespace), query)
        except Forbidden as error:
            raise UnreadableError(target.sentence(error, client.connection.server)) from None
        except ApiError as error:
            if error.status == 404:
                raise _not_served(error, resource) from None
            raise  # with its cause, from which the sentence is made
        items += [
            {"apiVersion": resource.api_version, "kind": resource.kind, **each} for each in page.get("items") or ()
        ]
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return items, str((page.get("metadata") or {}).get("resourceVersion", ""))
        query["continue"] = token


def _not_served(error: ApiError, resource: Resource) -> FailedError:
    more = ": is Seiretsu installed in this cluster?" if resource.group == names.GROUP else ""
    return FailedError(f'the server doesn\'t have a resource type "{resource.plural}"{more}')


def one(client: ObjectWriter, resource: Resource, namespace: str, name: str) -> Raw:
    """Returns an object. Raises FailedError with the closest name if there is none of this name."""
    where = namespace if resource.namespaced else ""
    try:
        return client.get(resource.path(where, name))
    except Forbidden as error:
        raise UnreadableError(target.sentence(error, client.connection.server)) from None
    except ApiError as error:
        if error.status != 404:
            raise
    raise FailedError(not_found(client, resource, where, name))


def not_found(client: ObjectWriter, resource: Resource, namespace: str, name: str) -> str:
    """Returns the sentence about an object that does not exist, with the closest name of those that do."""
    try:
        known = [each["metadata"]["name"] for each in listed(client, resource, namespace)[0]]
    except (ApiError, FailedError):
        known = []
    kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    where = f" in namespace {namespace}" if namespace else ""
    return f'Error from server (NotFound): {kind} "{name}" not found{where}{closest(name, known)}'


def none_found(namespace: str) -> None:
    """Prints that a list is empty, on stderr as kubectl does."""
    typer.echo(f"No resources found in {namespace} namespace." if namespace else "No resources found", err=True)
