"""The manifest for krew has the fields that krew requires, and an archive starts the plugin."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from cli.main import PLUGIN
from plugin.krew import PLATFORMS, VERSION, archive, main, manifest

URL = "https://example.com/releases/v0.1.0"
RELEASE = ("manifest", "--url", URL, "--homepage", "https://example.com/seiretsu")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """What pip has installed: a program that prints its arguments."""
    (found := tmp_path / "packages" / "seiretsu").mkdir(parents=True)
    (found / "__init__.py").touch()
    (found / "__main__.py").write_text("import sys\ndef plugin(): print(*sys.argv[1:])\n")
    return found.parent


def test_the_manifest_has_every_field_that_krew_requires(packages: Path, tmp_path: Path) -> None:
    out = tmp_path / "dist"
    out.mkdir()
    made = {platform: archive(packages, platform, out) for platform in PLATFORMS}
    (out / "kubectl-seiretsu-0.0.1-linux-amd64.tar.gz").touch()  # an earlier release
    assert main(["--out", str(out), *RELEASE]) == 0
    text = (out / "seiretsu.yaml").read_text()
    assert "@" not in text.partition("\n")[2], "something is not filled in"
    found = yaml.safe_load(text)
    assert (found["apiVersion"], found["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", found["metadata"]["name"])
    spec = found["spec"]
    assert spec["version"] == f"v{VERSION}"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert spec["homepage"] == "https://example.com/seiretsu"
    assert 0 < len(spec["shortDescription"]) <= 50
    assert "kubectl" not in spec["shortDescription"]
    assert all(f"({command.name})" in spec["description"] for command in PLUGIN)
    assert spec.keys() == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert {each["uri"]: each for each in spec["platforms"]} == {
        f"{URL}/{path.name}": {
            "selector": {"matchLabels": dict(zip(("os", "arch"), platform.split("-"), strict=True))},
            "uri": f"{URL}/{path.name}",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bin": "kubectl-seiretsu",
        }
        for platform, path in made.items()
    }


def test_without_an_archive_there_is_no_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path), *RELEASE]) == 1
    assert "no archive of kubectl-seiretsu" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no archive"):
        manifest(tmp_path, URL, URL)


def test_the_program_in_the_archive_runs_by_a_link_as_krew_makes_it(packages: Path, tmp_path: Path) -> None:
    (store := tmp_path / "store").mkdir()
    with tarfile.open(archive(packages, "linux-amd64", tmp_path)) as tar:
        assert {"kubectl-seiretsu", "LICENSE", "lib/seiretsu/__main__.py"} <= set(tar.getnames())
        tar.extractall(store, filter="data")
    link = tmp_path / "kubectl-seiretsu"
    link.symlink_to(store / "kubectl-seiretsu")
    done = subprocess.run(
        [sys.executable, link, "when", "train"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "when train\n"), done.stderr


def test_another_python_is_refused_with_the_one_that_is_needed(packages: Path, tmp_path: Path) -> None:
    with tarfile.open(archive(packages, "linux-amd64", tmp_path)) as tar:
        tar.extractall(tmp_path, filter="data")
    start = tmp_path / "kubectl-seiretsu"
    start.write_text(re.sub(r'NEEDED = ".*"', 'NEEDED = "3.1"', start.read_text()))
    done = subprocess.run([sys.executable, start], capture_output=True, text=True, check=False, env={"PATH": ""})
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs Python 3.1: install it so that python3.1 is on PATH" in done.stderr
