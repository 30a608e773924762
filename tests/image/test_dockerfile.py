"""The Dockerfile: what it promises can be read in it, and the reader of `image.clean_root` understands all of it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from image.dockerfile import Dockerfile, Stage, command, expanded, pairs, parse
from image.lock import PACKAGES, records, row

ROOT = Path(__file__).parents[2]
HERE = parse((ROOT / "Dockerfile").read_text())


def test_stages_arguments_and_continued_lines_are_read() -> None:
    text = "ARG BASE=debian\nFROM ${BASE} AS one\n# why\nRUN a \\\n    && b\n"
    text += 'FROM one\nCOPY --from=one /x /\nCMD ["serve"]\n'
    first = Stage("debian", "one", [("RUN", "a      && b")])
    assert parse(text) == Dockerfile(
        {"BASE": "debian"}, [first, Stage("one", "", [("COPY", "--from=one /x /"), ("CMD", '["serve"]')])]
    )


def test_an_unknown_instruction_is_refused() -> None:
    with pytest.raises(ValueError, match="HEALTHCHECK"):
        parse("FROM scratch\nHEALTHCHECK NONE\n")


def test_commands_and_variables_are_read() -> None:
    assert command('["a", "b c"]') == ["a", "b c"]
    assert command("a | b") == ["/bin/sh", "-c", "a | b"]
    assert expanded("${A}-$B-${C}", {"A": "1", "B": "2"}) == "1-2-"
    assert pairs('a="1 2" b=${A}', {"A": "3"}) == {"a": "1 2", "b": "3"}


def test_the_image_begins_empty_and_gets_only_its_two_layers() -> None:
    last = HERE.stages[-1]
    words = [word for word, _ in last.instructions]
    assert last.base == "scratch"
    assert "RUN" not in words
    copied = [rest for word, rest in last.instructions if word == "COPY"]
    assert copied == ["--from=application /image /", "--from=application /program /"]
    assert ("USER", "65532:65532") in last.instructions


def test_only_the_first_stage_has_a_base_image_and_it_is_an_argument() -> None:
    known = {"scratch", *(stage.name for stage in HERE.stages)}
    assert [stage.name for stage in HERE.stages if stage.base not in known] == ["packages"]
    assert HERE.stages[0].base == HERE.arguments["BASE"]


def test_every_locked_debian_package_has_a_version_and_a_hash_for_each_architecture() -> None:
    for file, packages in PACKAGES.items():
        lines = [line.split() for line in (ROOT / "image" / file).read_text().splitlines() if line[0] != "#"]
        assert tuple(line[0] for line in lines) == packages
        assert all(len(line) == 4 and {len(each) for each in line[2:]} == {64} for line in lines)


def test_a_package_is_locked_only_in_the_same_version_for_all_architectures() -> None:
    one = "Package: a\nArchitecture: amd64\nVersion: 1\nSHA256: x\n"
    two = one.replace("amd64", "arm64").replace("x", "y")
    assert row("a", records(f"{one}\n{two}")) == "a 1 x y"
    assert row("b", records("Package: b\nArchitecture: all\nVersion: 1\nSHA256: x\n")) == "b 1 x x"
    for other in (two.replace("Version: 1", "Version: 2"), ""):
        with pytest.raises(SystemExit, match="not the same version"):
            row("a", records(f"{one}\n{other}"))


@pytest.mark.parametrize(("base", "asked"), [("debian:trixie-slim", True), (f"debian@sha256:{'a' * 64}", False)])
def test_the_digest_of_the_base_is_asked_for_only_if_it_is_not_given(base: str, asked: bool) -> None:
    words = ["make", "--dry-run", "image", f"BASE={base}", "IMAGE=seiretsu:1"]
    script = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("imagetools inspect" in script) == asked
    assert asked or f"base={base} " in script


def copied_of_the_command_line() -> list[str]:
    (line,) = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("COPY cli/")]
    return line.removeprefix("COPY ").split()[:-1]


def test_with_what_the_image_has_of_the_command_line_serve_is_the_only_command(tmp_path: Path) -> None:
    """Commands in packages of their own, which the image does not have, must not end the program either."""
    (tmp_path / "cli").mkdir()
    for path in copied_of_the_command_line():
        shutil.copy(ROOT / path, tmp_path / "cli")
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from cli.main import COMMANDS, available; print([each.name for each in available(COMMANDS)])"
    )
    words = [sys.executable, "-I", "-B", "-c", code, str(tmp_path), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "['serve']\n", done.stderr


def test_what_the_image_has_of_the_command_line_imports_nothing_else_of_it() -> None:
    """A start of the image takes minutes to test, and fails at the first import that was forgotten."""
    copied = copied_of_the_command_line()
    imported = {
        f"{node.module.replace('.', '/')}.py"
        for path in copied
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("cli.")
    }
    assert imported <= set(copied)
