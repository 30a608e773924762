"""Selectors of devices in CEL, as DeviceClasses, requests of ResourceClaims and the Configuration have them
(https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/, "cel.expression").

Compiled here into functions, and not by the CEL library, because tenants write these expressions: each evaluation is
limited in its steps, so that none holds up the event loop, and texts of errors are those of cel-go, which users of
Kueue know. A variable `device` has `driver`, `attributes` and `capacity` by domain, and `allowMultipleAllocations`.
Not supported are the libraries for URLs, addresses, formats and sets of Kubernetes: a selector that uses them does not
compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from api import quantity
from api.cel_tree import (
    MACROS,
    OPTIONAL,
    CelCall,
    CelNode,
    CelOperation,
    CelSyntaxError,
    Index,
    Literal,
    Name,
    Select,
    parse,
)

MOST_STEPS: Final = 300
"""Steps of one evaluation: a call, an operator or an element of a list is one; a usual selector takes ten."""
LONGEST: Final = 10 * 1024
"""Characters of an expression, as in Kubernetes."""
LONGEST_SHOWN: Final = 200
"""Characters of a line that an error shows: its text is part of a status."""
FIELDS: Final = ("driver", "attributes", "capacity", "allowMultipleAllocations")


class SelectorError(Exception):
    """A selector that does not compile, or that cannot be evaluated for a device."""


class DeviceDomains(dict[str, Mapping[str, Any]]):
    """Attributes or capacities by domain; a domain that a device does not have is empty."""

    def __missing__(self, domain: str) -> Mapping[str, Any]:
        return {}


@dataclass(frozen=True, slots=True, order=True)
class CelQuantity:
    """A quantity in an expression."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class CelVersion:
    """A semantic version in an expression: major, minor, patch; a pre-release comes before its release."""

    numbers: tuple[int, int, int]
    pre_release: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key of the semantic versioning specification, item 11."""
        parts = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in self.pre_release)
        return (*self.numbers, not parts, parts)


@dataclass(frozen=True, slots=True)
class _Maybe:
    """The result of ``a.?b``."""

    value: Any = None
    there: bool = False


class DeviceSelector:
    """A compiled expression."""

    __slots__ = ("_evaluate",)

    def __init__(self, evaluate: _Evaluate) -> None:
        self._evaluate = evaluate

    def matches(self, device: Mapping[str, Any], spent: list[int] | None = None) -> bool:
        """Whether a device with these values of `device` is selected; the steps are added to ``spent``. Raises
        `SelectorError`.
        """
        run = _Evaluation({"device": device})
        try:
            found = self._evaluate(run)
        except RecursionError:
            raise SelectorError("the expression is nested too deeply") from None
        except OverflowError:
            raise SelectorError("integer overflow") from None
        finally:
            if spent is not None:
                spent[0] += MOST_STEPS - run.left
        if found is not True and found is not False:
            raise SelectorError(f"CEL result of type {_type_of(found)} could not be converted to bool")
        return found


@lru_cache(maxsize=1024)
def compiled(source: str) -> DeviceSelector | str:
    """Returns the selector, or what is wrong with the expression, in the words of cel-go."""
    if len(source) > LONGEST:
        return f"compilation failed: the expression is longer than {LONGEST} characters"
    try:
        tree = parse(source)
        evaluate = _Compiler(source).compiled(tree, frozenset({"device"}))
    except CelSyntaxError as error:
        return _located(error.problem, source, error.at)
    except SelectorError as error:
        return str(error)
    except RecursionError:
        return _located("Syntax error: the expression is nested too deeply", source, 0)
    wrong = _no_boolean(tree)
    return f"must evaluate to bool or the unknown type, not {wrong}" if wrong else DeviceSelector(evaluate)


def version(text: str) -> CelVersion:
    """Returns the semantic version. Raises `SelectorError`."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise SelectorError(f"invalid semver: {text}")
    numbers = int(found[1]), int(found[2]), int(found[3])
    return CelVersion(numbers, tuple(found[4].split(".")) if found[4] else ())


_VERSION: Final = re.compile(
    r"(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]+)?"
)


class _Evaluation:
    """One evaluation: the variables, and the steps that are left."""

    __slots__ = ("left", "variables")

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.left = MOST_STEPS

    def step(self, cost: int = 1) -> None:
        """Takes steps; raises when there are none left."""
        self.left -= cost
        if self.left < 0:
            raise SelectorError("operation cancelled: actual cost limit exceeded")


