"""What goes into the image: which packages, and always the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from image.clean_root import listing
from image.sbom import Package, debian_packages, spdx

ROOT = Path(__file__).parents[2]
FINISH = "import sys; from pathlib import Path; from image.application import finish; \
finish(Path(sys.argv[1]), Path(sys.argv[1]) / 'opt', 315532800)"


def test_two_builds_of_a_layer_have_the_same_bytes(tmp_path: Path) -> None:
    """Of sources with other times and rights, made one after the other in processes of their own."""
    built = []
    for number in (1, 2):
        layer = tmp_path / str(number)
        for name in ("api", "certs", "core/model", "seiretsu"):
            shutil.copytree(ROOT / name, layer / "opt" / name, ignore=shutil.ignore_patterns("__pycache__"))
        for each in layer.rglob("*.py"):
            os.utime(each, (number, number))
            each.chmod(0o600 + number * 0o10)
        subprocess.run([sys.executable, "-c", FINISH, layer], cwd=ROOT, check=True, env={"PYTHONHASHSEED": str(number)})
        built.append(list(listing(layer)))
    assert built[0] == built[1]
    assert any(line.split()[0].endswith(".pyc") for line in built[0])


def test_the_list_of_packages_is_the_same_for_the_same_packages(tmp_path: Path) -> None:
    program = Package("pkg:pypi/seiretsu@1", "seiretsu", "1", "Apache-2.0")
    records = tmp_path / "var/lib/dpkg/status.d"
    records.mkdir(parents=True)
    (records / "libc6").write_text("Package: libc6\nVersion: 2.41-12+deb13u4\nArchitecture: arm64\n")
    (library,) = debian_packages(tmp_path, "# made\nlibc6 2.41-12+deb13u4 aa bb\n")
    assert library.purl == "pkg:deb/debian/libc6@2.41-12%2Bdeb13u4?arch=arm64"
    assert library.sha256 == "bb"
    document = spdx([program, library], "1980-01-01T00:00:00Z")
    assert json.dumps(document) == json.dumps(spdx([program, library], "1980-01-01T00:00:00Z"))
    other = spdx([program, library._replace(version="2")], "1980-01-01T00:00:00Z")
    assert other["documentNamespace"] != document["documentNamespace"]
