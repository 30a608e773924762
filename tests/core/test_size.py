"""Small functions: what is longer does more than one thing. Modules are as long as their subject needs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"
MODULES = sorted(CORE.rglob("*.py"))
FUNCTION_LINES = 60


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(CORE)))
def test_no_function_of_core_is_long(module: Path) -> None:
    tree = ast.parse(module.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}