_Evaluate: TypeAlias = Callable[[_Evaluation], Any]
_Function: TypeAlias = Callable[..., Any]


class _Compiler:
    """Turns nodes into functions; an unknown name is a mistake before any device is looked at."""

    def __init__(self, source: str) -> None:
        self._source = source

    def compiled(self, node: CelNode, known: frozenset[str]) -> _Evaluate:
        match node:
            case Literal(str(text)):
                return lambda run: text
            case Literal(_, value):
                return lambda run: value
            case Name(name):
                return self._name(name, known)
            case Select(operand, field):
                self._checked(operand, field, known)
                inner = self.compiled(operand, known)
                return lambda run: _get(inner(run), field, run)
            case Index(operand, key):
                inner, key_of = self.compiled(operand, known), self.compiled(key, known)
                return lambda run: _get(inner(run), key_of(run), run)
            case CelOperation(operators, operands):
                return self._operation(operators, operands, known)
            case CelCall(target, function, arguments):
                return self._call(target, function, arguments, known)

    def _name(self, name: str, known: frozenset[str]) -> _Evaluate:
        if name in known:
            return lambda run: run.variables[name]
        if name in _TYPES:
            return lambda run: _TYPES[name]
        raise self._undeclared(name)

    def _checked(self, operand: CelNode, field: str, known: frozenset[str]) -> None:
        if operand == Name("device") and "device" in known and field not in FIELDS:
            raise SelectorError(_located(f"undefined field '{field}'", self._source, self._source.find(field)))

    def _undeclared(self, name: str) -> SelectorError:
        found = re.search(rf"\b{re.escape(name)}\b", self._source)
        at = found.start() if found else 0
        return SelectorError(_located(f"undeclared reference to '{name}' (in container '')", self._source, at))

    def _operation(self, operators: tuple[str, ...], operands: tuple[CelNode, ...], known: frozenset[str]) -> _Evaluate:
        parts = [self.compiled(each, known) for each in operands]
        match operators:
            case ("[]",):
                return lambda run: [each(run) for each in parts]
            case ("{}",):
                pairs = [*zip(parts[::2], parts[1::2], strict=True)]
                return lambda run: {_key(one(run)): other(run) for one, other in pairs}
            case ("message",):
                raise SelectorError(_located("messages are not supported", self._source, self._source.find("{")))
            case ("?", ":"):
                condition, one, other = parts
                return lambda run: one(run) if _boolean(condition(run)) else other(run)
            case ("&&", *_):
                return lambda run: _all(parts, run, until=False)
            case ("||", *_):
                return lambda run: _all(parts, run, until=True)
        if len(parts) == 1:
            inner, one_of = parts[0], _UNARY[operators[0]]
            return lambda run: one_of(inner(run))

        def chained(run: _Evaluation) -> Any:
            value = parts[0](run)
            for operator, part in zip(operators, parts[1:], strict=True):
                value = _BINARY[operator](value, part(run))
                run.step(1 + (len(value) // 64 if isinstance(value, str | list) else 0))
            return value

        return chained

    def _call(
        self, target: CelNode | None, function: str, arguments: tuple[CelNode, ...], known: frozenset[str]
    ) -> _Evaluate:
        match target, function, arguments:
            case None, "has", (Select(operand, field),):
                self._checked(operand, field, known)
                inner = self.compiled(operand, known)
                return lambda run: _has(inner(run), field)
            case Name("cel"), "bind", (Name(variable), one, other):
                bound, rest = self.compiled(one, known), self.compiled(other, known | {variable})
                return lambda run: _bound(run, variable, bound(run), rest)
            case _, _, (Name(variable), *_) if target is not None and len(arguments) in MACROS.get(function, ()):
                listed = self.compiled(target, known)
                below = [self.compiled(each, known | {variable}) for each in arguments[1:]]
                return lambda run: _macro(function, run, variable, listed(run), below)
        methods = _METHODS if target is not None else _FUNCTIONS
        if function not in methods:
            raise self._undeclared(function)
        called, parts = methods[function], [self.compiled(each, known) for each in arguments]
        if target is not None:
            parts.insert(0, self.compiled(target, known))

        def call(run: _Evaluation) -> Any:
            run.step(20 if function == "matches" else 1)
            try:
                return called(*(part(run) for part in parts))
            except (TypeError, AttributeError, LookupError):
                raise SelectorError("no such overload") from None
            except ValueError as error:
                raise SelectorError(str(error)) from None

        return call


def _located(problem: str, source: str, at: int) -> str:
    """Returns an error as cel-go prints it: with the line, and a mark below the place."""
    before = source[:at]
    row, start = before.count("\n") + 1, before.rfind("\n") + 1
    line, column = source[start:].partition("\n")[0], at - start
    shown = f"\n | {line}\n | {'.' * column}^" if len(line) <= LONGEST_SHOWN else ""
    return f"compilation failed: ERROR: <input>:{row}:{column + 1}: {problem}{shown}"


_COMPARED: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "&&", "||", "!"})


