"""The operator's rules in CEL, checked when the Configuration is read.

The dialect is standard CEL, with Kubernetes' variables `object`, `oldObject`, `request` and `namespaceObject`, and two
additions: `job`, the request of a job in base units, and `amount(resource, quantity)`, which converts a quantity into
the same units. The library is imported only if there is a rule: it costs 20 ms and most installations have none.

It compiles without types, so an expression is also evaluated on a sample: one that returns a value of the wrong type,
or fails for every object, would only cause a warning about every object.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api import cel_tree, quantity
from api.cel_tree import CelCall, CelNode, CelOperation, Index, Literal, Name, Select

VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject", "job")
FIELDS: Final = {
    "request": ("operation", "namespace", "name", "username", "dryRun"),
    "namespaceObject": ("metadata",),
    "job": ("queue", "priorityClass", "pods", "requests"),
}
"""The fields of the variables that Seiretsu defines."""
OF_JOBS: Final = frozenset({"jobs", "workloads"})
"""The resources for which there is a `job`."""
FUNCTIONS: Final = frozenset(
    (
        *("amount", "size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)


def value(program: Any, variables: Mapping[str, Any]) -> object:
    """Returns the value of a compiled expression. Raises the errors of the evaluation."""
    import cel

    found: object = program.execute(cel.Context(dict(variables), {"amount": quantity.amount}))
    return found


def counted(source: str) -> frozenset[str]:
    """Returns the resources that an expression reads of ``job.requests`` without asking first whether they are there.
    They are 0 where the job does not ask for them.
    """
    read: set[str] = set()
    asked: set[str] = set()
    for node, defined in cel_tree.occurrences(cel_tree.parse(source)):
        if "job" in defined:
            continue
        match node:
            case CelCall(None, "has", (tested,)):
                asked.update(_requested(tested))
            case CelOperation(("in",), (Literal(str(key)), holder)) if holder == _REQUESTS:
                asked.add(key)
            case _:
                read.update(_requested(node))
    return frozenset(read - asked)


_REQUESTS: Final = Select(Name("job"), "requests")


def _requested(node: CelNode) -> Iterator[str]:
    """Yields the resource where the node is one of ``job.requests``."""
    operand, field = _field(node)
    if operand == _REQUESTS and field:
        yield field


def _field(node: CelNode) -> tuple[CelNode | None, str]:
    """Returns the operand and the name of a field, written as ``a.b`` or ``a["b"]``; ``None, ""`` for other nodes."""
    match node:
        case Select(operand, field):
            return operand, field
        case Index(operand, Literal(str(field))):
            return operand, field
    return None, ""


def problem(source: str, resources: Iterable[str], wanted: type[bool | str]) -> str:
    """Returns the mistake in an expression that must return a ``wanted`` value for these resources, '' for none.

    Its syntax, an unknown function, variable or field, another type of value, operands of the wrong type.
    """
    import cel

    try:
        program = cel.compile(source)
    except ValueError as error:
        return _brief(str(error))
    functions = sorted(name for name in program.functions() if name.isidentifier() and name not in FUNCTIONS)
    if functions:
        return f"unknown function {functions[0]}; there are {', '.join(sorted(FUNCTIONS))}"
    nodes = [*cel_tree.occurrences(cel_tree.parse(source))]
    read = {node.name for node, defined in nodes if isinstance(node, Name) and node.name not in defined}
    if unknown := sorted(read.difference(VARIABLES)):
        return f"unknown variable {unknown[0]}; there are {', '.join(VARIABLES)}"
    of_jobs = not OF_JOBS.isdisjoint(resources)
    if "job" in read and not of_jobs:
        return f"there is a job of {' and '.join(sorted(OF_JOBS))} only, not of {', '.join(resources)}"
    return _unknown_field(nodes) or _tried(program, wanted, of_jobs=of_jobs)


def _unknown_field(nodes: Iterable[tuple[CelNode, frozenset[str]]]) -> str:
    for node, defined in nodes:
        match _field(node):
            case Name(variable), str(field) if variable not in defined and field not in FIELDS.get(variable, (field,)):
                return f"unknown field {variable}.{field}; there are {', '.join(FIELDS[variable])}"
    return ""


_METADATA: Final = {"name": "n", "namespace": "n", "labels": {}, "annotations": {}, "uid": "u"}
_OBJECT: Final = {"metadata": {**_METADATA, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
_REQUEST: Final = {"operation": "CREATE", "namespace": "n", "name": "n", "username": "u", "dryRun": False}
_JOB: Final = {"queue": "q", "priorityClass": "", "pods": 1, "requests": {"cpu": 1000, "memory": 2**30}}


def _tried(program: Any, wanted: type[bool | str], *, of_jobs: bool) -> str:
    """Returns the mistake in the value for a sample, created and changed; '' also if it uses fields that the sample
    does not have.
    """
    problems = []
    for old, operation in ((None, "CREATE"), (_OBJECT, "UPDATE")):
        sample = {
            "object": _OBJECT,
            "oldObject": old,
            "request": {**_REQUEST, "operation": operation},
            "namespaceObject": {"metadata": {"name": "n", "labels": {}}},
            "job": _JOB if of_jobs else None,
        }
        try:
            found = value(program, sample)
        except (TypeError, RuntimeError) as error:
            problems.append(trouble(error))
        except Exception:
            return ""
        else:
            if isinstance(found, wanted):
                return ""
            problems.append(f"must be {'true or false' if wanted is bool else 'a text'}, not {found!r}")
    return problems[0]


_OF_FUNCTION: Final = re.compile(r"Function '(\w+)' error: (?:Python function call failed: (?:\w+: )?)?(.*)", re.DOTALL)
_UNDEFINED: Final = re.compile(r"Undefined variable or function: '(\w+)'")


def trouble(error: Exception) -> str:
    """Returns the error of an expression, as a short sentence on one line."""
    text = str(error)
    if undefined := _UNDEFINED.match(text):
        return f"{undefined[1]} does not take what it is given"
    if called := _OF_FUNCTION.match(text):
        text = f"{called[1]}: {called[2]}"
    return " ".join(text.partition(". ")[0].split())


def _brief(error: str) -> str:
    """The parser's sentence, without the expression around it."""
    line = next((line for line in error.splitlines() if "ERROR:" in line), error.partition("\n")[0])
    return line.partition("ERROR: <input>:")[2] or line
