"""directory: what an emitted project's directory holds, and whose turn it is to change it.

Promises that a directory is changed by one thread of one process at a time, and that no path that a manifest
names leads out of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, cast

from lumigen.errors import DirectoryNotOurs, FileRefused, NotADirectory
from lumigen.files import read_regular

MANIFEST = "manifest.json"
STAGING = ".emit-"  # begins the name of a folder of new files; one without a process was left by a killed one

FOLDERS = ("weights", "lib", "bin", "python")  # to which files go that no manifest lists

Known = Mapping[str, frozenset[str]]  # hashes of what emissions wrote, by path


# ---- one at a time -------------------------------------------------------------------------------

_held = threading.local()  # `places`: the directories that this thread has locked


@contextmanager
def locked(directory: Path) -> Generator[None]:
    """The directory, made where it is not there, for this thread alone: others wait, in other processes too.

    One that holds nothing in the end, and was not there, is removed again.
    """
    if directory.exists() and not directory.is_dir():
        raise NotADirectory(directory=directory)
    places: set[Path] = vars(_held).setdefault("places", set())
    place = Path(os.path.realpath(directory))
    if place in places:
        yield
        return
    made = [p for p in (place, *place.parents) if not p.exists()]
    lock = _lock(place)
    places.add(place)
    try:
        yield
    finally:
        places.remove(place)
        with suppress(OSError):  # one that holds something stays
            for p in made:
                p.rmdir()
        os.close(lock)


def _lock(place: Path) -> int:
    """The locked directory; one that another process has removed meanwhile is made again."""
    while True:
        place.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if place.exists() and os.path.samestat(os.fstat(lock), place.stat()):
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


# ---- what is there -------------------------------------------------------------------------------


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of an emitted project; None if there is none of ours."""
    data = read_regular(directory / MANIFEST)
    if data is None:
        return None
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict):
        return None
    found = cast("dict[str, Any]", manifest)
    if not {"lumigen", "model", "files"} <= set(found):
        return None
    if why := _damage(found):
        remedy = "Restore the file, or emit the project again into another directory."
        raise FileRefused(command="manifest", file=directory / MANIFEST, why=why, remedy=remedy)
    return found


def _damage(manifest: Mapping[str, Any]) -> str:
    """What in a manifest cannot be ours, as a clause; empty if nothing is."""
    name, files = manifest["model"], manifest["files"]
    if not isinstance(name, str) or not name.isidentifier():
        return f"its model is {str(name)[:40]!r}, which is no name"
    if not isinstance(files, dict):
        return f"its files are {str(files)[:40]!r}, which is no object"
    for path, digest in cast("dict[str, object]", files).items():
        if not isinstance(digest, str) or "\0" in path:
            return f"its files have the row {path[:40]!r}: {str(digest)[:40]!r}"
    return ""


def emitted_as_recorded(directory: Path) -> bool:
    """Whether each emitted file is there and holds what the manifest says."""
    manifest = read_manifest(directory)
    return manifest is not None and all(
        (data := read_regular(directory / path)) is not None and digest_of(data) == digest
        for path, digest in manifest["files"].items()
    )


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def emitted_files(directory: Path) -> Known:
    """What earlier emissions left here, one that was killed included; refuses somebody else's directory."""
    if not directory.exists():
        return {}
    if not directory.is_dir():
        raise NotADirectory(directory=directory)
    there = list(directory.iterdir())
    manifests = [read_manifest(d) for d in (directory, *left_behind(directory))]
    if not any(manifests) and any(not p.name.startswith(STAGING) for p in there):
        raise DirectoryNotOurs(directory=directory)
    known: defaultdict[str, set[str]] = defaultdict(set)
    for manifest in filter(None, manifests):
        for path, digest in manifest["files"].items():
            if _stays_inside(path) and not _has_link(directory, path):
                known[path].add(digest)
    return {path: frozenset(digests) for path, digests in known.items()}


def left_behind(directory: Path) -> list[Path]:
    """Folders of new files that a killed process did not move into place."""
    return [p for p in directory.glob(f"{STAGING}*") if p.is_dir() and not p.is_symlink()]


def _stays_inside(path: str) -> bool:
    """A manifest that was tampered with must not make us remove files elsewhere."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts


def _has_link(directory: Path, path: str) -> bool:
    """Whether a folder of a path below the directory is a link, which would lead out of it."""
    return any((directory / p).is_symlink() for p in PurePosixPath(path).parents if p.name)


def check_no_links(directory: Path, paths: Iterable[str]) -> None:
    """Refuse a directory in which a link stands for a folder that files are written to."""
    folders = {p for path in paths for p in PurePosixPath(path).parents} - {PurePosixPath()}
    for folder in sorted(map(str, folders | set(map(PurePosixPath, FOLDERS)))):
        if (directory / folder).is_symlink():
            why = "it is a link, and a project is not written to where links lead"
            remedy = "Remove the link, or name another directory."
            raise FileRefused(command="compile", file=directory / folder, why=why, remedy=remedy)
