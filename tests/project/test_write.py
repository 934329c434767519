"""Writing a project into a directory: nobody's files are lost, nothing is half-written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lumigen import build
from lumigen.build import write_project
from lumigen.errors import DirectoryNotOurs, EditedFiles, NotADirectory


def project(**files: str) -> dict[str, str]:
    named = {path.replace("__", "/") + ".txt": text for path, text in files.items()}
    hashes = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in named.items()}
    manifest = json.dumps({"lumigen": {}, "model": "m", "files": hashes})
    return {**named, "manifest.json": manifest}


def tree(directory: Path) -> set[str]:
    return {p.relative_to(directory).as_posix() for p in directory.rglob("*")}


def test_writes_into_nothing_and_into_an_empty_directory(tmp_path):
    written = write_project(project(a="1", b__c="2"), tmp_path).written
    assert written == ("a.txt", "b/c.txt", "manifest.json")
    assert write_project(project(a="1"), tmp_path / "new" / "deep").removed == ()
    assert tree(tmp_path / "new" / "deep") == {"a.txt", "manifest.json"}


def test_unchanged_files_keep_their_time(tmp_path):
    write_project(project(a="1", b="2"), tmp_path)
    before = (tmp_path / "a.txt").stat()
    result = write_project(project(a="1", b="3"), tmp_path)
    assert result.written == ("b.txt", "manifest.json")
    assert result.unchanged == ("a.txt",)
    after = (tmp_path / "a.txt").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_files_no_longer_emitted_are_removed_with_their_folders(tmp_path):
    write_project(project(a="1", b__c="2"), tmp_path)
    assert write_project(project(a="1"), tmp_path).removed == ("b/c.txt",)
    assert tree(tmp_path) == {"a.txt", "manifest.json"}


def test_derived_and_other_files_stay(tmp_path):
    write_project(project(a="1", b__c="2"), tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    write_project(project(a="2"), tmp_path)
    assert tree(tmp_path) == {"a.txt", "manifest.json", "build", "b", "b/mine.txt"}


@pytest.mark.parametrize("text", [None, "{}", "[]", "no json", '{"name": "x", "files": {}}'])
def test_somebody_elses_directory_is_refused(tmp_path, text):
    (tmp_path / ("other.txt" if text is None else "manifest.json")).write_text(text or "")
    with pytest.raises(DirectoryNotOurs):
        write_project(project(a="1"), tmp_path, force=True)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectory):
        write_project(project(a="1"), tmp_path / "file")


def test_edited_files_are_named_and_kept(tmp_path):
    write_project(project(a="1", b="2", c="3"), tmp_path)
    (tmp_path / "a.txt").write_text("mine")
    (tmp_path / "c.txt").write_text("mine too")
    with pytest.raises(EditedFiles, match=r"a\.txt, c\.txt"):
        write_project(project(a="4", b="5"), tmp_path)
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert (tmp_path / "b.txt").read_text() == "2"
    write_project(project(a="4", b="5"), tmp_path, force=True)
    assert tree(tmp_path) == {"a.txt", "b.txt", "manifest.json"}


def test_an_edit_that_equals_the_new_text_is_none(tmp_path):
    write_project(project(a="1"), tmp_path)
    (tmp_path / "a.txt").write_text("2")
    assert write_project(project(a="2"), tmp_path).written == ("manifest.json",)


def test_a_removed_file_comes_back(tmp_path):
    write_project(project(a="1"), tmp_path)
    (tmp_path / "a.txt").unlink()
    assert write_project(project(a="1"), tmp_path).written == ("a.txt",)


def test_somebodys_file_in_the_way_is_not_overwritten(tmp_path):
    write_project(project(a="1"), tmp_path)
    (tmp_path / "b.txt").write_text("mine")
    with pytest.raises(EditedFiles, match=r"b\.txt"):
        write_project(project(a="1", b="2"), tmp_path)


def test_a_manifest_cannot_name_files_outside(tmp_path):
    (tmp_path / "victim.txt").write_text("1")
    inside = tmp_path / "inside"
    write_project(project(a="1"), inside)
    manifest = json.loads((inside / "manifest.json").read_text())
    manifest["files"]["../victim.txt"] = hashlib.sha256(b"1").hexdigest()
    (inside / "manifest.json").write_text(json.dumps(manifest))
    write_project(project(a="2"), inside, force=True)
    assert (tmp_path / "victim.txt").exists()


def test_a_failure_before_the_first_rename_changes_nothing(tmp_path, monkeypatch):
    write_project(project(a="1", b="2"), tmp_path)
    before = tree(tmp_path)

    def fail(self: Path, data: bytes) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        write_project(project(a="3", c="4"), tmp_path)
    assert tree(tmp_path) == before
    assert (tmp_path / "a.txt").read_text() == "1"


def test_an_interrupt_between_renames_waits_for_the_last(tmp_path, monkeypatch):
    write_project(project(a="1", b="2"), tmp_path)
    original, calls = build._move, []

    def interrupted(source: Path, target: Path) -> None:
        calls.append(target)
        original(source, target)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(build, "_move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_project(project(a="3", b="4"), tmp_path)
    monkeypatch.undo()
    assert write_project(project(a="3", b="4"), tmp_path).written == ()
    assert tree(tmp_path) == {"a.txt", "b.txt", "manifest.json"}
