"""Writing a project into a directory: nobody's files are lost, nothing is half-written."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from lumigen import build
from lumigen.build import write_project
from lumigen.directory import locked
from lumigen.errors import DirectoryNotOurs, EditedFiles, FileRefused, NotADirectory


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


def tampered(directory: Path, path: str, text: bytes) -> None:
    """The manifest names a file of somebody else as its own."""
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"][path] = hashlib.sha256(text).hexdigest()
    (directory / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("path", ["notes/mine.txt", "notes/deep/mine.txt"])
def test_names_in_a_manifest_are_not_followed_through_links(tmp_path, path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    mine = outside / Path(path).relative_to("notes")
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    write_project(project(a="1"), inside)
    (inside / "notes").symlink_to(outside)
    tampered(inside, path, b"mine")
    write_project(project(a="2"), inside, force=True)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("link", ["b", "b/c", "weights", "lib", "bin", "python"])
def test_nothing_is_written_to_where_a_link_leads(tmp_path, link):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    write_project(project(a="1"), inside)
    (inside / link).parent.mkdir(exist_ok=True)
    (inside / link).symlink_to(outside)
    with pytest.raises(FileRefused, match=f"{link} cannot be used: it is a link"):
        write_project(project(a="2", b__c__d="2"), inside, force=True)
    assert tree(outside) == set()
    assert (inside / "a.txt").read_text() == "1"


def test_a_pipe_is_not_waited_for(tmp_path):
    write_project(project(a="1", b="2"), tmp_path)
    (tmp_path / "a.txt").unlink()
    os.mkfifo(tmp_path / "a.txt")
    assert write_project(project(a="1", b="2"), tmp_path).written == ("a.txt",)
    (tmp_path / "manifest.json").unlink()
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(DirectoryNotOurs):
        write_project(project(a="1"), tmp_path)


@pytest.mark.parametrize("earlier", [{}, {"a": "0", "b": "0", "old": "0"}])
@pytest.mark.parametrize("count", range(4))
def test_what_a_killed_process_left_is_taken_over(tmp_path, monkeypatch, earlier, count):
    """Killed after `count` files were moved: nothing of it is left, whatever comes next."""
    original, moved = build._move, []

    def killed(source: Path, target: Path) -> None:
        if len(moved) == count:
            raise SystemExit
        moved.append(target)
        original(source, target)

    if earlier:
        write_project(project(**earlier), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(build, "_move", killed)
        patch.setattr(build.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            write_project(project(a="1", b="1", c="1"), tmp_path)
    assert any(p.startswith(".emit-") for p in tree(tmp_path))
    write_project(project(b="2", d="2"), tmp_path)
    assert tree(tmp_path) == {"b.txt", "d.txt", "manifest.json"}
    assert (tmp_path / "b.txt").read_text() == "2"


def test_a_file_beside_what_was_left_stays_somebodys(tmp_path):
    (tmp_path / ".emit-1").mkdir()
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DirectoryNotOurs):
        write_project(project(a="1"), tmp_path)


def test_a_directory_is_changed_by_one_at_a_time(tmp_path):
    place, order = tmp_path / "new", []

    def second() -> None:
        with locked(place):
            order.append("second")

    with locked(place):
        thread = threading.Thread(target=second)
        thread.start()
        write_project(project(a="1"), place)  # who has it may go on
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_directory_that_was_removed_meanwhile_is_made_again(tmp_path):
    place = tmp_path / "new"
    thread = threading.Thread(target=lambda: write_project(project(a="1"), place))
    with locked(place):
        thread.start()
        thread.join(0.2)
    thread.join()
    assert tree(place) == {"a.txt", "manifest.json"}


def test_the_umask_holds(tmp_path):
    before = os.umask(0o077)
    try:
        write_project(project(a="1"), tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o600
