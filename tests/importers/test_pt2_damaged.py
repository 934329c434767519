"""Archives that are damaged, untrue or hostile: one message, nothing written, no pickle run that is not trusted."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from test_pt2 import Net
from torch.export import Dim

from lumigen.cli import lumigen as command_line
from lumigen.errors import ModelFileError, UserError
from lumigen.importers.torch import from_pt2

Change = Callable[[str, bytes], tuple[str, bytes] | None]
CASES = 40
STRANGE = (None, -1, 2**62, "x", [], {}, "../../etc/passwd", True, 1.5)


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A sound archive."""
    torch.manual_seed(0)
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = [{0: Dim("batch", min=1, max=8)}]
        program = torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes=shapes)
        torch.export.save(program, out)
    return out.getvalue()


def changed(whole: bytes, change: Change, compression: int = zipfile.ZIP_STORED) -> bytes:
    """The archive with each entry as `change` leaves it; None drops one."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for entry in old.infolist():
            found = change(entry.filename, old.read(entry))
            if found is not None:
                new.writestr(*found)
    return out.getvalue()


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in nested lists and dicts."""
    if path:
        yield path
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield from paths(value[key], (*path, key))


def untrue(rng: random.Random) -> Change:
    """One place of the program or of the table of weights has something else, or is gone."""
    which = rng.choice(["models/model.json", "model_weights_config.json"])

    def change(name: str, data: bytes) -> tuple[str, bytes]:
        if not name.endswith(which):
            return name, data
        value = json.loads(data)
        *before, last = rng.choice(list(paths(value)))
        inner = value
        for key in before:
            inner = inner[key]
        if rng.random() < 0.2:
            del inner[last]
        elif isinstance(inner[last], int) and rng.random() < 0.5:
            inner[last] = rng.choice([inner[last] + 1, inner[last] - 1, 10**9, 2**31])
        else:
            inner[last] = rng.choice(STRANGE)
        return name, json.dumps(value).encode()

    return change


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """Cut, a bit turned, bytes of the directory at the end overwritten, or an entry that is untrue."""
    kind = rng.randrange(6)
    if kind == 0:
        return whole[: rng.randrange(len(whole))]
    data = bytearray(whole)
    if kind == 1:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    if kind == 2:
        at = len(data) - rng.randrange(4, 1200)
        data[at : at + 4] = rng.randbytes(4)
        return bytes(data)
    return changed(whole, untrue(rng))


