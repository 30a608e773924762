"""One module uses private parts of Hypercorn, and only the version that it was tried with is allowed."""

import ast
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("api", "core", "controller", "webhook", "certs", "operations", "app", "cli", "bench")


def imports_hypercorn(path: Path) -> bool:
    modules: set[str] = set()
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "hypercorn" in text else ():
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    return any(module.partition(".")[0] == "hypercorn" for module in modules)


def test_one_module_imports_hypercorn() -> None:
    paths = (path for top in OURS for path in (ROOT / top).rglob("*.py"))
    assert [str(path.relative_to(ROOT)) for path in paths if imports_hypercorn(path)] == ["app/connection.py"]


def test_hypercorn_has_the_version_that_connections_were_tried_with() -> None:
    advice = "read what changed in hypercorn/protocol and hypercorn/asyncio, adapt app/connection.py, then allow it"
    assert version("hypercorn") == "0.18.0", advice
