"""Checkpoints that are not what they should be: refused when compiled and when opened."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from ctypes import c_void_p
from pathlib import Path
from typing import Any

import pytest
from c_interface import BAD_WEIGHTS, OK, Library
from minilm_reference import MODEL, write_small

from lumigen.cli import run

BIAS = "encoder.layer.1.output.dense.bias"
Header = dict[str, Any]


def renamed(header: Header) -> None:
    header["encoder.layer.1.output.dense.offset"] = header.pop(BIAS)


def misshapen(header: Header) -> None:
    header[BIAS]["shape"] = [*header[BIAS]["shape"], 1]


def retyped(header: Header) -> None:
    header[BIAS]["dtype"] = "I32"


def past_the_end(header: Header) -> None:
    header[BIAS]["data_offsets"][1] += 1 << 40


def of_another_size(header: Header) -> None:
    header[BIAS]["shape"] = [header[BIAS]["shape"][0] + 1]


def missing(header: Header) -> None:
    """Its bytes stay, under a name that nobody asks for."""
    header["zzz"] = header.pop(BIAS)


def nothing(_: Header) -> None:
    pass


def cut(by: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, path.stat().st_size - by)


def cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def claiming(length: int) -> Callable[[Path], None]:
    def claim(path: Path) -> None:
        with path.open("r+b") as file:
            file.write(length.to_bytes(8, "little"))

    return claim


def untouched(_: Path) -> None:
    pass


# What is wrong with the header and with the file; what `lumigen compile` and `minilm_model_open` say.
Lie = tuple[Callable[[Header], None], Callable[[Path], None], str, str]
LIES: dict[str, Lie] = {
    "missing": (
        missing,
        untouched,
        rf"has no tensor {BIAS}; the closest names are: encoder\.layer\.0\.output\.dense\.bias",
        rf"has no tensor {BIAS} \(f32\[384\]\)\. Pass the file that belongs to this model\.",
    ),
    "renamed": (
        renamed,
        untouched,
        rf"has no tensor {BIAS}; the closest names are: .*layer\.1\.output\.dense\.offset",
        rf"has no tensor {BIAS} \(f32\[384\]\)\.",
    ),
    "misshapen": (
        misshapen,
        untouched,
        rf"{BIAS} in .* is f32\[24, 1\], but the model declares f32\[24\]\.",
        rf"tensor {BIAS} is F32\[384, 1\], must be f32\[384\]\.",
    ),
    "of another type": (
        retyped,
        untouched,
        rf"{BIAS} in .* is i32\[24\], but the model declares f32\[24\]\.",
        rf"tensor {BIAS} is I32\[384\], must be f32\[384\]\.",
    ),
    "offsets past the end": (
        past_the_end,
        untouched,
        rf"{BIAS} is at \d+..\d+, outside the \d+ bytes of data",
        rf"tensor {BIAS} reaches past the end of the file, which may have been cut off",
    ),
    "a shape for other bytes": (
        of_another_size,
        untouched,
        rf"{BIAS} is F32\[25\] and 96 bytes long, which do not agree",
        rf"tensor {BIAS} has data_offsets that do not fit its shape",
    ),
    "last byte cut off": (
        nothing,
        cut(1),
        r"is at \d+..\d+, outside the \d+ bytes of data",
        r"reaches past the end of the file, which may have been cut off",
    ),
    "cut within the header": (
        nothing,
        cut_to(100),
        r"it claims a header of \d+ bytes, in a file of 100",
        r"its header reaches past the end; it is cut off or no safetensors file",
    ),
    "four bytes": (
        nothing,
        cut_to(4),
        "4 bytes are too few for a safetensors file",
        "it is shorter than any safetensors file",
    ),
    "a header of an exabyte": (
        nothing,
        claiming(1 << 60),
        r"it claims a header of 1152921504606846976 bytes, in a file of \d+",
        r"its header reaches past the end; it is cut off or no safetensors file",
    ),
    "a header that ends early": (
        nothing,
        claiming(3),
        "its JSON cannot be read: ",
        "the header is no valid JSON: a string does not end, at byte 3",
    ),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("name", LIES)
def test_compile_refuses(
    name: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lie, spoil, text, _ = LIES[name]
    shutil.copy(small / "config.json", tmp_path)
    spoil(damaged(small / "model.safetensors", tmp_path / "model.safetensors", lie))
    out = tmp_path / "out"
    command = ["compile", MODEL, "--weights", tmp_path, "-o", out, "--no-build"]
    assert run([*map(str, command)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    error = shown.err[shown.err.index("error: ") :]
    assert re.match(rf"error: \[weights\] .*{text}", error)
    assert len(error.splitlines()) <= 8
    assert "Traceback" not in shown.err
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", LIES)
def test_opening_refuses(name: str, library: Library, real: Path, tmp_path: Path) -> None:
    lie, spoil, _, text = LIES[name]
    path = damaged(real / "model.safetensors", tmp_path / "spoiled.safetensors", lie)
    spoil(path)
    model = c_void_p()
    assert library.open(path, model) == BAD_WEIGHTS
    assert re.match(
        rf"\[model_open\] weights file {re.escape(str(path))}:? .*{text}", library.last_error()
    )
    assert model.value is None
    path.unlink()


@pytest.mark.slow
def test_opening_refuses_what_is_no_file(library: Library, tmp_path: Path) -> None:
    model = c_void_p()
    for path, text in ((tmp_path / "none", "there is no such file"), (tmp_path, "no regular file")):
        assert library.open(path, model) == BAD_WEIGHTS
        assert text in library.last_error()
    assert model.value is None


@pytest.mark.slow
def test_the_undamaged_copy_opens(library: Library, real: Path, tmp_path: Path) -> None:
    """Or the tests above would prove nothing."""
    model = c_void_p()
    path = damaged(real / "model.safetensors", tmp_path / "zeros.safetensors")
    assert library.open(path, model) == OK
    library.handle.minilm_model_close(model)
    path.unlink()


def damaged(source: Path, target: Path, lie: Callable[[Header], None] = nothing) -> Path:
    """A copy with another header; the numbers are zeros, which take no room on the disk."""
    with source.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    lie(header)
    text = json.dumps(header).encode()
    target.write_bytes(len(text).to_bytes(8, "little") + text)
    with target.open("r+b") as file:
        file.truncate(8 + len(text) + source.stat().st_size - 8 - size)
    return target
