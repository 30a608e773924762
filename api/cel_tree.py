"""The syntax tree of a CEL expression: for questions about its source (which variables and fields it reads, and where),
and for selectors of devices (`api.device_selector`).

The CEL library compiles and evaluates; of its own tree it shows the names of variables and functions only, and it
limits neither time nor memory. This is the grammar of the language definition (https://github.com/google/cel-spec,
"Syntax").
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

MACROS: Final = dict.fromkeys(("all", "exists", "exists_one", "existsOne", "filter"), (2,)) | {"map": (2, 3)}
"""Methods that define a variable, their first argument, for those after it; and how many arguments they have."""


OPTIONAL: Final = "?"
"""The method that ``a.?b`` and ``a[?b]`` call."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; ``text`` is None unless it is a string, ``value`` is a number, bytes, a boolean or None."""

    text: str | None = None
    value: int | float | bytes | bool | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``."""

    operand: "CelNode"
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    """``operand[key]``."""

    operand: "CelNode"
    key: "CelNode"


@dataclass(frozen=True, slots=True)
class CelCall:
    """``function(arguments)``, or ``target.function(arguments)``."""

    target: "CelNode | None"
    function: str
    arguments: tuple["CelNode", ...]


@dataclass(frozen=True, slots=True)
class CelOperation:
    """Operands with the operators between them, or one operand with ``!`` or ``-`` before it. Of a list the operator is
    ``[]``, of a map ``{}`` (its operands are keys and values in turn), of a message ``message``.
    """

    operators: tuple[str, ...]
    operands: tuple["CelNode", ...]


CelNode: TypeAlias = Literal | Name | Select | Index | CelCall | CelOperation


TOKEN: Final = "a token"


class CelSyntaxError(ValueError):
    """A source that is no expression; ``at`` is the character, ``problem`` the mistake in the words of cel-go."""

    def __init__(self, expected: str, found: str, at: int) -> None:
        super().__init__(f"expected {expected} at character {at}, found {found or 'the end'}")
        self.at = at
        wanted = "<EOF>" if expected == "''" else expected
        self.problem = f"Syntax error: mismatched input '{found or '<EOF>'}' expecting {wanted}"
        if expected == TOKEN:
            self.problem = f"Syntax error: token recognition error at: '{found}'"


def parse(source: str) -> CelNode:
    """Returns the tree of a source. Raises `CelSyntaxError` where it finds no expression."""
    parser = _CelParser(source)
    try:
        tree = parser.expression()
        parser.expect("")
    except RecursionError:
        raise CelSyntaxError("fewer nested expressions", source[:1], 0) from None
    return tree


def occurrences(tree: CelNode) -> Iterator[tuple[CelNode, frozenset[str]]]:
    """Returns every node in the order of the source, each with the variables that macros define around it."""
    left: list[tuple[CelNode, frozenset[str]]] = [(tree, frozenset())]
    while left:  # not by recursion: a chain of fields or operators may be a thousand nodes deep
        node, defined = left.pop()
        yield node, defined
        left += reversed(_below(node, defined))


def _below(node: CelNode, defined: frozenset[str]) -> list[tuple[CelNode, frozenset[str]]]:
    match node:
        case Select(operand, _):
            return [(operand, defined)]
        case Index(operand, key):
            return [(operand, defined), (key, defined)]
        case CelCall(target, function, (Name(variable), *others)) if target and len(others) + 1 in MACROS.get(
            function, ()
        ):
            return [(target, defined), *((each, defined | {variable}) for each in others)]
        case CelCall(target, _, arguments):
            return [(each, defined) for each in ((target, *arguments) if target else arguments)]
        case CelOperation(_, operands):
            return [(each, defined) for each in operands]
        case _:
            return []


_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<raw>[bB]?[rR](?:\"\"\"(?P<raw1>.*?)\"\"\"|'''(?P<raw2>.*?)'''|"(?P<raw3>[^"\n]*)"|'(?P<raw4>[^'\n]*)'))
    | (?P<string>(?P<bytes>[bB]?)(?:\"\"\"(?P<text1>(?:\\.|[^\\])*?)\"\"\"|'''(?P<text2>(?:\\.|[^\\])*?)'''
        |"(?P<text3>(?:\\.|[^"\\\n])*)"|'(?P<text4>(?:\\.|[^'\\\n])*)'))
    | (?P<number>0x[0-9a-fA-F]+[uU]?|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<symbol>\|\||&&|[<>=!]=|\.\?|\[\?|[-+*/%<>!?:.,(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LEVELS: Final = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"<", "<=", ">", ">=", "==", "!=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
"""Operators between two operands, those that bind least first."""
_CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class _Token:
    """``text`` is the source of a name or symbol; ``literal`` is set for a constant. Neither: the end."""

    at: int
    text: str = ""
    literal: Literal | None = None
    source: str = ""


class _CelParser:
    """Reads tokens from left to right; the position is always before the next one."""

    def __init__(self, source: str) -> None:
        self._tokens = [*_tokens(source), _Token(len(source))]
        self._at = 0

    def expression(self) -> CelNode:
        """Reads ``condition ? one : other``, or only the condition."""
        condition = self._operation(_LEVELS)
        if not self._take("?"):
            return condition
        one = self._operation(_LEVELS)
        self.expect(":")
        return CelOperation(("?", ":"), (condition, one, self.expression()))

    def expect(self, text: str) -> None:
        """Reads this name or symbol; '' is the end."""
        token = self._next()
        if token.literal is not None or token.text != text:
            raise CelSyntaxError(repr(text), token.source or token.text, token.at)

    def _operation(self, levels: tuple[frozenset[str], ...]) -> CelNode:
        if not levels:
            return self._unary()
        operands, operators = [self._operation(levels[1:])], []
        while (token := self._tokens[self._at]).literal is None and token.text in levels[0]:
            operators.append(self._next().text)
            operands.append(self._operation(levels[1:]))
        return CelOperation(tuple(operators), tuple(operands)) if operators else operands[0]

    def _unary(self) -> CelNode:
        signs = ""
        while self._take("!") or self._take("-"):
            sign = self._tokens[self._at - 1].text
            signs = signs[:-1] if signs[-1:] == sign and signs[-2:] == sign * 2 else signs + sign  # !!!x is !x
        node = self._primary()
        while True:
            if self._take("."):
                name = self._field()
                node = CelCall(node, name, self._parts(")")) if self._take("(") else Select(node, name)
            elif self._take("["):
                node = Index(node, self.expression())
                self.expect("]")
            elif self._take(".?"):
                node = CelCall(node, OPTIONAL, (Literal(self._field()),))
            elif self._take("[?"):
                node = CelCall(node, OPTIONAL, (self.expression(),))
                self.expect("]")
            elif isinstance(node, Name | Select) and self._take("{"):
                node = CelOperation(("message",), self._parts("}", message=True))
            else:
                break
        for sign in reversed(signs):
            node = CelOperation((sign,), (node,))
        return node

    def _primary(self) -> CelNode:
        token = self._next()
        if token.literal is not None:
            return token.literal
        match token.text:
            case "(":
                node = self.expression()
                self.expect(")")
                return node
            case "[":
                return CelOperation(("[]",), self._parts("]"))
            case "{":
                return CelOperation(("{}",), self._parts("}"))
            case ".":
                return Name(f".{self._field()}")
            case name if name.isidentifier():
                return CelCall(None, name, self._parts(")")) if self._take("(") else Name(name)
        raise CelSyntaxError("an operand", token.text, token.at)

    def _parts(self, end: str, *, message: bool = False) -> tuple[CelNode, ...]:
        """Reads expressions with commas or colons between them, up to ``end``. In a message a name and a colon come
        before each of them.
        """
        found: list[CelNode] = []
        while not self._take(end):
            if message:
                self._field()
                self.expect(":")
            found.append(self.expression())
            if not self._take(",") and not self._take(":"):
                self.expect(end)
                break
        return tuple(found)

    def _field(self) -> str:
        token = self._next()
        if token.literal is not None or not token.text.isidentifier():
            raise CelSyntaxError("a name", token.source or token.text, token.at)
        return token.text

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, text: str) -> bool:
        token = self._tokens[self._at]
        found = token.literal is None and token.text == text
        self._at += found
        return found


def _tokens(source: str) -> Iterator[_Token]:
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            raise CelSyntaxError(TOKEN, source[at], at)
        start, at = at, found.end()
        match found.lastgroup:
            case "space":
                pass
            case "raw":
                text = next(each for each in found.group("raw1", "raw2", "raw3", "raw4") if each is not None)
                yield _Token(start, "", _constant(text, raw_bytes=found[0][0] in "bB"), found[0])
            case "string":
                text = next(each for each in found.group("text1", "text2", "text3", "text4") if each is not None)
                value = _ESCAPE.sub(_unescaped, text)
                yield _Token(start, "", _constant(value, raw_bytes=bool(found["bytes"])), found[0])
            case "number":
                yield _Token(start, "", Literal(value=_number(found[0])), found[0])
            case _ if found[0] in _CONSTANTS:
                yield _Token(start, "", Literal(value=_CONSTANTS[found[0]]), found[0])
            case _:
                yield _Token(start, found[0])


def _constant(text: str, *, raw_bytes: bool) -> Literal:
    return Literal(value=text.encode()) if raw_bytes else Literal(text)


def _number(text: str) -> int | float:
    """The value of a number; what is too large for its type is no mistake of the syntax."""
    whole = text.rstrip("uU")
    if whole.startswith("0x"):
        return int(whole, 16)
    return int(whole[:400]) if whole.isdigit() else float(text)


def _unescaped(found: re.Match[str]) -> str:
    *codes, octal, letter = found.groups()
    code = next((int(each, 16) for each in codes if each), None)
    if code is None and octal:
        code = int(octal, 8)
    return chr(code) if code is not None else _ESCAPED.get(letter, letter)
