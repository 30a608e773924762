"""The operator's own rules as CEL: what they may say, checked when the Configuration is read.

The dialect is standard CEL, of Kubernetes' variables `object`, `oldObject`, `request` and `namespaceObject`, with two
additions: `job`, which is what a job asks for in base units, and `amount(resource, quantity)`, which reads a quantity
in the same units. The library is imported only where there is a rule: it costs 20 ms and most installations have none.

It compiles without types, so an expression is also tried on a sample: one that comes to something else than it has to,
or fails whatever the object, would be no rule but a warning about every object.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from api import quantity

VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject", "job")
FIELDS: Final = {
    "request": ("operation", "namespace", "name", "username", "dryRun"),
    "namespaceObject": ("metadata",),
    "job": ("queue", "priorityClass", "pods", "requests"),
}
"""What the variables hold whose shape is ours."""
OF_JOBS: Final = frozenset({"jobs", "workloads"})
"""The resources of which there is a `job`."""
FUNCTIONS: Final = frozenset(
    (
        *("amount", "size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_NAME: Final = re.compile(r"[A-Za-z]\w*")
_LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_FIELD: Final = re.compile(rf"(?<![\w.])({'|'.join(FIELDS)})\s*\.\s*([A-Za-z_]\w*)")

_REQUESTS: Final = r"""job\s*\.\s*requests"""
_READ: Final = re.compile(rf"""{_REQUESTS}\s*(?:\.\s*(\w+)\b(?!\s*\()|\[\s*['"]([^'"]+)['"]\s*\])""")
_ASKED: Final = re.compile(rf"""has\s*\(\s*{_REQUESTS}\s*\.\s*(\w+)|['"]([^'"]+)['"]\s*in\s+{_REQUESTS}""")


def value(program: Any, variables: Mapping[str, Any]) -> object:
    """What a compiled expression comes to. Raises whatever it runs into."""
    import cel

    found: object = program.execute(cel.Context(dict(variables), {"amount": quantity.amount}))
    return found


def counted(source: str) -> frozenset[str]:
    """The resources that an expression reads of ``job.requests`` without asking first whether they are there: they are
    0 where the job does not ask for them.
    """
    read = {dotted or quoted for dotted, quoted in _READ.findall(source)}
    asked = {dotted or quoted for dotted, quoted in _ASKED.findall(source)}
    return frozenset(read - asked)


def problem(source: str, resources: Iterable[str], wanted: type[bool | str]) -> str:
    """What is wrong with an expression that is to give a ``wanted`` value of these resources, '' for nothing.

    Its syntax, a function, variable or field that nobody knows, another kind of value, types that do not go together.
    """
    import cel

    try:
        program = cel.compile(source)
    except ValueError as error:
        return _brief(str(error))
    functions = sorted(name for name in program.functions() if _NAME.fullmatch(name) and name not in FUNCTIONS)
    if functions:
        return f"unknown function {functions[0]}; there are {', '.join(sorted(FUNCTIONS))}"
    bound = set(_BOUND.findall(source))
    variables = [name for name in program.variables() if _NAME.fullmatch(name) and name not in {*VARIABLES, *bound}]
    if variables:
        return f"unknown variable {variables[0]}; there are {', '.join(VARIABLES)}"
    of_jobs = not OF_JOBS.isdisjoint(resources)
    if "job" in program.variables() and not of_jobs:
        return f"there is a job of {' and '.join(sorted(OF_JOBS))} only, not of {', '.join(resources)}"
    return _unknown_field(source, bound) or _tried(program, wanted, of_jobs=of_jobs)


def _unknown_field(source: str, bound: set[str]) -> str:
    for variable, field in _FIELD.findall(_LITERAL.sub("''", source)):
        if variable not in bound and field not in FIELDS[variable]:
            return f"unknown field {variable}.{field}; there are {', '.join(FIELDS[variable])}"
    return ""


_METADATA: Final = {"name": "n", "namespace": "n", "labels": {}, "annotations": {}, "uid": "u"}
_OBJECT: Final = {"metadata": {**_METADATA, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
_REQUEST: Final = {"operation": "CREATE", "namespace": "n", "name": "n", "username": "u", "dryRun": False}
_JOB: Final = {"queue": "q", "priorityClass": "", "pods": 1, "requests": {"cpu": 1000, "memory": 2**30}}


def _tried(program: Any, wanted: type[bool | str], *, of_jobs: bool) -> str:
    """What is wrong with what the expression makes of a sample, created and changed; '' also where it asks for what the
    sample has not.
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
    """What an expression ran into, as a short sentence of one line."""
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
