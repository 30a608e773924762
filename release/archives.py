"""Archives that depend on the content alone: the same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

Named = tuple[str, Path]
"""The name in the archive, and the file."""


def below(folder: Path, name: str, keep: Callable[[Path], bool] = lambda path: True) -> list[Named]:
    """Returns what is in a folder, with names that begin with ``name``; ``keep`` gets paths in the folder."""
    paths = (each for each in sorted(folder.rglob("*")) if each.is_symlink() or not each.is_dir())
    return [(f"{name}/{each.relative_to(folder)}", each) for each in paths if keep(each.relative_to(folder))]


def pack(out: Path, files: Iterable[Named], epoch: int, extra: Iterable[tuple[str, bytes, int]] = ()) -> Path:
    """Writes a .tar.gz. All files have the time ``epoch`` and no owner. ``extra``: name, content and mode."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, mode in extra:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            tar.addfile(entry, io.BytesIO(content))
        for name, path in sorted(files):
            _add(tar, name, path, epoch)
    with out.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as packed:
        packed.write(buffer.getvalue())
    return out


def _add(tar: tarfile.TarFile, name: str, path: Path, epoch: int) -> None:
    entry = tar.gettarinfo(path, name)
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "", ""
    if entry.islnk():  # a hard link to a file that is in the archive already: its content is written again
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
    if entry.isreg():
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        with path.open("rb") as content:
            tar.addfile(entry, content)
    else:
        tar.addfile(entry)


def again(archive: Path, epoch: int) -> None:
    """Packs a .tar.gz that another program made once more, without what depends on time, machine and user."""
    with tarfile.open(archive) as tar:
        entries = sorted((each for each in tar.getmembers() if each.isfile()), key=lambda each: each.name)
        found = [(each.name, tar.extractfile(each), each.mode) for each in entries]
        files = [
            (name, content.read(), 0o755 if mode & 0o100 else 0o644)
            for name, content, mode in found
            if content is not None
        ]
    pack(archive, (), epoch, files)
