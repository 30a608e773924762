"""The Debian mirror that this machine uses, for the suite of the image."""

from __future__ import annotations

import subprocess
from urllib.parse import urlsplit

SUITE = "trixie"


def main_archive() -> str:
    """Returns the address of the archive that apt of this machine uses. Raises SystemExit where it uses none."""
    for site in _sites():
        if urlsplit(site).path.rstrip("/") == "/debian":
            return site
    raise SystemExit("apt of this machine has no Debian archive among its sources")


def sources() -> str:
    """Returns the sources of apt for the suite: releases, updates and security updates."""
    main = main_archive()
    archives = [(main, SUITE), (main, f"{SUITE}-updates")]
    archives += [(site, f"{SUITE}-security") for site in _sites() if site.rstrip("/").endswith("/debian-security")]
    return "".join(f"deb {site} {suite} main\n" for site, suite in archives)


def _sites() -> list[str]:
    words = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    try:
        found = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise SystemExit("this needs apt: a machine with Debian") from None
    return sorted(set(found.split()))
