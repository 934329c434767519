"""Files of torch.save: state_dicts as torch wrote them; code is refused by name, and nothing is run."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lumigen as lg
from lumigen import errors
from lumigen.weights import open_weights


def saved(tmp_path: Path, value: Any, name: str = "w.pt") -> lg.Weights:
    torch.save(value, tmp_path / name)
    return open_weights(tmp_path / name)


def numpy(tensor: torch.Tensor) -> np.ndarray:
    return (
        tensor.detach().view(torch.int16).numpy()
        if tensor.dtype is torch.bfloat16
        else (tensor.detach().numpy())
    )


def same(weights: lg.Weights, expected: dict[str, torch.Tensor]) -> None:
    assert set(weights.names) == set(expected)
    for name, tensor in expected.items():
        got = weights[name]
        assert weights.shape(name) == tuple(tensor.shape) == got.shape
        assert not got.flags.writeable or not got.size
        bits = got.view(np.int16) if tensor.dtype is torch.bfloat16 else got
        assert bits.dtype == numpy(tensor).dtype
        np.testing.assert_array_equal(bits, numpy(tensor))


def test_a_state_dict(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    weights = saved(tmp_path, net.state_dict())
    same(weights, net.state_dict())
    assert weights.config == {"hidden_size": 4}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_dtype_and_protocol(tmp_path: Path, protocol: int) -> None:
    kinds = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")
    tensors = {k: (torch.arange(6) % 2).reshape(2, 3).to(getattr(torch, k)) for k in kinds}
    torch.save(tensors, tmp_path / "w.pt", pickle_protocol=protocol)
    weights = open_weights(tmp_path / "w.pt")
    same(weights, tensors)
    assert {k: str(weights.dtype(k)) for k in kinds} == {
        "float32": "f32",
        "float64": "f64",
        "float16": "f16",
        "bfloat16": "bf16",
        "int64": "i64",
        "int32": "i32",
        "int8": "i8",
        "uint8": "u8",
        "bool": "bool",
    }


def test_a_dtype_that_we_lack_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    given = {"a": torch.ones(2, dtype=torch.int16), "b": torch.ones(2, dtype=torch.float8_e4m3fn)}
    weights = saved(tmp_path, {**given, "c": torch.ones(1), "d": torch.ones(2, dtype=torch.uint32)})
    assert [n for n in weights if weights.has_supported_dtype(n)] == ["c"]
    assert weights.shape("b") == (2,)
    with pytest.raises(errors.BadWeightsFile, match="a is of type int16"):
        weights["a"]


def test_parts_of_storages(tmp_path: Path) -> None:
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    given = {
        "whole": x,
        "transposed": x.T,
        "part": x[1:3, 2:5],
        "steps": x[::2, ::3],
        "scalar": x[2, 1],
        "empty": x[:0],
        "row": x[3],
        "permuted": x.reshape(2, 2, 6).permute(2, 0, 1),
    }
    given |= {
        "expanded": torch.zeros(1).expand(5),
        "expanded rows": x[:1].expand(7, 6),
        "windows": torch.arange(9.0).unfold(0, 4, 2),
    }
    weights = saved(tmp_path, given)
    same(weights, given)
    assert weights["transposed"].base is not None


def test_what_is_noted_beside_tensors(tmp_path: Path) -> None:
    given = {
        "epoch": np.int64(3),
        "loss": np.float32(0.5),
        "milestones": collections.Counter([30, 60, 60]),
        "state": collections.defaultdict(dict, a={"w": torch.ones(2)}),
        "w": torch.ones(3),
    }
    torch.save(given, tmp_path / "w.pt")
    assert open_weights(tmp_path / "w.pt").names == ("state.a.w", "w")


@pytest.mark.parametrize("made", [lambda x: x, torch.nn.Parameter], ids=["tensor", "parameter"])
def test_what_torch_negates_when_it_reads_it_is_refused(made: Any, tmp_path: Path) -> None:
    """Its bytes are those of the tensor without the sign."""
    negated = torch._neg_view(torch.arange(4.0))
    with pytest.raises(
        lg.errors.BadWeightsFile, match=r"negates when .* Save tensor\.resolve_neg\(\)"
    ):
        saved(tmp_path, {"w": made(negated)})
    same(saved(tmp_path, {"w": negated.resolve_neg()}), {"w": -torch.arange(4.0)})


def test_tensors_are_mapped(tmp_path: Path) -> None:
    weights = saved(tmp_path, {"x": torch.zeros(1 << 18)})
    tracemalloc.start()
    assert weights["x"].size == 1 << 18
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_what_lies_in_dicts_and_lists(tmp_path: Path) -> None:
    a, b = torch.ones(2), torch.nn.Parameter(torch.zeros(3))
    given = {
        "epoch": 3,
        "state_dict": OrderedDict([("layer.weight", a), ("layer.bias", b)]),
        "optimizer": {"state": {0: {"exp_avg": a}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "list": [a, (b,)],
        "none": None,
        "shape": a.shape,
        "text": "grüße",
        "big": 1 << 200,
        "bytes": b"abc",
        "set": {1, 2},
        "dtype": torch.float16,
        "device": torch.device("cpu"),
    }
    expected = {
        "state_dict.layer.weight": a,
        "state_dict.layer.bias": b,
        "optimizer.state.0.exp_avg": a,
        "list.0": a,
        "list.1.0": b,
    }
    same(saved(tmp_path, given), expected)


def test_shards(tmp_path: Path) -> None:
    a, b = torch.ones(2), torch.zeros(3)
    torch.save({"a": a}, tmp_path / "pytorch_model-00001-of-00002.bin")
    torch.save({"b": b}, tmp_path / "pytorch_model-00002-of-00002.bin")
    rows = {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": rows}))
    same(open_weights(index), {"a": a, "b": b})
    same(open_weights(tmp_path), {"a": a, "b": b})


def test_a_directory(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    assert open_weights(tmp_path).names == ("a",)


# --- files that nobody means well with ------------------------------------------------------------


def repacked(
    file: Path, change: Callable[[str, bytes], bytes | None], compression: int = zipfile.ZIP_STORED
) -> Path:
    """The file of torch.save with members changed, or left out."""
    buffer = io.BytesIO()
    torch.save({"x": torch.arange(4, dtype=torch.float32)}, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(file, "w", compression) as new:
        for info in old.infolist():
            content = change(info.filename.partition("/")[2], old.read(info))
            if content is not None:
                new.writestr(info.filename, content)
    return file


def with_pickle(file: Path, content: bytes) -> Path:
    return repacked(file, lambda name, old: content if name == "data.pkl" else old)


class Hostile:
    def __init__(self, call: Callable[..., Any], *args: Any) -> None:
        self.call, self.args = call, args

    def __reduce__(self) -> Any:
        return self.call, self.args


@pytest.mark.parametrize(
    ("call", "args", "wanted"),
    [
        (os.system, ("touch ran",), "posix.system"),
        (eval, ("open('ran', 'w')",), "__builtin__.eval"),
        (getattr, ("x", "y"), "__builtin__.getattr"),
        (torch.load, ("x",), "torch.serialization.load"),
        (torch.nn.Linear, (2, 2), "torch.nn.modules.linear.Linear"),
        (Path, ("x",), "pathlib"),
        (np.ones, (3,), "numpy"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_code_is_refused_by_name(
    tmp_path: Path, monkeypatch: Any, call: Any, args: Any, wanted: str, inside: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = Hostile(call, *args)
    torch.save({"a": torch.ones(1), "b": hostile} if inside else hostile, "w.pt")
    with pytest.raises(errors.BadWeightsFile, match=wanted):
        open_weights("w.pt")
    assert not Path("ran").exists()


def test_a_whole_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.BadWeightsFile) as caught:
        saved(tmp_path, torch.nn.Linear(2, 2))
    said = str(caught.value)
    assert (
        "it holds a whole module or other object, of torch.nn.modules.linear.Linear, and no" in said
    )
    assert said.endswith("Save its weights alone: torch.save(model.state_dict(), path).")


def deep(levels: int) -> Any:
    found: Any = torch.ones(1)
    for _ in range(levels):
        found = {"a": found}
    return found


def bomb() -> Any:
    found: Any = torch.ones(1)
    for _ in range(30):
        found = {"a": found, "b": found}
    return found


def endless() -> Any:
    found: dict[str, Any] = {"a": torch.ones(1)}
    found["self"] = found
    return found


def tuples() -> bytes:
    """A tuple of itself twice, 60 times over, as the key of a dict: hashing it would not end."""
    return b"\x80\x02})" + b"q\0h\0\x86" * 60 + b"K\1s."


PROTO = b"\x80\x02"
X = b"X\x01\0\0\0x"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0%bX\x03\0\0\0cpuJ%btQ"


def tensor(
    count: int = 4,
    key: bytes = b"0",
    offset: bytes = b"K\0",
    shape: bytes = b"K\4\x85",
    strides: bytes = b"K\1\x85",
) -> bytes:
    storage = STORAGE % (key, struct.pack("<i", count))
    rest = b"(" + storage + offset + shape + strides + b"\x89ccollections\nOrderedDict\n)RtR"
    return PROTO + b"}" + X + TENSOR + rest + b"s."


LARGE = b"\x8a\x08" + struct.pack("<q", 1 << 62)
PICKLES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ends early"),
    "no opcode": (PROTO + b"\xff", "opcode b'\\xff'"),
    "nothing to stop with": (PROTO + b".", "takes a value where there is none"),
    "a mark to stop with": (PROTO + b"(.", "takes a value"),
    "a list": (PROTO + b"].", "no dict of tensors"),
    "one tensor": (tensor()[:2] + tensor()[9:-2] + b".", "one tensor without a name"),
    "long text": (PROTO + b"X" + struct.pack("<I", 2**32 - 1) + b"a", "ends early"),
    "longer text": (PROTO + b"\x8d" + struct.pack("<Q", 2**63) + b"a", "ends early"),
    "long bytes": (PROTO + b"\x8e" + struct.pack("<Q", 2**62), "ends early"),
    "text not UTF-8": (PROTO + b"X\x02\0\0\0\xc3(.", "not UTF-8"),
    "a name without end": (PROTO + b"cos", "line without end"),
    "a number of 7,000 digits": (
        PROTO + b"}" + X + b"\x8b\x88\x13\0\0" + b"\x7f" * 5000 + b"s.",
        "an integer of 5000 bytes",
    ),
    "negative number": (PROTO + b"\x8b\xff\xff\xff\xff}.", "ends early"),
    "remembers nothing": (PROTO + b"r\xff\xff\xff\xff.", "remembers a value where"),
    "recalls nothing": (PROTO + b"j\xff\xff\xff\xff.", "recalls value 4294967295"),
    "no mark": (PROTO + b"}u.", "since a mark"),
    "key without value": (PROTO + b"}(" + X + b"u.", "key without a value"),
    "adds to nothing": (PROTO + b"K\1K\2a.", "no list"),
    "calls a number": (PROTO + b"K\1)R.", "calls what is no name"),
    "calls with a number": (PROTO + b"ctorch\nSize\nK\1R.", "calls what is no name"),
    "calls wrongly": (PROTO + TENSOR + b")R.", "calls torch._utils._rebuild_tensor_v2 wrongly"),
    "size of a number": (PROTO + b"ctorch\nSize\nK\1\x85R.", "calls torch.Size wrongly"),
    "state of code": (PROTO + b"ctorch\nSize\n}b.", "sets the state"),
    "a storage of nothing": (PROTO + b"K\1Q.", "for a storage"),
    "a storage that is not there": (tensor(key=b"7"), "storage 7 is not in the archive"),
    "a storage that is too long": (tensor(count=5), "claims 5 x float32, in 16 bytes"),
    "a negative storage": (tensor(count=-1), "claims -1"),
    "too many elements": (tensor(shape=b"K\5\x85"), "in a storage of 16 bytes"),
    "an offset beyond": (tensor(offset=b"K\1"), "from element 1"),
    "a huge offset": (tensor(offset=LARGE), "from element"),
    "a negative offset": (tensor(offset=b"J\xff\xff\xff\xff"), "wrongly (no place)"),
    "a huge shape": (tensor(shape=LARGE + LARGE + b"\x86", strides=b"K\0K\0\x86"), "in a storage"),
    "strides beyond": (tensor(strides=b"K\2\x85"), "strides [2]"),
    "huge strides": (tensor(strides=LARGE + b"\x85"), "strides"),
    "negative strides": (tensor(strides=b"J\xff\xff\xff\xff\x85"), "wrongly (no sizes)"),
    "other axes": (tensor(strides=b")"), "wrongly (no place)"),
    "a shape of texts": (tensor(shape=X + b"\x85"), "wrongly (no sizes)"),
    "type of a tensor in itself": (
        PROTO + b"(ctorch._tensor\n_rebuild_from_type_v2\nq\0h\0Nh\0NttR.",
        "",
    ),
    "tuples": (tuples(), ""),
}


def refused(file: Path, wanted: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(errors.BadWeightsFile) as caught:
            open_weights(file)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    text = str(caught.value)
    assert any(w in text for w in wanted.split("|"))
    assert file.name in text
    assert len(text) < 700
    assert peak < 3_000_000


@pytest.mark.parametrize("name", PICKLES)
def test_bad_pickles(name: str, tmp_path: Path) -> None:
    content, wanted = PICKLES[name]
    file = with_pickle(tmp_path / "w.pt", content)
    if name == "tuples":
        assert open_weights(file).names == ()  # it ends, and no tensor is called by a tuple
    else:
        refused(file, wanted)


def test_a_good_pickle_by_hand(tmp_path: Path) -> None:
    weights = open_weights(with_pickle(tmp_path / "w.pt", tensor()))
    np.testing.assert_array_equal(weights["x"], np.arange(4))


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: deep(100), "nests more than 32"),
        (bomb, "repeats itself"),
        (endless, "nests more than 32|repeats itself"),
        (lambda: {"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, "holds a.b twice"),
    ],
)
def test_dicts_that_do_not_end(tmp_path: Path, make: Any, wanted: str) -> None:
    torch.save(make(), tmp_path / "w.pt")
    refused(tmp_path / "w.pt", wanted)


def twice(file: Path) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a/data.pkl", b"")
    return file


def members(file: Path, *names: str, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name in names:
            archive.writestr(name, b"")
    return file


ARCHIVES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "big-endian": (
        lambda f: repacked(f, lambda n, old: b"big" if n == "byteorder" else old),
        "order b'big'",
    ),
    "no storage": (
        lambda f: repacked(f, lambda n, old: None if n == "data/0" else old),
        "storage 0 is",
    ),
    "short storage": (
        lambda f: repacked(f, lambda n, old: old[:-1] if n == "data/0" else old),
        "in 15 bytes",
    ),
    "compressed": (
        lambda f: repacked(f, lambda n, old: old, zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "a member twice": (twice, "twice"),
    "two pickles": (lambda f: members(f, "a/data.pkl", "b/data.pkl"), "2 pickles"),
    "TorchScript": (
        lambda f: members(f, "a/data.pkl", "a/constants.pkl", compression=zipfile.ZIP_DEFLATED),
        "TorchScript",
    ),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_bad_archives(name: str, tmp_path: Path) -> None:
    make, wanted = ARCHIVES[name]
    refused(make(tmp_path / "w.pt"), wanted)


def test_a_file_of_before(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    refused(tmp_path / "w.pt", "before 1.6")


def test_a_bare_pickle(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(pickle.dumps({"a": 1}))
    refused(tmp_path / "w.bin", "none of safetensors")


def test_truncation_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "w.pt"
    torch.save({"x": torch.arange(4)}, file)
    content = file.read_bytes()
    for end in range(len(content)):
        file.write_bytes(content[:end])
        with pytest.raises(errors.BadWeightsFile):
            open_weights(file)
    file.write_bytes(content[:-30])
    refused(file, "truncated: it has no list of contents, with which every file of PyTorch ends")


CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 255), st.integers(0, 3)), min_size=1, max_size=4
)


def mutated(tmp_path_factory: Any, changes: list[tuple[float, int, int]], in_pickle: bool) -> None:
    def change(content: bytes) -> bytes:
        out = bytearray(content)
        for place, byte, how in changes:
            at = int(place * (len(out) - 1)) if out else 0
            if how == 0 and out:
                out[at] = byte
            elif how == 1 and out:
                out[at] ^= 1 << byte % 8
            elif how == 2:
                del out[at : at + byte % 9]
            else:
                out[at:at] = bytes([byte]) * (byte % 9)
        return bytes(out)

    file = tmp_path_factory.getbasetemp() / "mutated.pt"
    if in_pickle:
        repacked(file, lambda name, old: change(old) if name == "data.pkl" else old)
    else:
        repacked(file, lambda name, old: old)
        file.write_bytes(change(file.read_bytes()))
    try:
        weights = open_weights(file)
        for name in weights:
            if weights.has_supported_dtype(name):
                assert weights[name].nbytes <= file.stat().st_size
    except errors.BadWeightsFile:
        pass


@given(CHANGES, st.booleans())
def test_changed_bytes_are_read_or_refused(
    tmp_path_factory: Any, changes: list[tuple[float, int, int]], in_pickle: bool
) -> None:
    mutated(tmp_path_factory, changes, in_pickle)


@pytest.mark.slow
@settings(max_examples=2000)
@given(CHANGES, st.booleans())
def test_many_changed_bytes(
    tmp_path_factory: Any, changes: list[tuple[float, int, int]], in_pickle: bool
) -> None:
    mutated(tmp_path_factory, changes, in_pickle)