def _no_boolean(tree: CelNode) -> str:
    """Returns the type of an expression that can be no boolean, '' where it may be one."""
    match tree:
        case Literal(str()):
            return "string"
        case Literal(_, value) if not isinstance(value, bool):
            return _type_of(value)
        case Name("device") | Select(Name("device"), "attributes" | "capacity"):
            return "map"
        case Select(Name("device"), "driver"):
            return "string"
        case CelOperation(operators) if operators != ("?", ":") and operators[-1] not in _COMPARED:
            return {"[]": "list", "{}": "map"}.get(operators[0], "a number")
    return ""


# Values.

_TYPES: Final = {name: ("type", name) for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map")}


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null_type"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "bytes"
        case list():
            return "list"
        case dict() | Mapping():
            return "map"
        case CelQuantity():
            return "kubernetes.Quantity"
        case CelVersion():
            return "kubernetes.Semver"
    return "type"


def _get(value: Any, key: Any, run: _Evaluation) -> Any:
    run.step()
    if isinstance(value, _Maybe):
        return _optional(value, key) if value.there else value
    if isinstance(value, Mapping):
        try:
            return value[_key(key)]
        except KeyError:
            raise SelectorError(f"no such key: {key}") from None
    if isinstance(value, list) and type(key) is int:
        if 0 <= key < len(value):
            return value[key]
        raise SelectorError(f"index out of bounds: {key}")
    raise SelectorError("no such overload")


def _key(value: Any) -> Any:
    if isinstance(value, str | int):
        return value
    raise SelectorError("unsupported key type")


def _has(value: Any, field: str) -> bool:
    if isinstance(value, Mapping):
        return field in value
    raise SelectorError("no such overload")


def _optional(value: Any, key: Any) -> _Maybe:
    if isinstance(value, _Maybe):
        return _optional(value.value, key) if value.there else value
    if isinstance(value, Mapping):
        return _Maybe(value[key], there=True) if key in value or isinstance(value, DeviceDomains) else _Maybe()
    if isinstance(value, list) and type(key) is int:
        return _Maybe(value[key], there=True) if 0 <= key < len(value) else _Maybe()
    raise SelectorError("no such overload")


def _or_value(value: Any, other: Any) -> Any:
    if not isinstance(value, _Maybe):
        raise SelectorError("no such overload")
    return value.value if value.there else other


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise SelectorError("no such overload")


def _all(parts: Iterable[_Evaluate], run: _Evaluation, *, until: bool) -> bool:
    """``&&`` and ``||``: one operand that decides does so whatever errors the others have."""
    failed: SelectorError | None = None
    for part in parts:
        run.step()
        try:
            if _boolean(part(run)) is until:
                return until
        except SelectorError as error:
            if run.left < 0:
                raise
            failed = failed or error
    if failed is not None:
        raise failed
    return not until


def _bound(run: _Evaluation, variable: str, value: Any, rest: _Evaluate) -> Any:
    missing = object()
    before = run.variables.get(variable, missing)
    run.variables[variable] = value
    try:
        return rest(run)
    finally:
        if before is missing:
            del run.variables[variable]
        else:
            run.variables[variable] = before


def _macro(function: str, run: _Evaluation, variable: str, listed: Any, below: list[_Evaluate]) -> Any:
    if not isinstance(listed, list | Mapping):
        raise SelectorError("no such overload")

    def of(each: Any) -> Any:
        run.step()
        return _bound(run, variable, each, below[0])

    match function:
        case "all" | "exists":
            return _all([lambda _, each=each: of(each) for each in listed], run, until=function == "exists")  # type: ignore[misc]
        case "exists_one" | "existsOne":
            return sum(_boolean(of(each)) for each in listed) == 1
        case "filter":
            return [each for each in listed if _boolean(of(each))]
    if len(below) == 1:
        return [of(each) for each in listed]
    return [_bound(run, variable, each, below[1]) for each in listed if _boolean(of(each))]


def _number(value: Any) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise SelectorError("no such overload")


def _whole(value: int) -> int:
    if not -(2**63) <= value < 2**64:
        raise SelectorError("integer overflow")
    return value


def _added(one: Any, other: Any) -> Any:
    for kind in (str, bytes, list):
        if isinstance(one, kind) and isinstance(other, kind):
            return one + other  # type: ignore[operator]
    return _arithmetic(one, other, lambda a, b: a + b)


def _arithmetic(one: Any, other: Any, compute: Callable[[Any, Any], Any]) -> Any:
    if type(one) is not type(other):
        raise SelectorError("no such overload")
    found = compute(_number(one), _number(other))
    return _whole(found) if isinstance(found, int) else found


def _divided(one: Any, other: Any) -> Any:
    if isinstance(one, int) and other == 0:
        raise SelectorError("division by zero")
    if isinstance(one, float) and other == 0:
        return float("nan") if one == 0 else float("inf") * (1 if one > 0 else -1)
    # Rounded toward zero, as in Go.
    return (
        _arithmetic(one, other, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1))
        if isinstance(one, int)
        else _arithmetic(one, other, lambda a, b: a / b)
    )


