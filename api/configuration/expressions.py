"""The operator's own rules as CEL: what they may say, checked when the Configuration is read.

The dialect is standard CEL, of Kubernetes' variables `object`, `oldObject`, `request` and `namespaceObject`, with two
additions: `job`, which is what a job asks for in base units, and `amount(resource, quantity)`, which reads a quantity
in the same units. The library is imported only where there is a rule: it costs 20 ms and most installations have none.
"""

import re
from typing import Final

VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject", "job")
FUNCTIONS: Final = frozenset(
    (
        *("amount", "size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bool", "bytes", "timestamp", "duration", "min", "max"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    )
)
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_NAME: Final = re.compile(r"[A-Za-z]\w*")


def problem(source: str) -> str:
    """What is wrong with an expression, '' for nothing: its syntax, or a function or variable that nobody knows."""
    import cel

    try:
        program = cel.compile(source)
    except ValueError as error:
        return _brief(str(error))
    functions = sorted(name for name in program.functions() if _NAME.fullmatch(name) and name not in FUNCTIONS)
    if functions:
        return f"unknown function {functions[0]}; there are {', '.join(sorted(FUNCTIONS))}"
    known = {*VARIABLES, *_BOUND.findall(source)}
    variables = [name for name in program.variables() if _NAME.fullmatch(name) and name not in known]
    if variables:
        return f"unknown variable {variables[0]}; there are {', '.join(VARIABLES)}"
    return ""


def _brief(error: str) -> str:
    """The parser's sentence, without the expression around it."""
    line = next((line for line in error.splitlines() if "ERROR:" in line), error.partition("\n")[0])
    return line.partition("ERROR: <input>:")[2] or line
