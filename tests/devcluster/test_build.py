"""Programs are built once for all concurrent callers, and never partially.

The `go` of these tests is a stand-in: a script that takes the same arguments and writes small programs. The failures of
the real one (no network, interrupted, too old) cannot be produced on demand.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import build, tools
from devcluster.errors import ClusterError

_GO = """#!{python}
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
if words == ["version"]:
    print("go version go{version} linux/amd64")
elif words[:3] == ["mod", "download", "-json"]:
    if (here / "away").exists():
        sys.exit("no such host")
    print(json.dumps({{"Path": words[3], "Dir": str(here)}}))
elif words[0] == "list":
    print("fmt")
elif words[0] == "build":
    target = pathlib.Path(words[words.index("-o") + 1])
    with (here / "builds").open("a") as log:
        log.write(f"{{target.name}}\\n")
    if (here / "fail").exists():
        sys.exit("disk full")
    target.write_text("#!/bin/sh\\n")
    target.chmod(0o755)
"""

MODULE = tools.Module(
    "test",
    tools.MODULES,
    (
        tools.Tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        tools.Tool("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    ),
    minutes=1,
)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a `go` on PATH that is new enough."""
    return _install(tmp_path, monkeypatch, "99.0.1")


def _install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "go").write_text(_GO.format(python=sys.executable, version=version))
    (directory / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return directory


def _ignore(_: str) -> None:
    """Ignores a report."""


def test_a_build_names_programs_as_they_are_called(go: Path) -> None:
    directory = build.build(MODULE, report=_ignore)
    assert sorted(path.name for path in directory.iterdir()) == ["etcd", "kwok"]


def test_a_manifest_of_a_module_is_kept_beside_its_programs(go: Path) -> None:
    (go / "crd.yaml").write_text("kind: CustomResourceDefinition")
    kept = (tools.Manifest("thing-crd.yaml", "example.com/thing", "crd.yaml"),)
    directory = build.build(replace(MODULE, manifests=kept), report=_ignore)
    assert (directory / "thing-crd.yaml").read_text() == "kind: CustomResourceDefinition"
    assert directory != tools.module_directory(MODULE), "another list of files is another build"


def test_a_manifest_that_the_module_does_not_have_is_an_error_and_leaves_nothing(go: Path) -> None:
    module = replace(MODULE, manifests=(tools.Manifest("x.yaml", "example.com/thing", "config/x.yaml"),))
    with pytest.raises(ClusterError, match=r"example\.com/thing has no file config/x\.yaml"):
        build.build(module, report=_ignore)
    assert not tools.module_directory(module).exists()


def test_a_manifest_whose_module_cannot_be_downloaded_is_an_error_that_says_why(go: Path) -> None:
    module = replace(MODULE, manifests=(tools.Manifest("x.yaml", "example.com/thing", "x.yaml"),))
    (go / "away").touch()
    with pytest.raises(ClusterError, match=r"example\.com/thing could not be downloaded: no such host"):
        build.build(module, report=_ignore)


def test_the_second_build_finds_the_first(go: Path) -> None:
    assert build.build(MODULE, report=_ignore) == build.build(MODULE, report=_ignore)
    assert (go / "builds").read_text() == "etcd\nkwok\n"


def test_a_failed_build_leaves_nothing_and_says_why(go: Path, tmp_path: Path) -> None:
    (go / "fail").touch()
    with pytest.raises(ClusterError, match="Building test failed: disk full"):
        build.build(MODULE, report=_ignore)
    (go / "fail").unlink()
    left = [path for path in (tmp_path / "cache" / "seiretsu" / "tools").iterdir() if path.is_dir()]
    assert left == []
    assert build.build(MODULE, report=_ignore).is_dir()


def test_what_a_killed_builder_left_is_cleared_up(go: Path) -> None:
    target = tools.module_directory(MODULE)
    left = target.parent / f".building-{target.name}-killed"
    left.mkdir(parents=True)
    build.build(MODULE, report=_ignore)
    assert not left.exists()


def test_builders_at_the_same_time_build_once(go: Path) -> None:
    code = "from tests.devcluster.test_build import MODULE; from devcluster import build; print(build.build(MODULE))"
    root = Path(build.__file__).parent.parent
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for _ in range(3)
    ]
    answers = {builder.communicate()[0] for builder in builders}
    assert len(answers) == 1
    assert (go / "builds").read_text() == "etcd\nkwok\n"


def test_progress_names_the_program_being_built_and_the_time(go: Path) -> None:
    said: list[str] = []
    build.build(MODULE, report=said.append)
    assert said[0] == "Building etcd, kwok from source, once for this user: about 1 minutes on two cores."
    assert re.fullmatch(r"Built etcd, kwok in \d+ s\.", said[-1])


def test_a_go_that_is_too_old_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, monkeypatch, "1.2.3")
    private = tmp_path / "cache" / "seiretsu" / "go" / build.GO_PACKAGE.partition("==")[2] / "bin"
    private.mkdir(parents=True)
    (private / "go").write_text(_GO.format(python=sys.executable, version="99.0"))
    (private / "go").chmod(0o755)
    assert build.find_go((1, 26, 0), _ignore) == private / "go"
