"""Starts the program: ``seiretsu`` and ``python -m seiretsu``.

In a wheel its packages are in the folder ``program`` beside this file, in a clone of the repository beside this
package. Only the process of the program imports from there: other programs of the same Python environment find
``seiretsu`` alone.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def use() -> None:
    """Make the packages of the program importable in this process, before all others of the same names."""
    here = Path(__file__).resolve().parent
    program = here / "program"
    sys.path.insert(0, str(program if program.is_dir() else here.parent))


def main() -> None:
    """Run the command line."""
    use()
    importlib.import_module("cli.main").main()


def plugin() -> None:
    """Run as `kubectl seiretsu`."""
    use()
    importlib.import_module("cli.main").plugin()


def complete() -> None:
    """Print completions of `kubectl seiretsu` for kubectl."""
    use()
    importlib.import_module("cli.main").complete()


if __name__ == "__main__":
    main()
