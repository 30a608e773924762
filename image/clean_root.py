"""Builds the image without a container engine: runs the instructions of the Dockerfile in clean roots.

``python -m image.clean_root FOLDER`` makes a folder for each stage; the last is the root of the image. It needs root,
and a machine with apt, of which the package sources are used. The base image of the first stage is then a minimal
Debian that debootstrap makes once (what the official image is made from).
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from image.dockerfile import Stage, command, expanded, pairs, parse
from image.mirror import SUITE, main_archive, sources

SOURCE = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seiretsu" / "image"
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT")
"""What the machine has configured of its network; docker build has build arguments for it."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_MOUNTS = """
set -e
mkdir -p "$1/proc" "$1/dev" "$1/etc" "$1/run/seiretsu/pip" "$1/tmp"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/run"
mkdir -p "$1/run/seiretsu/pip"
touch "$1/etc/resolv.conf" "$1/run/seiretsu/ca.crt"
mount --bind /etc/resolv.conf "$1/etc/resolv.conf"
mount --bind "$2" "$1/run/seiretsu/ca.crt"
mount --bind "$3" "$1/run/seiretsu/pip"
shift 3
exec "$@"
"""
_READ_ONLY = """
set -e
root=$1 mounts=$2
shift 2
mount --bind "$root" "$root"
mount -t tmpfs -o mode=755,size=64k tmpfs "$root/dev"
for device in null zero random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount --bind /proc "$root/proc"
mount -t tmpfs -o mode=1777,size=16m tmpfs "$root/tmp"
while [ "$mounts" -gt 0 ]; do
    mount --bind "$1" "$2"
    mount -o remount,bind,ro "$2"
    mounts=$((mounts - 1))
    shift 2
done
mount -o remount,bind,ro "$root"
exec "$@"
"""


@dataclass(slots=True)
class Image:
    """The root of a stage, and the configuration that its instructions set."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


def build(into: Path, arguments: Mapping[str, str] | None = None) -> Image:
    """Returns the last stage of the Dockerfile, built below the folder. ``arguments``: as of --build-arg."""
    given = {"APT_SOURCES": sources().replace("deb ", "deb [check-valid-until=no] "), **(arguments or {})}
    done: dict[str, Image] = {}
    image = Image(into)
    for number, stage in enumerate(parse((SOURCE / "Dockerfile").read_text()).stages):
        root = into / (stage.name or str(number))
        print(f"stage {stage.name or number}", file=sys.stderr, flush=True)
        start(stage, root, done)
        image = Image(root)
        variables: dict[str, str] = {}
        for word, rest in stage.instructions:
            apply(image, word, rest, variables, given, done)
        done[stage.name or str(number)] = image
    return image


def start(stage: Stage, root: Path, done: Mapping[str, Image]) -> None:
    """Make the root of a stage from what it is built on."""
    if stage.base == "scratch":
        root.mkdir(parents=True)
    else:
        shutil.copytree(done[stage.base].root if stage.base in done else base(), root, symlinks=True)


def apply(
    image: Image,
    word: str,
    rest: str,
    variables: dict[str, str],
    given: Mapping[str, str],
    done: Mapping[str, Image],
) -> None:
    """Carry out one instruction. ``variables``: those of the stage so far."""
    match word:
        case "ARG":
            name, _, default = rest.partition("=")
            variables[name] = given.get(name, default)
        case "ENV":
            image.environment |= pairs(rest, variables)
            variables |= image.environment
        case "LABEL":
            image.labels |= pairs(rest, variables)
        case "WORKDIR":
            image.directory = rest
            inside(image.root, rest).mkdir(parents=True, exist_ok=True)
        case "COPY":
            copy(image, expanded(rest, variables).split(), done)
        case "RUN":
            run(image, command(rest), variables)
        case "USER":
            image.user = rest
        case "ENTRYPOINT":
            image.entrypoint = command(rest)
        case "CMD":
            image.arguments = command(rest)
        case "EXPOSE":
            pass


def inside(root: Path, path: str) -> Path:
    """Returns where a path of the image is on this machine."""
    return root / path.lstrip("/")


def copy(image: Image, words: Sequence[str], done: Mapping[str, Image]) -> None:
    """COPY: files by their names, of a folder what is in it."""
    origin, skipped = SOURCE, _ignored()
    if words[0].startswith("--from="):
        origin, skipped = done[words[0].partition("=")[2]].root, []
        words = words[1:]
    *names, last = words
    target = inside(image.root, last if last.startswith("/") else f"{image.directory}/{last}")
    for name in names:
        found = inside(origin, name)
        if found.is_dir():
            ignore = shutil.ignore_patterns(*skipped)
            shutil.copytree(found, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        else:
            into = target / found.name if last.endswith("/") else target
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, into)


