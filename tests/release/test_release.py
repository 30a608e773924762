"""A release is the same whenever, wherever and by whomever it is built; a tag that does not fit is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from image import oci
from image.clean_root import Image
from plugin import krew
from release import __main__ as command
from release.build import SUMS
from release.notes import notes, unreleased
from release.version import DOCUMENTS, FILES, ROOT, change, repeated, version
from tests.charts.rendering import helm

EPOCH = 1_800_000_000
VERSION = version()


def tracked() -> list[str]:
    """The files of this repository, with those that are not committed yet."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in found if name and (ROOT / name).is_file() and not name.startswith("tests/recordings/")]


def built(tree: Path, out: Path, **environment: str) -> dict[str, str]:
    """Builds everything that needs no network and no root in a copy of the repository; returns the checksums."""
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}]\n\n- One.\n\n## [0.0.1]\n\n- Old.\n")
    words = ["--out", str(out), "--epoch", str(EPOCH), "--platforms", "", "--without", "image"]
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    program = [sys.executable, "-m", "release.build", *words]
    done = subprocess.run(program, cwd=tree, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(reversed(line.split("  ")) for line in (out / SUMS).read_text().splitlines())  # type: ignore[misc]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release of this tree."""
    out = tmp_path_factory.mktemp("dist") / "first"
    built(tmp_path_factory.mktemp("tree"), out)
    return out


def test_two_builds_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    there = {line.split("  ")[1]: line.split("  ")[0] for line in (dist / SUMS).read_text().splitlines()}
    assert built(tmp_path / "another" / "tree", tmp_path / "out", TZ="Asia/Tokyo", PYTHONHASHSEED="7") == there
    assert there.keys() == {
        "RELEASE_NOTES.md",
        f"seiretsu-{VERSION}-py3-none-any.whl",
        f"seiretsu-{VERSION}.tar.gz",
        f"seiretsu-{VERSION}.tgz",
    }
    for name, found in there.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == found


def test_the_sources_build_the_same_program(dist: Path) -> None:
    with tarfile.open(dist / f"seiretsu-{VERSION}.tar.gz") as tar:
        sources = {name.partition("/")[2] for name in tar.getnames()}
    wheel = zipfile.ZipFile(dist / f"seiretsu-{VERSION}-py3-none-any.whl")
    modules = {name.replace("seiretsu/program/", "") for name in wheel.namelist() if ".dist-info/" not in name}
    assert modules - sources == set()
    assert {"pyproject.toml", "setup.py", "LICENSE", "README.md"} <= sources


def test_the_chart_is_one_that_helm_reads(dist: Path) -> None:
    shown = yaml.safe_load(helm("show", "chart", str(dist / f"seiretsu-{VERSION}.tgz")).stdout)
    assert (shown["name"], shown["version"], shown["appVersion"]) == ("seiretsu", VERSION, VERSION)
    with tarfile.open(dist / f"seiretsu-{VERSION}.tgz") as tar:
        packed = {name.removeprefix("seiretsu/") for name in tar.getnames()}
    chart = ROOT / "charts" / "seiretsu"
    assert packed == {str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()} - {".helmignore"}


def test_the_notes_are_the_section_of_the_version(dist: Path) -> None:
    assert (dist / "RELEASE_NOTES.md").read_text() == f"# Seiretsu {VERSION}\n\n- One.\n"
    with pytest.raises(ValueError, match=r"no section \[9\.9\.9\]"):
        notes("## [1.0.0]\n\n- One.\n", "9.9.9")


def test_an_archive_of_the_plugin_depends_on_its_packages_alone(tmp_path: Path) -> None:
    digests = set()
    for number in range(2):
        packages = tmp_path / str(number)
        for name in ("seiretsu/__init__.py", "bin/seiretsu", "x-1.dist-info/RECORD", "x-1.dist-info/METADATA"):
            (packages / name).parent.mkdir(parents=True, exist_ok=True)
            (packages / name).write_text("" if name.endswith(("__init__.py", "METADATA")) else f"{packages}")
            os.utime(packages / name, (number, number))
        made = krew.archive(packages, "linux-amd64", tmp_path, EPOCH)
        digests.add(hashlib.sha256(made.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_an_image_is_an_oci_archive_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    digests = set()
    for number in range(2):
        root = tmp_path / f"root-{number}"
        (root / "opt").mkdir(parents=True)
        (root / "opt" / "program").write_text("print()")
        (root / "opt" / "link").symlink_to("program")
        os.utime(root / "opt" / "program", (number, number))
        image = Image(root, {"A": "b"}, {"title": "x"}, user="65532:65532", entrypoint=["/opt/program"])
        oci.write(image, tmp_path / "image.tar", "seiretsu:1.0.0", EPOCH)
        digests.add(hashlib.sha256((tmp_path / "image.tar").read_bytes()).hexdigest())
    assert len(digests) == 1
    with tarfile.open(tmp_path / "image.tar") as tar:
        content = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]

    def blob(described: dict[str, Any]) -> bytes:
        found = content["blobs/" + described["digest"].replace(":", "/")]
        assert (len(found), f"sha256:{hashlib.sha256(found).hexdigest()}") == (described["size"], described["digest"])
        return found

    (listed,) = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(blob(listed))
    config, (layer,) = json.loads(blob(manifest["config"])), manifest["layers"]
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("65532:65532", ["/opt/program"])
    (tmp_path / "layer.tar.gz").write_bytes(blob(layer))
    with tarfile.open(tmp_path / "layer.tar.gz") as tar:
        assert [(each.name, each.mtime, each.uid) for each in tar if not each.isdir()] == [
            ("opt/link", EPOCH, 0),
            ("opt/program", EPOCH, 0),
        ]


def test_the_version_is_the_same_in_all_files() -> None:
    assert not [name for name in FILES if (text := (ROOT / name).read_text()) != repeated(text, VERSION)]
    chart = yaml.safe_load((ROOT / "charts" / "seiretsu" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION
    assert [name for name in DOCUMENTS if VERSION in (ROOT / name).read_text()] == list(DOCUMENTS)


def test_the_version_is_changed_in_all_files(tmp_path: Path) -> None:
    for name in ("pyproject.toml", *FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    change("7.8.9", tmp_path)
    assert version(tmp_path) == "7.8.9"
    for name in FILES:
        text = (tmp_path / name).read_text()
        assert "7.8.9" in text and not re.search(rf"seiretsu[:-]{re.escape(VERSION)}", text)
    with pytest.raises(ValueError, match="is no version"):
        change("next", tmp_path)


@pytest.mark.parametrize(
    ("tag", "changelog", "told"),
    [
        ("v1.0.0", "## [Unreleased]\n\n## [1.0.0]\n\n- One.\n", []),
        ("v1.1.0", "## [Unreleased]\n\n## [1.1.0]\n\n- One.\n", ["pyproject.toml has version 1.0.0"]),
        ("v1.0.0", "## [Unreleased]\n", ["CHANGELOG.md has no section [1.0.0]"]),
        ("v1.0.0", "## [Unreleased]\n\n- New.\n\n## [1.0.0]\n\n- One.\n", ["1 entries of CHANGELOG.md are under"]),
    ],
    ids=["a good one", "another version", "no section", "entries that are left"],
)
def test_a_tag_that_does_not_fit_is_refused(tmp_path: Path, tag: str, changelog: str, told: list[str]) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.0.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    found = command.problems(tag, tmp_path)
    assert len(found) == len(told)
    assert all(text.startswith(start) for text, start in zip(found, told, strict=True))


def test_entries_that_are_not_released_are_found() -> None:
    text = "## [Unreleased]\n\n### Added\n\n- One,\n  in two lines.\n- Two.\n\n## [0.1.0]\n\n- Old.\n"
    assert unreleased(text) == ["- One,", "- Two."]
