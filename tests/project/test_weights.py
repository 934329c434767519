"""Weights files: what is written, and what becomes of files that lie."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import models
import numpy as np
import pytest
import safetensors.numpy

from lumigen.dtype import bf16, f16, f32
from lumigen.emit.weights_file import data_hash, pack, write_weights
from lumigen.errors import BadWeightsFile, UnknownWeight, WeightMismatch
from lumigen.program import Panels, Stored, WeightInfo
from lumigen.resources import runtime_dir
from lumigen.weights import open_weights, rounded

Header = dict[str, object]


def split(data: bytes) -> tuple[Header, bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join(header: object, data: bytes) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture(scope="module")
def original(project) -> bytes:
    return (project / "original.safetensors").read_bytes()


@pytest.fixture(scope="module")
def packed(project) -> bytes:
    return (project / "weights" / "tiny.safetensors").read_bytes()


def test_packing_follows_the_formula():
    rng = np.random.default_rng(0)
    for n, k, width, by_row in [(20, 7, 16, True), (16, 3, 16, False), (5, 4, 8, True)]:
        w = rng.normal(size=(n, k) if by_row else (k, n)).astype(np.float32)
        layout = Panels(n, k, k if by_row else 1, 1 if by_row else n, width)
        out = pack(w, layout)
        assert out.size == layout.elements
        for i in range(-(-n // width) * width):
            for j in range(k):
                want = 0 if i >= n else (w[i, j] if by_row else w[j, i])
                assert out[(i // width * k + j) * width + i % width] == want
        pairs = pack(w, replace(layout, side=2)).reshape(-1, 16, width, 2)  # 16 pairs of k
        for (panel, pair, column, side), got in np.ndenumerate(pairs):
            i, j = panel * width + column, 2 * pair + side
            assert got == (0 if i >= n or j >= k else w[i, j] if by_row else w[j, i])


def test_a_packed_file_opens_elsewhere_and_is_aligned(project, packed, arrays):
    loaded = safetensors.numpy.load_file(project / "weights" / "tiny.safetensors")
    np.testing.assert_array_equal(loaded["table"], arrays["table"])
    header, data = split(packed)
    assert (len(packed) - len(data)) % 64 == 0
    entry = header["proj.weight"]
    assert entry["dtype"] == "U8"
    assert entry["data_offsets"][0] % 64 == 0
    layout = "f32[20, 7] panels n=20 k=7 n_stride=7 k_stride=1 width=16"
    assert header["__metadata__"]["lumigen.layout.proj.weight"] == layout
    assert (
        header["__metadata__"]["lumigen.hash"]
        == f"{data_hash([np.frombuffer(data, np.uint8)]):016x}"
    )


def test_writing_twice_gives_the_same_bytes(tmp_path, arrays, packed):
    write_weights(models.tiny(), dict(reversed(arrays.items())), tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == packed
    assert [p.name for p in tmp_path.iterdir()] == ["w"]


def test_a_weight_in_two_forms_has_two_tensors(tmp_path, arrays):
    model = models.tiny()
    plain = Stored(
        "plain",
        WeightInfo("proj.weight", (models.OUT, models.IN), model.weights[0].weight.dtype),
        None,
    )
    write_weights(replace(model, weights=(*model.weights, plain)), arrays, tmp_path / "w")
    loaded = safetensors.numpy.load_file(tmp_path / "w")
    np.testing.assert_array_equal(loaded["proj.weight"], arrays["proj.weight"])
    assert loaded["proj.weight#proj_weight"].dtype == np.uint8


def test_two_byte_weights(tmp_path):
    w = np.arange(12).reshape(4, 3).astype(ml_dtypes.bfloat16)
    stored = Stored("w", WeightInfo("w", (4, 3), bf16), Panels(4, 3, 3, 1))
    model = replace(models.tiny(), weights=(stored,))
    write_weights(model, {"w": w}, tmp_path / "w")
    assert safetensors.numpy.load_file(tmp_path / "w")["w"].size == 128  # 96 bytes, padded


@pytest.mark.slow
def test_floats_are_converted_where_others_are_read(tmp_path):
    """To the same bits when the file is written and when the runtime opens the original."""
    rng = np.random.default_rng(0)
    bits = rng.integers(
        0, 1 << 32, 19 * 37, dtype=np.uint32
    )  # denormals, infinities and NaN among them
    ties = (rng.integers(0, 1 << 16, 19 * 37, dtype=np.uint32) << 16) | 0x8000
    near_one = rng.normal(size=19 * 37).astype(np.float32)
    halves = near_one.astype(np.float16).astype(np.float32) + np.float32(2**-12)
    special = np.array(
        [65520, 65519.99, -65520, 2**-25, 2**-25 * 1.0001, np.inf, -0.0, np.nan], "f4"
    )
    w = np.concatenate([bits.view("f4"), ties.view("f4"), near_one, halves, special])
    w = np.resize(w, (80, 37)).astype(np.float32)
    program = tmp_path / "converted"
    sources = [str(runtime_dir() / f"{name}.cpp") for name in ("weights", "safetensors", "json")]
    sources += [str(runtime_dir() / f"{name}.cpp") for name in ("file_map", "status", "utf8")]
    sources += [str(runtime_dir() / "cpu" / f"{name}.cpp") for name in ("host_weights", "memory")]
    folders = [f"-I{folder}" for folder in (runtime_dir(), runtime_dir() / "cpu")]
    command = ["c++", "-std=c++17", "-DLUMIGEN_NS=rt", *folders, "-Wall", "-Wextra"]
    test = Path(__file__).parent / "native" / "converted_weights_test.cpp"
    subprocess.run([*command, "-Werror", str(test), *sources, "-o", str(program)], check=True)
    for held in (f32, f16, bf16):
        with np.errstate(over="ignore", invalid="ignore"):
            original = w.astype(held.numpy)
        for dtype in (f32, bf16, f16):
            if dtype is f16:  # refuses what is too great for it
                original = np.where(np.isinf(rounded(original, f16)), np.inf, original).astype(
                    held.numpy
                )
            safetensors.numpy.save_file({"w": original}, tmp_path / "original")
            command = [program, tmp_path / "original", "80", "37", dtype.name.upper()]
            found = subprocess.run(command, check=True, capture_output=True).stdout
            layout = Panels(80, 37, 37, 1, side=2 if dtype is bf16 else 1)
            numbers = np.frombuffer(found, f"u{dtype.itemsize}")
            count = original.size + layout.elements
            as_it_is, panels = numbers[: original.size], numbers[original.size :]
            assert numbers.size == count
            forms = (Stored("w", WeightInfo("w", w.shape, dtype), None),)
            write_weights(replace(models.tiny(), weights=forms), {"w": original}, tmp_path / "w")
            written = safetensors.numpy.load_file(tmp_path / "w")["w"]
            assert written.dtype == np.dtype(dtype.numpy)
            wanted = written.view(as_it_is.dtype).reshape(-1)
            is_nan = np.isnan(written.astype(np.float32)).reshape(-1)
            for got, want, nan in (
                (as_it_is, wanted, is_nan),
                (panels, pack(wanted, layout), pack(is_nan, layout)),
            ):
                np.testing.assert_array_equal(got[~nan], want[~nan])
                assert np.isnan(got[nan].view(dtype.numpy).astype(np.float32)).all()

    for greatest, shown in ((65520.0, "65520"), (1e30, "1e+30")):
        safetensors.numpy.save_file(
            {"w": np.full((80, 37), -greatest, np.float32)}, tmp_path / "original"
        )
        command = [program, tmp_path / "original", "80", "37", "F16"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr == (
            f"[test] weight w has {shown}, but the greatest number of f16, in which this model holds it, is "
            "65504. Compile the model with --dtype bf16 or --dtype f32, or scale the weight."
        )


def test_wrong_arrays_are_refused(tmp_path, arrays):
    with pytest.raises(UnknownWeight, match=r"proj\.weight"):
        write_weights(
            models.tiny(), {"scale": arrays["scale"], "shift": arrays["shift"]}, tmp_path / "w"
        )
    with pytest.raises(WeightMismatch, match=r"f64\[7\].*f32\[7\]"):
        write_weights(
            models.tiny(), {**arrays, "scale": arrays["scale"].astype("f8")}, tmp_path / "w"
        )
    with pytest.raises(WeightMismatch):
        write_weights(models.tiny(), {**arrays, "scale": arrays["scale"][:3]}, tmp_path / "w")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 8 << 20, (8 << 20) + 5])
def test_the_hash_is_the_runtimes(tiny, tmp_path, original, size):
    header, data = split(original)
    filler = np.arange(size, dtype=np.uint8)
    whole = np.concatenate([np.frombuffer(data, np.uint8), filler])
    header["filler"] = {
        "dtype": "U8",
        "shape": [size],
        "data_offsets": [len(data), len(data) + size],
    }
    header["__metadata__"] = {"lumigen.hash": f"{data_hash([whole]):016x}"}
    path = tmp_path / "w.safetensors"
    path.write_bytes(join(header, whole.tobytes()))
    tiny.verify_weights(path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(tiny.Error, match="is damaged"):
        tiny.verify_weights(path)


def test_verify_checks_the_structure_of_a_file_without_a_hash(tiny, project, tmp_path, original):
    tiny.verify_weights(project / "original.safetensors")
    tiny.verify_weights(project / "weights" / "tiny.safetensors")
    (tmp_path / "cut").write_bytes(original[:-1])
    with pytest.raises(tiny.Error, match="cut off"):
        tiny.verify_weights(tmp_path / "cut")


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"GGUF\x03\0\0\0" + bytes(64), "it is a GGUF file, and must be a safetensors file. Save"),
        (
            b"PK\x03\x04\0\0\x08\x08" + bytes(64),
            "it is a zip archive, as torch.save and numpy.savez",
        ),
    ],
)
def test_files_of_other_formats_are_told(tiny, tmp_path, begin, said):
    (tmp_path / "w").write_bytes(begin)
    with pytest.raises(tiny.Error, match=said):
        tiny.Model(tmp_path / "w")


def test_a_file_without_a_hash_is_verified_without_its_values(tiny, tmp_path, original):
    (tmp_path / "w").write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    tiny.verify_weights(tmp_path / "w")
    assert "has no hash" in tiny.verify_weights.__doc__


def change(key: str, **fields: object) -> Callable[[Header, bytes], bytes]:
    def apply(header: Header, data: bytes) -> bytes:
        return join({**header, key: {**header[key], **fields}}, data)

    return apply


def without(key: str) -> Callable[[Header, bytes], bytes]:
    return lambda header, data: join({k: v for k, v in header.items() if k != key}, data)


def replaced(old: str, new: str) -> Callable[[Header, bytes], bytes]:
    return lambda header, data: join(json.dumps(header).replace(old, new, 1), data)


LIES: dict[str, tuple[Callable[[Header, bytes], bytes], str]] = {
    "missing": (replaced('"shift"', '"shirt"'), r"has no tensor shift \(f32\[7\]\)"),
    "shape": (change("scale", shape=[7, 1]), r"scale is F32\[7, 1\], must be f32\[7\]"),
    "dtype": (change("scale", dtype="I32"), r"scale is I32\[7\], must be f32\[7\]"),
    "unknown dtype": (change("scale", dtype="F7"), "dtype that the format does not know"),
    "past the end": (change("scale", data_offsets=[0, 1 << 40]), "reaches past the end"),
    "backwards": (change("scale", data_offsets=[28, 0]), "reaches past the end"),
    "size": (change("scale", data_offsets=[0, 24]), "do not fit its shape"),
    "three offsets": (change("scale", data_offsets=[0, 28, 56]), "more than two"),
    "one offset": (change("scale", data_offsets=[0]), "lacks dtype, shape or data_offsets"),
    "no shape": (replaced('"shape"', '"shapes"'), "lacks dtype, shape or data_offsets"),
    "negative": (change("scale", shape=[-7]), "a whole number is expected"),
    "fraction": (change("scale", shape=[7.0]), "a whole number is expected"),
    "gap": (without("scale"), "bytes that belong|bytes at its end belong to no tensor"),
    "rest": (lambda h, data: join(h, data + bytes(4)), "the bytes at its end belong to no tensor"),
    "field twice": (replaced('"shape"', '"shape": [7], "shape"'), "has a field twice"),
    "metadata twice": (
        replaced("{", '{"__metadata__": {"a": "1", "a": "2"}, '),
        "its metadata has a key twice",
    ),
    "two metadata": (
        replaced("{", '{"__metadata__": {}, "__metadata__": {}, '),
        "__metadata__ twice",
    ),
    "overflow": (change("scale", shape=[1 << 62, 1 << 62]), "larger than any file"),
    "huge number": (replaced("[7]", "[" + "9" * 40 + "]"), "a number is too large"),
    "many axes": (change("scale", shape=[1] * 65), "more than 64 axes"),
    "twice": (
        replaced("{", '{"scale": {"dtype":"F32","shape":[0],"data_offsets":[0,0]}, '),
        "occurs twice",
    ),
    "no object": (lambda _, data: join("[1]", data), "does not start with an object"),
    "trailing": (lambda h, data: join(json.dumps(h) + "}", data), "something follows the end"),
    "cut header": (lambda h, data: join(json.dumps(h)[:-2], data), "no valid JSON"),
    "deep": (replaced("{", '{"x": ' + '{"y":' * 40 + "0" + "}" * 40 + ", "), "nests too deep"),
    "control": (replaced("scale", "sc\x01ale"), "control character"),
    "no text": (lambda h, data: join(h, data).replace(b"scale", b"sc\xa7le"), "no UTF-8"),
    "half a character": (replaced('"scale"', '"\\ud800"'), "half a character"),
    "layout": (
        lambda h, data: join(
            {**h, "__metadata__": {"lumigen.layout.proj.weight": "f32 other"}}, data
        ),
        "packed as `f32 other`, but this build reads it as",
    ),
    "metadata": (
        lambda h, data: join({**h, "__metadata__": {"a": 1}}, data),
        "a string is expected",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_found(tiny, original, name):
    lie, text = LIES[name]
    header, data = split(original)
    with pytest.raises(tiny.Error, match=text) as caught:
        tiny.Model(lie(header, data))
    assert caught.value.status == 5


def test_what_is_not_read_may_be_of_any_type_of_the_format(tiny, original):
    header, data = split(original)
    end = len(data)
    header["__metadata__"] = None
    header["four"] = {"dtype": "F4", "shape": [3, 2], "data_offsets": [end, end + 3]}
    tiny.Model(join(header, data + bytes(3)))
    header["four"]["shape"] = [3]
    with pytest.raises(tiny.Error, match="do not fit its shape"):
        tiny.Model(join(header, data + bytes(3)))


LIES_FOR_THIS_MODEL = ("missing", "shape", "dtype", "layout")


@pytest.mark.parametrize("name", [name for name in LIES if name not in LIES_FOR_THIS_MODEL])
def test_what_the_runtime_refuses_python_refuses(original, tmp_path, name):
    file = tmp_path / "lie.safetensors"
    file.write_bytes(LIES[name][0](*split(original)))
    with pytest.raises(BadWeightsFile):
        open_weights(file)


def test_a_name_of_a_file_cannot_steer_a_terminal(tiny, original):
    header, data = split(original)
    header["a\x1b[2Jb\nc\x9bd"] = {**header.pop("scale"), "dtype": "F7"}
    with pytest.raises(tiny.Error, match=r"tensor a\?\[2Jb\?c\?\?d has a dtype"):
        tiny.Model(join(header, data))


def test_overlapping_tensors_are_found(tiny, original):
    header, data = split(original)
    header["shift"]["data_offsets"] = header["scale"]["data_offsets"]
    with pytest.raises(tiny.Error, match="shares bytes"):
        tiny.Model(join(header, data))


def test_header_lengths_that_lie(tiny, original):
    for length in (0, len(original), 1 << 40, (1 << 64) - 1):
        with pytest.raises(tiny.Error):
            tiny.Model(length.to_bytes(8, "little") + original[8:])


def test_a_file_packed_for_this_build_must_be_whole(tiny, packed):
    header, data = split(packed)
    assert header["proj.weight"]["shape"] == [896]
    begin, end = header["proj.weight"]["data_offsets"]
    header["proj.weight"] = {"dtype": "U8", "shape": [64], "data_offsets": [begin, begin + 64]}
    header["rest"] = {"dtype": "U8", "shape": [832], "data_offsets": [begin + 64, end]}
    with pytest.raises(
        tiny.Error, match=r"packed tensor proj.weight is U8\[64\], must be 896 bytes"
    ):
        tiny.Model(join(header, data))


def test_truncation_anywhere_is_refused(tiny, original, packed):
    for whole in (original, packed):
        for size in [*range(64), *range(64, len(whole), 37), len(whole) - 1]:
            with pytest.raises(tiny.Error):
                tiny.Model(whole[:size])


def test_random_damage_never_crashes(tiny, original, packed):
    rng = np.random.default_rng(0)
    for whole in (original, packed):
        header_end = 8 + int.from_bytes(whole[:8], "little")
        for _ in range(3000):
            damaged = bytearray(whole)
            for at in rng.integers(0, header_end, rng.integers(1, 4)):
                damaged[at] = rng.integers(0, 256)
            with contextlib.suppress(tiny.Error):  # some bytes do not matter
                tiny.Model(bytes(damaged))


def test_the_umask_holds(tmp_path, arrays):
    before = os.umask(0o077)
    try:
        write_weights(models.tiny(), arrays, tmp_path / "w")
    finally:
        os.umask(before)
    assert (tmp_path / "w").stat().st_mode & 0o777 == 0o600