@pytest.mark.slow
def test_damaged_archives_are_refused_with_one_message(
    whole: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is still sound after a change is imported; anything else is the file's fault, and told in a line or few."""
    rng = random.Random(35)
    file = tmp_path / "net.pt2"
    refused = 0
    for case in range(CASES):
        file.write_bytes(damaged(whole, rng))
        text = told(file)
        refused += bool(text)
        assert len(text) < 600, case
        assert "Traceback" not in text, case
    assert CASES // 2 < refused < CASES
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt2"]
    assert "Traceback" not in "".join(capfd.readouterr())


def told(file: Path) -> str:
    """Why an archive is refused; empty where it is not."""
    try:
        from_pt2(file, {"x_dim0": (1, 8)}, trust=True)
    except UserError as e:
        return str(e)
    return ""


def entry(end: str, name: str | None, data: bytes | None = None) -> Change:
    """The entry whose name ends so has another name, or other bytes, or is gone."""

    def change(old: str, held: bytes) -> tuple[str, bytes] | None:
        if not old.endswith(end):
            return old, held
        return None if name is None else (name or old, held if data is None else data)

    return change


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "File is not a zip file"),
    "text": (lambda _: b"garbage", "File is not a zip file"),
    "other zip": (
        lambda b: changed(b, entry("archive_format", "archive/other")),
        "it has no entry archive_format",
    ),
    "climbs": (
        lambda b: changed(b, entry("byteorder", "archive/../../byteorder")),
        "climbs out of the archive",
    ),
    "absolute": (
        lambda b: changed(b, entry("byteorder", "/tmp/byteorder")),
        "climbs out of the archive",
    ),
    "bomb": (
        lambda b: changed(b, entry("weight_0", "", bytes(1 << 22)), zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
    "twice": (lambda b: changed(b, entry("byteorder", "archive/archive_version")), "two entries"),
    "no program": (lambda b: changed(b, entry("model.json", None)), "cannot read it"),
    "no weights": (lambda b: changed(b, entry("weight_0", None)), "cannot read it"),
    "short weights": (lambda b: changed(b, entry("weight_0", "", bytes(8))), "cannot read it"),
    "empty weights": (
        lambda b: changed(b, entry("weight_0", "", b"")),
        "tensor '[a-z.]+' has elements, and its entry has 0 bytes",
    ),
    "deep": (
        lambda b: changed(b, entry("model.json", "", b"[" * 100_000)),
        "cannot read it: RecursionError",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_archives_are_refused(name: str, whole: bytes, tmp_path: Path) -> None:
    file, (make, text) = tmp_path / "net.pt2", HOSTILE[name]
    file.write_bytes(make(whole))
    words = ["compile", str(file), "--trust", "--no-build", "-o", str(tmp_path / "out")]
    called = CliRunner().invoke(command_line, words)
    assert isinstance(called.exception, ModelFileError)
    assert re.search(text, str(called.exception))
    assert "\n" not in str(called.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt2"]


def test_tensors_are_as_the_program_reads_them(whole: bytes, tmp_path: Path) -> None:
    """A table that says less of a tensor than the program reads is not believed."""

    def change(name: str, data: bytes) -> tuple[str, bytes]:
        if not name.endswith("model_weights_config.json"):
            return name, data
        said = json.loads(data)
        meta = next(iter(said["config"].values()))["tensor_meta"]
        meta["sizes"], meta["strides"] = [{"as_int": 1}], [{"as_int": 1}]
        return name, json.dumps(said).encode()

    file = tmp_path / "net.pt2"
    file.write_bytes(changed(whole, change))
    text = r"net.pt2.*of shape \[1\].* as the program reads it"
    with pytest.raises(UserError, match=text):
        from_pt2(file, {"x_dim0": (1, 8)}, trust=True)


class Pickled:
    """What makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return open, (str(self.file), "w")


@pytest.mark.slow
def test_no_pickle_runs_that_is_not_trusted(whole: bytes, tmp_path: Path) -> None:
    file, mark = tmp_path / "net.pt2", tmp_path / "mark"
    out = io.BytesIO()
    torch.save(Pickled(mark), out)
    for data in (out.getvalue(), pickle.dumps(Pickled(mark))):
        file.write_bytes(changed(whole, entry("sample_inputs/model.pt", "", data)))
        from_pt2(file, {"x_dim0": (1, 8)}, trust=False)  # example inputs are not read
        file.write_bytes(
            changed(whole, entry("weights/weight_0", "archive/data/weights/model.pt", data))
        )
        for command in ("compile", "show"):
            called = CliRunner().invoke(command_line, [command, str(file), "--dim", "x_dim0=4"])
            assert isinstance(called.exception, ModelFileError)
            assert "not trusted, and its entry 'data/weights/model.pt' is a pickle" in str(
                called.exception
            )
    assert not mark.exists()


@pytest.mark.parametrize("name", ["x.json", "archive_x", "weight_0", "model_weights_config.json"])
@pytest.mark.parametrize("kind", ["weights", "constants"])
def test_no_pickle_runs_under_any_name(
    name: str, kind: str, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the archive says is pickled, or an object of its own, is not read, whatever it is called."""
    monkeypatch.chdir(tmp_path)
    file, mark = tmp_path / "net.pt2", tmp_path / "mark"
    out = io.BytesIO()
    torch.save(Pickled(mark), out)
    config = f"{kind}/model_{kind}_config.json"
    path = name if kind == "weights" else f"custom_obj_{name}"
    payload = {"path_name": path, "is_param": False, "use_pickle": True, "tensor_meta": None}

    def change(old: str, data: bytes) -> tuple[str, bytes]:
        if not old.endswith(config):
            return old, data
        return old, json.dumps({"config": {"first.bias": payload}}).encode()

    damaged = changed(whole, change)
    if not config.endswith(path):
        damaged = changed(damaged, entry(path, None))
        top = zipfile.ZipFile(io.BytesIO(damaged)).namelist()[0].partition("/")[0]
        held = io.BytesIO(damaged)
        with zipfile.ZipFile(held, "a", zipfile.ZIP_STORED) as archive:
            archive.writestr(f"{top}/data/{kind}/{path}", out.getvalue())
        damaged = held.getvalue()
    file.write_bytes(damaged)
    with pytest.raises(ModelFileError, match="not trusted"):
        from_pt2(file, {"x_dim0": (1, 8)}, trust=False)
    assert not mark.exists()


RUNS = "__import__('pathlib').Path('mark').touch()"
SAID: dict[str, tuple[str, str]] = {
    "a size": (r'("expr_str": ")[^"]*', "is not a size"),
    "an operator": (r'("target": ")[^"]*', "is not an operator"),
    "the name of an input": (r'("name": ")x(?=")', "is not a name"),
    "the name of an argument": (r'("forward_arg_names": \[")[^"]*', "is not a name"),
}


@pytest.mark.parametrize("what", SAID)
def test_no_text_runs_that_is_not_trusted(
    what: str, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pattern, why = SAID[what]
    count = 0

    def change(name: str, data: bytes) -> tuple[str, bytes]:
        nonlocal count
        if not name.endswith("model.json"):
            return name, data
        text, count = re.subn(pattern, lambda m: m.group(1) + RUNS, data.decode())
        return name, text.encode()

    file = tmp_path / "net.pt2"
    file.write_bytes(changed(whole, change))
    assert count
    with pytest.raises(ModelFileError, match=f"not trusted, and .*{why}.*--trust"):
        from_pt2(file, {"x_dim0": (1, 8)}, trust=False)
    assert not (tmp_path / "mark").exists()


def test_names_of_arguments_in_a_tree_are_names(whole: bytes, tmp_path: Path) -> None:
    def change(name: str, data: bytes) -> tuple[str, bytes]:
        if not name.endswith("model.json"):
            return name, data
        program = json.loads(data)
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["in_spec"])
        spec[1]["children_spec"][1]["context"] = json.dumps([RUNS])
        signature["in_spec"] = json.dumps(spec)
        return name, json.dumps(program).encode()

    file = tmp_path / "net.pt2"
    file.write_bytes(changed(whole, change))
    with pytest.raises(ModelFileError, match="in its tree of inputs is not names"):
        from_pt2(file, {"x_dim0": (1, 8)}, trust=False)


@pytest.mark.parametrize("word", ["__enum__", "default_factory_module"])
def test_no_module_is_imported_that_a_tree_names(word: str, whole: bytes, tmp_path: Path) -> None:
    def change(name: str, data: bytes) -> tuple[str, bytes]:
        return name, data.replace(b"builtins.tuple", word.encode())

    file = tmp_path / "net.pt2"
    file.write_bytes(changed(whole, change))
    with pytest.raises(ModelFileError, match="names a class to import"):
        from_pt2(file, {"x_dim0": (1, 8)}, trust=False)
