"""`seiretsu.client` needs Python alone: no package that the server needs, and none of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
before = set(sys.modules)
sys.path.insert(0, {root!r})
import seiretsu.client
found = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(found - sys.stdlib_module_names - {{"seiretsu"}}))
"""


def test_it_is_imported_by_an_interpreter_without_any_package() -> None:
    program = PROGRAM.format(root=str(Path(__file__).parents[2]))
    # -I and -S: no packages, no environment, no directory of the caller
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