def _ignored() -> list[str]:
    lines = (SOURCE / ".dockerignore").read_text().split()
    return [line.removeprefix("**/") for line in lines if fnmatch.fnmatch(line, "[*][*]/*")]


def run(image: Image, words: Sequence[str], variables: Mapping[str, str]) -> None:
    """RUN, in a root with the devices, names and package sources of this machine."""
    pip = CACHE / "pip"
    pip.mkdir(parents=True, exist_ok=True)
    environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    environ |= {name: os.environ[name] for name in PASSED if name in os.environ}
    environ |= {"PIP_CACHE_DIR": "/run/seiretsu/pip", "PIP_CERT": "/run/seiretsu/ca.crt"}
    environ |= {**variables, **image.environment}
    change = ["chroot", str(image.root), *(_in_directory(image, words))]
    separate = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _MOUNTS, "sh"]
    places = [str(image.root), str(CERTIFICATES), str(pip)]
    subprocess.run([*separate, *places, *change], check=True, env=environ, stdout=sys.stderr)


def _in_directory(image: Image, words: Sequence[str]) -> list[str]:
    if words[0] == "/bin/sh":
        return ["/bin/sh", "-c", f"cd {image.directory} && {words[2]}"]
    code = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
    return ["/usr/bin/python3.13", "-B", "-c", code, image.directory, *words]


def container(
    image: Image, arguments: Sequence[str], mounts: Mapping[str, Path], environment: Mapping[str, str]
) -> list[str]:
    """Returns the command that starts the image as the chart does: its user and entry point, a read-only root, a
    writable /tmp, no environment but this, and files or folders of this machine mounted where ``mounts`` has them.
    """
    places = []
    for target, origin in mounts.items():
        place = inside(image.root, target)
        place.mkdir(parents=True, exist_ok=True)  # container engines make these, too
        places += [str(origin), str(place)]
    environ = [f"{name}={value}" for name, value in (image.environment | dict(environment)).items()]
    chroot = [shutil.which("chroot") or "chroot", f"--userspec={image.user}", "--groups=", str(image.root)]
    change = ["setpriv", "--no-new-privs", "env", "-i", *environ, *chroot]
    return [
        *("unshare", "--mount", "sh", "-c", _READ_ONLY, "sh", str(image.root), str(len(mounts)), *places),
        *(*change, *image.entrypoint, *(arguments or image.arguments)),
    ]


def base() -> Path:
    """Returns the root of a minimal Debian, which is made at the first use."""
    root = CACHE / SUITE
    if not root.is_dir():
        made, tool = root.with_suffix(".part"), CACHE / "debootstrap"
        for old in (made, tool):
            shutil.rmtree(old, ignore_errors=True)
        tool.mkdir(parents=True)
        print(f"making a minimal Debian {SUITE} in {root}, once", file=sys.stderr, flush=True)
        subprocess.run(["apt-get", "download", "--quiet=2", "debootstrap"], cwd=tool, check=True)
        (package,) = tool.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, tool], check=True)
        environ = os.environ | {"DEBOOTSTRAP_DIR": str(tool / "usr/share/debootstrap")}
        words = ["sh", str(tool / "usr/sbin/debootstrap"), "--variant=minbase", SUITE, str(made), main_archive()]
        subprocess.run(words, check=True, env=environ, stdout=sys.stderr)
        for device in (*(made / "dev").iterdir(), *(made / "var/cache/apt/archives").glob("*.deb")):
            shutil.rmtree(device) if device.is_dir() and not device.is_symlink() else device.unlink()
        made.rename(root)
    return root


def digest(root: Path) -> str:
    """Returns the SHA-256 of a layer: names, rights, owners, times and contents of all files."""
    total = hashlib.sha256()
    for line in listing(root):
        total.update(f"{line}\n".encode())
    return total.hexdigest()


def listing(root: Path) -> Iterator[str]:
    """Yields a line for each file below the folder, in the order of their names."""
    for each in sorted(root.rglob("*")):
        found = each.lstat()
        content = ""
        if stat.S_ISLNK(found.st_mode):
            content = str(each.readlink())
        elif stat.S_ISREG(found.st_mode):
            content = hashlib.sha256(each.read_bytes()).hexdigest()
        yield f"{each.relative_to(root)} {found.st_mode:o} {found.st_uid}:{found.st_gid} {found.st_mtime:.0f} {content}"


if __name__ == "__main__":
    print(build(Path(sys.argv[1])).root)
