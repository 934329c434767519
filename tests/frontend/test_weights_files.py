"""Weights files: good ones of every kind, and bad ones: truncated, lying, overlapping, absurd."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import errors
from lumigen.weights import open_weights

TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.array([1.5, -2.0], np.float16),
    "ids": np.array([[1], [2]], np.int64),
    "flags": np.array([True, False, True]),
    "scalar": np.array(3.0, np.float64),
    "empty": np.zeros((0, 4), np.float32),
    "small": np.array([1, 255], np.uint8),
}


def pack(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_safetensors(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file(TENSORS, file, {"note": "x"})
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    weights = open_weights(file)
    assert weights.names == tuple(sorted(TENSORS))
    assert weights.config == {"hidden_size": 4}
    assert weights.metadata == {"note": "x"}
    assert "half" in weights
    assert len(weights) == len(TENSORS)
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(weights[name], array)
        assert weights[name].dtype == array.dtype
        assert weights.shape(name) == array.shape
        assert not weights[name].flags.writeable or not array.size
    assert weights.dtype("half") is lg.f16


def test_bfloat16(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5], ml_dtypes.bfloat16)
    row = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    (tmp_path / "w.safetensors").write_bytes(pack({"x": row}, values.tobytes()))
    weights = open_weights(tmp_path / "w.safetensors")
    assert weights.dtype("x") is lg.bf16
    np.testing.assert_array_equal(weights["x"], values)


def test_shards_and_directories(tmp_path: Path) -> None:
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "one.safetensors")
    save_file({"b": np.zeros(3, np.float32), "unlisted": np.ones(1)}, tmp_path / "two.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        weights = open_weights(path)
        assert weights.names == ("a", "b")
        assert weights["b"].shape == (3,)
    with pytest.raises(errors.UnknownWeight, match="a"):
        weights["aa"]


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **TENSORS)
    weights = open_weights(tmp_path / "w.npz")
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(weights[name], array)


def test_arrays_by_columns(tmp_path: Path) -> None:
    given = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    flat = np.arange(3.0)
    np.savez(
        tmp_path / "w.npz", a=np.asfortranarray(given), b=given[0].T, c=np.asfortranarray(flat)
    )
    weights = open_weights(tmp_path / "w.npz")
    for name, array in {"a": given, "b": given[0].T, "c": flat}.items():
        np.testing.assert_array_equal(weights[name], array)


def test_what_is_not_read_may_be_of_any_type_of_the_format(tmp_path: Path) -> None:
    rows = {
        "__metadata__": None,
        "w": entry(),
        "four": entry("F4", (3, 2), (8, 11)),
        "six": entry("F6_E2M3", (4,), (11, 14)),
    }
    (tmp_path / "w.safetensors").write_bytes(pack(rows, bytes(14)))
    weights = open_weights(tmp_path / "w.safetensors")
    np.testing.assert_array_equal(weights["w"], [0, 0])
    assert weights.shape("four") == (3, 2)
    with pytest.raises(errors.BadWeightsFile, match="four is of type F4, which is not supported"):
        weights["four"]
    rows["four"] = entry("F4", (3,), (8, 11))
    (tmp_path / "w.safetensors").write_bytes(pack(rows, bytes(14)))
    with pytest.raises(errors.BadWeightsFile, match="do not agree"):
        open_weights(tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("hidden_size", [64], r"its hidden_size is \[64\], where this model reads an integer of"),
        ("hidden_size", 0, "its hidden_size is 0, where"),
        ("hidden_size", True, "its hidden_size is True, where"),
        ("hidden_size", None, "it has no hidden_size, which this model reads"),
        ("rms_norm_eps", "1e-6", "its rms_norm_eps is 1e-6, where this model reads a number"),
        ("rms_norm_eps", float("nan"), "its rms_norm_eps is nan, where"),
        ("rope_scaling", {"factor": [4]}, r"its rope_scaling.factor is \[4\], where"),
    ],
)
def test_a_value_of_a_configuration_that_cannot_be(
    tmp_path: Path, key: str, value: object, says: str
) -> None:
    save_file({"w": np.zeros(2, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({key: value}))
    with pytest.raises(errors.BadWeightsFile, match=rf"config\.json cannot be used: {says}"):
        open_weights(tmp_path).config_for("llama")["hidden_size"]


def test_null_in_a_configuration_is_left_out(tmp_path: Path) -> None:
    save_file({"w": np.zeros(2, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"rope_theta": null, "num_key_value_heads": null}')
    config = open_weights(tmp_path).config_for("llama")
    assert config.get("rope_theta", 10000.0) == 10000.0
    assert config.setdefault("num_key_value_heads", 4) == config["num_key_value_heads"] == 4


def entry(dtype: Any = "F32", shape: Any = (2,), span: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": span}


def two(span: list[int]) -> dict[str, Any]:
    return {"x": entry(), "y": entry(span=span)}


EIGHT = bytes(8)
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "0 bytes"),
    "too short": (b"\0" * 7, "7 bytes"),
    "no header": (b"\0" * 8, "JSON"),
    "header beyond the file": (pack({}, length=100), "claims a header of 100"),
    "header of 2^64 - 1": (pack({}, length=2**64 - 1), "claims a header"),
    "a text": (b"import lumigen as lg\n", "it is no safetensors file"),
    "no JSON": (pack(b"{oops"), "JSON"),
    "no text": (pack(b'{"\xff\xfe": 1}'), "JSON"),
    "a list": (pack([]), "not an object"),
    "deep": (pack(b"[" * 100_000), "JSON"),
    "a number of many digits": (pack(b'{"x": ' + b"9" * 10_000 + b"}"), "JSON"),
    "a space in front": (pack(b' {"__metadata__": {}}'), "begins at once"),
    "half a character": (pack(b'{"\\ud800": 1}'), "half a character"),
    "half a character in metadata": (
        pack(b'{"__metadata__": {"a": "\\udfff"}}'),
        "half a character",
    ),
    "twice": (pack(b'{"x": 1, "x": 2}'), "twice"),
    "metadata": (pack({"__metadata__": 3}), "metadata"),
    "metadata of numbers": (pack({"__metadata__": {"a": 3}}), "metadata"),
    "no entry": (pack({"x": 3}), "not an object"),
    "no dtype": (pack({"x": {"shape": [1], "data_offsets": [0, 4]}}), "unknown type"),
    "unknown dtype": (pack({"x": entry("F31")}, EIGHT), "F31"),
    "dtype of another kind": (pack({"x": entry(["F32"])}, EIGHT), "unknown type"),
    "shape": (pack({"x": entry(shape=3)}, EIGHT), "shape"),
    "negative size": (pack({"x": entry(shape=[-2])}, EIGHT), "shape"),
    "true as a size": (pack({"x": entry(shape=[True, 2])}, EIGHT), "shape"),
    "a fraction as a size": (pack({"x": entry(shape=[2.0])}, EIGHT), "shape"),
    "many axes": (pack({"x": entry(shape=[1] * 1000 + [2])}, EIGHT), "shape"),
    "no offsets": (pack({"x": {"dtype": "F32", "shape": [2]}}, EIGHT), "offsets"),
    "three offsets": (pack({"x": entry(span=[0, 8, 8])}, EIGHT), "offsets"),
    "negative offset": (pack({"x": entry(span=[-8, 0])}, EIGHT), "offsets"),
    "backwards": (pack({"x": entry(span=[8, 0])}, EIGHT), "outside"),
    "beyond the end": (pack({"x": entry(span=[0, 8])}, bytes(7)), "outside"),
    "size and offsets": (pack({"x": entry(shape=[3])}, EIGHT), "do not agree"),
    "absurd size": (pack({"x": entry(shape=[2**40, 2**40])}, EIGHT), "do not agree"),
    "product that wraps": (pack({"x": entry(shape=[2**62, 4])}, EIGHT), "do not agree"),
    "overlap": (pack(two([4, 12]), bytes(12)), "overlaps"),
    "same bytes": (pack(two([0, 8]), EIGHT), "overlaps"),
    "gap": (pack(two([12, 20]), bytes(20)), "belong to no tensor"),
    "rest": (pack({"x": entry()}, bytes(9)), "belong to no tensor"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_safetensors(name: str, tmp_path: Path) -> None:
    content, wanted = BAD[name]
    file = tmp_path / "w.safetensors"
    file.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(errors.BadWeightsFile) as caught:
        open_weights(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wanted in str(caught.value)
    assert "w.safetensors" in str(caught.value)
    assert len(str(caught.value)) < 600
    assert peak < 10_000_000


def test_truncation_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file(TENSORS, file)
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        with pytest.raises(errors.BadWeightsFile):
            open_weights(file)


GOOD = pack({"x": entry(), "y": entry("I8", [3], [8, 11])}, bytes(11))


@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "changed.safetensors"
    file.write_bytes(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])
    try:
        weights = open_weights(file)
        for name in weights:
            if weights.has_supported_dtype(name):
                assert weights[name].nbytes <= len(GOOD)
    except errors.BadWeightsFile:
        pass


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255), st.booleans()), min_size=1, max_size=3)
)
def test_a_changed_npz_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, int, bool]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "changed.npz"
    np.savez(file, a=np.ones((2, 3)), b=np.arange(4))
    content = bytearray(file.read_bytes())
    for place, byte, is_new in changes:
        at = int(place * (len(content) - 1))
        content[at : at + (not is_new)] = bytes([byte])
    file.write_bytes(content)
    try:
        weights = open_weights(file)
        for name in weights:
            if weights.has_supported_dtype(name):
                assert weights[name].nbytes <= len(content)
    except errors.BadWeightsFile:
        pass


def test_arrays_of_npz_are_mapped(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", a=np.zeros(1 << 18, np.uint8))
    weights = open_weights(tmp_path / "w.npz")
    tracemalloc.start()
    assert weights["a"].size == 1 << 18
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert not weights["a"].flags.writeable


def test_truth_values_are_zero_or_one(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(pack({"x": entry("BOOL", [2], [0, 2])}, b"\0\2"))
    with pytest.raises(errors.BadWeightsFile, match="BOOL"):
        open_weights(tmp_path / "w.safetensors")["x"]


def test_a_dtype_that_we_lack_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(pack({"x": entry("U16", [2], [0, 4])}, bytes(4)))
    weights = open_weights(tmp_path / "w.safetensors")
    assert weights.shape("x") == (2,)
    assert not weights.has_supported_dtype("x")
    with pytest.raises(errors.BadWeightsFile, match="U16"):
        weights.dtype("x")
    with pytest.raises(errors.BadWeightsFile, match="U16"):
        weights["x"]


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file(TENSORS, file)
    weights = open_weights(file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(errors.BadWeightsFile, match="shorter"):
        weights["a.weight"]


def _index(**rows: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "model.safetensors.index.json").write_text(json.dumps(rows))
        save_file({"a": np.ones(1)}, folder / "one.safetensors")
        return folder

    return write


def _npz(
    name: str, content: bytes, compression: int = zipfile.ZIP_STORED
) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "w.npz", "w", compression) as archive:
            archive.writestr(name, content)
        return folder / "w.npz"

    return write


def _text(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def _npy(shape: str, data: bytes = b"", dtype: str = "<f4", fortran: bool = False) -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _config(folder: Path) -> Path:
    (folder / "config.json").write_text("{")
    save_file({"a": np.ones(1)}, folder / "model.safetensors")
    return folder


def _circle(folder: Path) -> Path:
    (folder / "w.pt").symlink_to(folder / "w.pt")
    return folder / "w.pt"


OTHERS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nothing": (lambda f: f / "none.safetensors", "no such file"),
    "no regular file": (lambda _: Path("/dev/null"), "it is no regular file. Name a file of"),
    "empty directory": (lambda f: f, "holds no model.safetensors"),
    "no map": (_index(x=1), "weight_map"),
    "map to elsewhere": (
        _index(weight_map={"a": "../one.safetensors"}),
        "not a file in the same directory",
    ),
    "map to a number": (_index(weight_map={"a": 3}), "not a file in the same directory"),
    "missing shard": (_index(weight_map={"a": "two.safetensors"}), "missing"),
    "a shard with a long name": (_index(weight_map={"a": "x" * 300}), "file name too long"),
    "a long name": (lambda f: f / ("x" * 300), "file name too long"),
    "a circle of links": (_circle, "there is no such file"),
    "a map of much depth": (
        _text("model.safetensors.index.json", b'{"weight_map":' * 3000),
        "its JSON cannot be read",
    ),
    "not in the shard": (_index(weight_map={"b": "one.safetensors"}), "does not hold b"),
    "bad config": (_config, "config.json"),
    "no zip": (_text("w.npz", b"PK\x03\x04 nonsense"), "it is truncated"),
    "no magic": (_text("w.npz", b"PK nonsense"), "none of safetensors"),
    "no npy": (_npz("a.npy", b"hello"), "no npz"),
    "compressed": (_npz("a.npy", _npy("(2,)", EIGHT), zipfile.ZIP_DEFLATED), "compressed"),
    "lying npy": (_npz("a.npy", _npy("(1000000000000,)", EIGHT)), "8 bytes long"),
    "objects": (_npz("a.npy", _npy("(1,)", EIGHT, "|O")), "type object"),
    "unfinished": (_npz("a.npy", _npy("(1,", EIGHT)), "no npz"),
    "fields": (_npz("a.npy", _npy("(1,)", EIGHT).replace(b"'<f4'", b"[('a', '<f4')]")), "fields"),
    "a long header": (_npz("a.npy", b"\x93NUMPY\x02\x00" + b"\xff" * 4), "claims 4294967295 bytes"),
    "negative": (_npz("a.npy", _npy("(-1,)", EIGHT)), "not a list of sizes"),
    "truth as a size": (_npz("a.npy", _npy("(True,)", EIGHT)), "not a list of sizes"),
    "code": (_npz("a.npy", _npy("__import__('os')", EIGHT)), "no npz"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_bad_files(name: str, tmp_path: Path) -> None:
    write, wanted = OTHERS[name]
    path = write(tmp_path)
    with pytest.raises(errors.BadWeightsFile) as caught:
        read_all(path)
    assert wanted in str(caught.value)


def read_all(path: Path) -> list[np.ndarray]:
    weights = open_weights(path)
    return [weights[name] for name in weights]
