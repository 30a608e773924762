"""The list of all packages in the image, in SPDX 2.3: Debian packages, Python packages, and the program itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.parser import HeaderParser
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

ARCHITECTURES = ("amd64", "arm64")
"""The order of the hashes in a line of packages.lock."""


class Package(NamedTuple):
    """A package of the image."""

    purl: str
    """What it is, where from and which version, as https://github.com/package-url/purl-spec has it."""
    name: str
    version: str
    license: str = "NOASSERTION"
    sha256: str = ""


def document(debian: Path, python: Path, source: Path, epoch: int) -> str:
    """Returns the document for a folder with Debian packages and one with Python packages."""
    lock = (source / "image" / "packages.lock").read_text()
    found = sorted([*debian_packages(debian, lock), *python_packages(python)])
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(spdx(found, created), indent=1, sort_keys=True) + "\n"


def debian_packages(root: Path, lock: str) -> Iterable[Package]:
    """Yields the Debian packages of which the records are in the folder."""
    locked = {line.split()[0]: line.split()[2:] for line in lock.splitlines() if not line.startswith("#")}
    for record in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        field = HeaderParser().parsestr(record.read_text())
        name, version, architecture = field["Package"], field["Version"], field["Architecture"]
        index = ARCHITECTURES.index(architecture) if architecture in ARCHITECTURES else 0
        purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch={architecture}"
        yield Package(purl, name, version, sha256=locked[name][index])


def python_packages(folder: Path) -> Iterable[Package]:
    """Yields the Python packages that are installed in the folder."""
    for each in distributions(path=[str(folder)]):
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        said = each.metadata.json.get("license_expression", "")
        license = said if isinstance(said, str) and re.fullmatch(r"[A-Za-z0-9.+() -]+", said) else "NOASSERTION"
        yield Package(f"pkg:pypi/{name}@{each.version}", name, each.version, license)


def spdx(packages: Iterable[Package], created: str) -> Mapping[str, object]:
    """Returns the document as SPDX has it; the same packages give the same document."""
    listed = list(packages)
    digest = hashlib.sha256("\n".join(map(repr, listed)).encode()).hexdigest()
    program = next(each for each in listed if each.name == "seiretsu")
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"seiretsu-{program.version}",
        "documentNamespace": f"urn:sha256:{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: seiretsu-image"]},
        "packages": [_package(each) for each in listed],
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": _id(program),
            },
            *(
                {
                    "spdxElementId": _id(program),
                    "relationshipType": "DEPENDS_ON",
                    "relatedSpdxElement": _id(each),
                }
                for each in listed
                if each is not program
            ),
        ],
    }


def _id(package: Package) -> str:
    kind = package.purl.partition(":")[2].partition("/")[0]
    return f"SPDXRef-{kind}-{re.sub('[^A-Za-z0-9.-]', '-', package.name)}"


def _package(package: Package) -> Mapping[str, object]:
    checksums = [{"algorithm": "SHA256", "checksumValue": package.sha256}] if package.sha256 else []
    return {
        "SPDXID": _id(package),
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": package.license,
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": package.purl,
            }
        ],
        **({"checksums": checksums} if checksums else {}),
    }