def _remainder(one: Any, other: Any) -> Any:
    if not isinstance(one, int) or not isinstance(other, int):
        raise SelectorError("no such overload")
    if other == 0:
        raise SelectorError("modulus by zero")
    return _arithmetic(one, other, lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1))


def _equal(one: Any, other: Any) -> bool:
    """Whether values are equal; those of different types are not, except numbers."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, CelVersion) and isinstance(other, CelVersion):
        return one.order == other.order
    return bool(one == other)


def _less(one: Any, other: Any) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if isinstance(one, bool) is not isinstance(other, bool) or not (numbers or type(one) is type(other)):
        raise SelectorError("no such overload")
    if not isinstance(one, bool | int | float | str | bytes):
        raise SelectorError("no such overload")
    return bool(one < other)


def _in(one: Any, other: Any) -> bool:
    if isinstance(other, list):
        return any(_equal(one, each) for each in other)
    if isinstance(other, Mapping):
        return one in other if isinstance(one, str | int) else False
    raise SelectorError("no such overload")


def _negated(value: Any) -> Any:
    number = -_number(value)
    return _whole(number) if isinstance(number, int) else number


_UNARY: Final[dict[str, _Function]] = {"!": lambda value: not _boolean(value), "-": _negated}
_BINARY: Final[dict[str, _Function]] = {
    "+": _added,
    "-": lambda one, other: _arithmetic(one, other, lambda a, b: a - b),
    "*": lambda one, other: _arithmetic(one, other, lambda a, b: a * b),
    "/": _divided,
    "%": _remainder,
    "==": _equal,
    "!=": lambda one, other: not _equal(one, other),
    "<": _less,
    ">": lambda one, other: _less(other, one),
    "<=": lambda one, other: not _less(other, one),
    ">=": lambda one, other: not _less(one, other),
    "in": _in,
}


# Functions and methods.


def _matches(text: Any, pattern: Any) -> bool:
    """Of the CEL library, whose expressions take linear time: those of Python may take for ever."""
    import cel

    if not isinstance(text, str) or not isinstance(pattern, str):
        raise SelectorError("no such overload")
    try:
        return bool(cel.evaluate("text.matches(pattern)", {"text": text, "pattern": pattern}))
    except Exception:
        raise SelectorError(f"error parsing regexp: `{pattern[:64]}`") from None


def _quantity(text: Any) -> CelQuantity:
    if isinstance(text, CelQuantity):
        return text
    if not isinstance(text, str):
        raise SelectorError("no such overload")
    return CelQuantity(quantity.exact(text))


def _as_version(text: Any) -> CelVersion:
    return text if isinstance(text, CelVersion) else version(_text(text))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise SelectorError("no such overload")


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str | int | float):
        return str(value)
    raise SelectorError("no such overload")


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SelectorError("no such overload")
    if isinstance(value, str) and len(value) > 32:
        raise SelectorError("integer overflow")
    return _whole(int(value))


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SelectorError("no such overload")
    return float(value)


def _compared(one: Any, other: Any) -> int:
    """-1, 0 or 1, as `compareTo`."""
    if isinstance(one, CelVersion) and isinstance(other, CelVersion):
        return (one.order > other.order) - (one.order < other.order)
    if isinstance(one, CelQuantity) and isinstance(other, CelQuantity):
        return (one.value > other.value) - (one.value < other.value)
    raise SelectorError("no such overload")


def _sum_of(sign: int) -> _Function:
    def summed(one: Any, other: Any) -> CelQuantity:
        value = other if isinstance(other, CelQuantity) else CelQuantity(Fraction(_number(other)))
        if not isinstance(one, CelQuantity):
            raise SelectorError("no such overload")
        return CelQuantity(one.value + sign * value.value)

    return summed


def _as_integer(value: CelQuantity) -> int:
    if value.value.denominator != 1:
        raise SelectorError("cannot convert value to integer")
    return _whole(value.value.numerator)


def _valid(read: _Function) -> _Function:
    def judged(text: Any) -> bool:
        try:
            read(text)
        except (SelectorError, ValueError):
            return False
        return True

    return judged


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list | Mapping):
        return len(value)
    raise SelectorError("no such overload")


def _least(values: Any, *, sign: int = 1) -> Any:
    if not isinstance(values, list) or not values:
        raise SelectorError("min called on empty list" if sign > 0 else "max called on empty list")
    found = values[0]
    for each in values[1:]:
        if _less(each, found) if sign > 0 else _less(found, each):
            found = each
    return found


def _index_of(value: Any, part: Any) -> int:
    if isinstance(value, list):
        return next((place for place, each in enumerate(value) if _equal(each, part)), -1)
    return _text(value).find(_text(part))


def _includes(value: Any, element: Any) -> bool:
    """Whether an attribute has a value: as an element of a list, or itself."""
    return _in(element, value) if isinstance(value, list) else _equal(value, element)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(_text(text)) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise SelectorError("index out of range")
    return text[start:stop]


_FUNCTIONS: Final[dict[str, _Function]] = {
    "size": _size,
    "string": _string,
    "int": _int,
    "uint": _int,
    "double": _double,
    "bool": lambda value: value if isinstance(value, bool) else {"true": True, "false": False}[_text(value)],
    "dyn": lambda value: value,
    "type": lambda value: _TYPES.get(_type_of(value), ("type", _type_of(value))),
    "quantity": _quantity,
    "isQuantity": _valid(_quantity),
    "semver": _as_version,
    "isSemver": _valid(_as_version),
}
_METHODS: Final[dict[str, _Function]] = {
    "size": _size,
    "contains": lambda text, part: _text(part) in _text(text),
    "startsWith": lambda text, part: _text(text).startswith(_text(part)),
    "endsWith": lambda text, part: _text(text).endswith(_text(part)),
    "matches": _matches,
    "lowerAscii": lambda text: _text(text).lower(),
    "upperAscii": lambda text: _text(text).upper(),
    "trim": lambda text: _text(text).strip(),
    "split": lambda text, by: _text(text).split(_text(by)) if by else list(_text(text)),
    "substring": _substring,
    "charAt": lambda text, at: _substring(text, at, at + 1),
    "indexOf": _index_of,
    "includes": _includes,
    "isSorted": lambda values: all(not _less(later, each) for each, later in pairwise(values)),
    "min": _least,
    "max": lambda values: _least(values, sign=-1),
    "sum": lambda values: sum(map(_number, values)),
    "compareTo": _compared,
    "isGreaterThan": lambda one, other: _compared(one, other) > 0,
    "isLessThan": lambda one, other: _compared(one, other) < 0,
    "sign": lambda value: (value.value > 0) - (value.value < 0),
    "isInteger": lambda value: value.value.denominator == 1,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(value.value),
    "add": _sum_of(1),
    "sub": _sum_of(-1),
    "major": lambda value: value.numbers[0],
    "minor": lambda value: value.numbers[1],
    "patch": lambda value: value.numbers[2],
    OPTIONAL: _optional,
    "orValue": _or_value,
    "hasValue": lambda value: value.there,
    "value": lambda value: _or_value(value, None),
}
