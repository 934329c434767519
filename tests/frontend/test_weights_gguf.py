"""GGUF: what the `gguf` package writes is read, blocks are what it says they are, and bad files are told."""

from __future__ import annotations

import contextlib
import math
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from hypothesis import given, settings
from hypothesis import strategies as st

import lumigen as lg
from lumigen import errors
from lumigen.weights import open_weights
from lumigen.weights.blocks import ELEMENTS, dequantised
from lumigen.weights.hugging_face import llama3

QUANTISED = {n: e for n, e in ELEMENTS.items() if e.blocks}


def stories() -> Path | None:
    """A small model of llama.cpp's: LUMIGEN_STORIES, or in the data that lie beside the checkout."""
    named = os.environ.get("LUMIGEN_STORIES")
    beside = Path(__file__).parents[2].parent / "shared" / "data" / "stories260K.gguf"
    found = Path(named) if named else beside
    return found if found.is_file() else None


NO_STORIES = "no stories260K.gguf: LUMIGEN_STORIES names none, and ../shared/data has none"


def write(
    file: Path, fill: Callable[[gguf.GGUFWriter], None], arch: str = "llama", **how: Any
) -> Path:
    writer = gguf.GGUFWriter(file, arch, **how)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


# --- by hand: bytes as the specification has them -------------------------------------------------


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def row(
    name: str | bytes = "x", shape: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0
) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + axes + struct.pack("<IQ", kind, offset)


def raw(
    rows: list[bytes] | None = None,
    pairs: list[bytes] | None = None,
    data: bytes = bytes(64),
    counts: tuple[int, int] | None = None,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    rows, pairs = rows if rows is not None else [row()], pairs or []
    head = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(rows), len(pairs))))
    head += b"".join(pairs) + b"".join(rows)
    return head + bytes(-len(head) % alignment) + data


def opened(tmp_path: Path, content: bytes) -> lg.Weights:
    file = tmp_path / "w.gguf"
    file.write_bytes(content)
    return open_weights(file)


@pytest.mark.parametrize("version", [2, 3])
def test_bytes_by_hand(tmp_path: Path, version: int) -> None:
    data = struct.pack("<6f", *range(6)) + bytes(8) + struct.pack("<3h", 1, -2, 3)
    rows = [row("a", (3, 2)), row("b", (3,), 25, 32)]
    weights = opened(tmp_path, raw(rows, [pair("n", 4, b"\7\0\0\0")], data, version=version))
    assert weights.names == ("a", "b")
    assert weights.metadata == {"n": 7}
    np.testing.assert_array_equal(weights["a"], np.arange(6, dtype=np.float32).reshape(2, 3))
    assert not weights["a"].flags.writeable
    assert weights["a"].base is not None  # a view of the file
    assert weights.shape("b") == (3,)
    with pytest.raises(errors.BadWeightsFile, match="b is of type I16"):
        weights["b"]


def test_it_is_told_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(raw())
    assert open_weights(tmp_path / "model.bin").names == ("x",)
    (tmp_path / "model.bin").rename(tmp_path / "model.gguf")
    assert open_weights(tmp_path).names == ("x",)


def test_every_kind_of_value(tmp_path: Path) -> None:
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_uint8("u8", 255)
        w.add_int8("i8", -1)
        w.add_uint16("u16", 65535)
        w.add_int16("i16", -2)
        w.add_uint32("u32", 2**32 - 1)
        w.add_int32("i32", -3)
        w.add_float32("f32", 0.5)
        w.add_bool("yes", True)
        w.add_string("text", "grüße 🦊")
        w.add_uint64("u64", 2**64 - 1)
        w.add_int64("i64", -(2**63))
        w.add_float64("f64", 0.1)
        w.add_array("texts", ["a", "", "ß"])
        w.add_array("ints", [1, -2, 3])
        w.add_array("floats", [0.5, 1.5])
        w.add_array("bools", [True, False])
        w.add_array("nested", [[1, 2], [3]])

    m = open_weights(write(tmp_path / "w.gguf", fill)).metadata
    assert {k: m[k] for k in ("u8", "i8", "u16", "i16", "u32", "i32")} == {
        "u8": 255,
        "i8": -1,
        "u16": 65535,
        "i16": -2,
        "u32": 2**32 - 1,
        "i32": -3,
    }
    assert (m["f32"], m["yes"], m["text"], m["f64"]) == (0.5, True, "grüße 🦊", 0.1)
    assert (m["u64"], m["i64"]) == (2**64 - 1, -(2**63))
    assert m["texts"] == ("a", "", "ß")
    assert m["ints"].tolist() == [1, -2, 3]
    assert m["floats"].tolist() == [0.5, 1.5]
    assert m["bools"].tolist() == [True, False]
    assert [x.tolist() for x in m["nested"]] == [[1, 2], [3]]


def test_tensors_that_stay_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "f32": rng.normal(size=(2, 3, 4)).astype(np.float32),
        "f16": rng.normal(size=(5,)).astype(np.float16),
        "f64": rng.normal(size=(2, 2)),
        "i8": rng.integers(-9, 9, (3,), np.int8),
        "i32": rng.integers(-9, 9, (3, 2), np.int32),
        "i64": rng.integers(-9, 9, (1,), np.int64),
    }
    half = rng.normal(size=(4, 2)).astype(ml_dtypes.bfloat16)

    def fill(w: gguf.GGUFWriter) -> None:
        for name, array in arrays.items():
            w.add_tensor(name, array)
        w.add_tensor("bf16", half.view(np.uint8), raw_dtype=Kind.BF16)

    weights = open_weights(write(tmp_path / "w.gguf", fill))
    for name, array in {**arrays, "bf16": half}.items():
        assert weights[name].dtype == array.dtype
        np.testing.assert_array_equal(weights[name], array)
        assert not weights[name].flags.writeable


@pytest.mark.parametrize("number", QUANTISED, ids=lambda n: ELEMENTS[n].name)
def test_blocks_are_what_ggml_says(tmp_path: Path, number: int, rng: np.random.Generator) -> None:
    """Random bytes, with scales that are NaN or infinite among them, bit for bit."""
    element = ELEMENTS[number]
    data = rng.integers(0, 256, (4, 5 * element.bytes), np.uint8)

    def fill(w: gguf.GGUFWriter) -> None:
        w.add_tensor("x", data, raw_dtype=Kind(number))

    weights = open_weights(write(tmp_path / "w.gguf", fill))
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(data, Kind(number))
    got = weights["x"]
    assert weights.dtype("x") is lg.f32
    assert weights.shape("x") == got.shape == expected.shape == (4, 5 * element.items)
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), is_nan)
    assert got[~is_nan].tobytes() == expected[~is_nan].tobytes()


def test_many_blocks_are_unpacked_in_parts(rng: np.random.Generator) -> None:
    data = rng.integers(0, 60, (10_000, 34), np.uint8)
    whole = dequantised(data.reshape(-1), ELEMENTS[8])
    np.testing.assert_array_equal(whole[-32:], dequantised(data[-1], ELEMENTS[8]))


def test_sizes_of_blocks_are_ggmls() -> None:
    assert {n: (e.items, e.bytes) for n, e in ELEMENTS.items()} == {
        n: gguf.GGML_QUANT_SIZES[Kind(n)] for n in ELEMENTS
    }
    assert {n: e.name for n, e in ELEMENTS.items()} == {n: Kind(n).name for n in ELEMENTS}


# --- names and keys of Hugging Face ---------------------------------------------------------------


def converted(array: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter makes of q and k: halves of a head become pairs."""
    out = np.empty_like(array)
    width = array.shape[0] // heads
    for h in range(heads):
        for i in range(width):
            source = h * width + (i % 2) * (width // 2) + i // 2
            out[h * width + i] = array[source]
    return out


CONFIG = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 24,
    "vocab_size": 20,
    "max_position_embeddings": 32,
    "rope_theta": 5000.0,
    "rope_scaling": None,
    "hidden_act": "silu",
    "attention_bias": True,
    "tie_word_embeddings": False,
}
SHAPES = {  # of Hugging Face's LlamaForCausalLM
    "model.embed_tokens.weight": (20, 16),
    "model.norm.weight": (16,),
    "lm_head.weight": (20, 16),
    **{
        f"model.layers.{i}.{name}": shape
        for i in range(2)
        for name, shape in {
            "input_layernorm.weight": (16,),
            "post_attention_layernorm.weight": (16,),
            "self_attn.q_proj.weight": (16, 16),
            "self_attn.q_proj.bias": (16,),
            "self_attn.k_proj.weight": (8, 16),
            "self_attn.k_proj.bias": (8,),
            "self_attn.v_proj.weight": (8, 16),
            "self_attn.v_proj.bias": (8,),
            "self_attn.o_proj.weight": (16, 16),
            "self_attn.o_proj.bias": (16,),
            "mlp.gate_proj.weight": (24, 16),
            "mlp.up_proj.weight": (24, 16),
            "mlp.down_proj.weight": (16, 24),
        }.items()
    },
}
NAMES = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)


def write_llama(file: Path, checkpoint: dict[str, np.ndarray], more: Any = lambda w: None) -> Path:
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_context_length(32)
        w.add_embedding_length(16)
        w.add_block_count(2)
        w.add_feed_forward_length(24)
        w.add_head_count(4)
        w.add_head_count_kv(2)
        w.add_layer_norm_rms_eps(1e-6)
        w.add_rope_freq_base(5000.0)
        w.add_rope_dimension_count(4)
        more(w)
        for name, array in checkpoint.items():
            heads = 4 if "q_proj" in name else 2 if "k_proj" in name else 0
            found = converted(array, heads) if heads else array
            w.add_tensor(NAMES.get_name(name, (".weight", ".bias")), found)

    return write(file, fill)


@pytest.fixture(scope="module")
def checkpoint() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype("f4") for name, shape in SHAPES.items()}


def test_llama_under_the_names_of_hugging_face(tmp_path: Path, checkpoint: Any) -> None:
    weights = open_weights(write_llama(tmp_path / "w.gguf", checkpoint))
    assert set(weights.aliases) == set(checkpoint)
    assert "blk.0.attn_q.weight" in weights.names
    for name, array in checkpoint.items():
        assert name in weights
        assert weights.shape(name) == array.shape
        np.testing.assert_array_equal(weights[name], array)
        assert not weights[name].flags.writeable
    assert weights.stored_names("lm_head.weight") == ("output.weight",)
    q = weights["blk.1.attn_q.weight"]  # under its own name as it lies in the file
    np.testing.assert_array_equal(
        q, converted(checkpoint["model.layers.1.self_attn.q_proj.weight"], 4)
    )


def test_keys_of_config_json(tmp_path: Path, checkpoint: Any) -> None:
    config = open_weights(write_llama(tmp_path / "w.gguf", checkpoint)).config
    assert {key: config[key] for key in CONFIG} == CONFIG
    assert config["rms_norm_eps"] == pytest.approx(1e-6)
    assert config["llama.block_count"] == 2


def test_a_configuration_for_a_model(tmp_path: Path, checkpoint: Any) -> None:
    """As that of config.json: what it says is checked, and the file named."""
    weights = open_weights(write_llama(tmp_path / "w.gguf", checkpoint))
    supported = {"hidden_act": ("silu",), "partial_rotary_factor": (1,)}
    config = weights.config_for("llama", supported=supported)
    assert config == weights.config
    with pytest.raises(errors.BadWeightsFile, match=r"w\.gguf cannot .* it has no none_such, "):
        config["none_such"]
    with pytest.raises(errors.BadWeightsFile, match=r"w\.gguf .* its model_type is llama, .* gpt2"):
        weights.config_for("gpt2")


def test_tied_embeddings(tmp_path: Path, checkpoint: Any) -> None:
    tied = {k: v for k, v in checkpoint.items() if k != "lm_head.weight"}
    weights = open_weights(write_llama(tmp_path / "w.gguf", tied))
    assert weights.config["tie_word_embeddings"] is True
    assert "lm_head.weight" not in weights


def scaled(tmp_path: Path, checkpoint: Any, more: Callable[[gguf.GGUFWriter], None]) -> Any:
    return open_weights(write_llama(tmp_path / "w.gguf", checkpoint, more)).config["rope_scaling"]


def test_scaled_frequencies(tmp_path: Path, checkpoint: Any) -> None:
    def linear(w: gguf.GGUFWriter) -> None:
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(4.0)

    def yarn(w: gguf.GGUFWriter) -> None:
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(8.0)
        w.add_rope_scaling_orig_ctx_len(16)

    def none(w: gguf.GGUFWriter) -> None:
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)

    def factors(w: gguf.GGUFWriter) -> None:
        w.add_tensor("rope_freqs.weight", np.array([1.0, 8.0], np.float32))

    assert scaled(tmp_path, checkpoint, linear) == {"rope_type": "linear", "factor": 4.0}
    expected = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}
    assert scaled(tmp_path, checkpoint, yarn) == expected
    assert scaled(tmp_path, checkpoint, none) is None
    by = {"short_factor": [1.0, 8.0], "long_factor": [1.0, 8.0], "attention_factor": 1.0}
    assert scaled(tmp_path, checkpoint, factors) == {"rope_type": "longrope", **by}


@pytest.mark.parametrize(
    ("theta", "head", "factor", "low", "high", "original"),
    [
        (500_000.0, 128, 8.0, 1.0, 4.0, 8192),  # Llama 3.1
        (500_000.0, 64, 32.0, 1.0, 4.0, 8192),  # Llama 3.2
        (10_000.0, 64, 4.0, 1.0, 8.0, 4096),
        (500_000.0, 128, 8.0, 2.0, 8.0, 16384),  # the first, in other words
    ],
)
def test_frequencies_of_llama_3(
    theta: float, head: int, factor: float, low: float, high: float, original: int
) -> None:
    """The factors as llama.cpp's converter computes them, from wavelengths."""
    factors: list[float] = []
    for i in range(head // 2):
        wavelength = 2 * np.pi * theta ** (2 * i / head)
        smooth = (original / wavelength - low) / (high - low)
        if wavelength < original / high:
            factors.append(1.0)
        elif wavelength > original / low:
            factors.append(factor)
        else:
            factors.append(1 / ((1 - smooth) / factor + smooth))
    found = llama3(np.array(factors, np.float32).tolist(), theta)
    assert found == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": high / low,
        "original_max_position_embeddings": original / low,
    }
    assert llama3([f * (1 + i / 50) for i, f in enumerate(factors)], theta) is None
    for odd in (0.0, -1.0, np.nan, np.inf):
        assert llama3([*factors[:-1], odd], theta) is None
    assert llama3(factors, 0.0) is None
    assert llama3([1.0] * 8, theta) is None
    assert llama3([1.0, 4.0, 4.0], theta) is None


def test_qwen_is_not_rearranged_and_gpt2_is_transposed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    q, fc = rng.normal(size=(8, 8)).astype("f4"), rng.normal(size=(12, 8)).astype("f4")

    def qwen(w: gguf.GGUFWriter) -> None:
        w.add_head_count(2)
        w.add_tensor("blk.0.attn_q.weight", q)
        w.add_tensor("blk.0.attn_q_norm.weight", q[0])

    weights = open_weights(write(tmp_path / "q.gguf", qwen, "qwen3"))
    np.testing.assert_array_equal(weights["model.layers.0.self_attn.q_proj.weight"], q)
    np.testing.assert_array_equal(weights["model.layers.0.self_attn.q_norm.weight"], q[0])

    def gpt2(w: gguf.GGUFWriter) -> None:
        w.add_embedding_length(8)
        w.add_tensor("blk.0.ffn_up.weight", fc)
        w.add_tensor("blk.0.ffn_up.bias", fc[:, 0].copy())
        w.add_tensor("position_embd.weight", q)

    weights = open_weights(write(tmp_path / "g.gguf", gpt2, "gpt2"))
    assert weights.shape("transformer.h.0.mlp.c_fc.weight") == (8, 12)
    np.testing.assert_array_equal(weights["transformer.h.0.mlp.c_fc.weight"], fc.T)
    np.testing.assert_array_equal(weights["transformer.h.0.mlp.c_fc.bias"], fc[:, 0])
    np.testing.assert_array_equal(weights["transformer.wpe.weight"], q)
    assert weights.config["n_embd"] == 8
    assert weights.config["activation_function"] == "gelu_new"


def split(folder: Path, i: int, name: str, count: int = 2) -> Path:
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_uint16("split.count", count)
        w.add_uint16("split.no", i)
        if i == 0:
            w.add_embedding_length(8)
        w.add_tensor(name, np.full(4, i, np.float32))

    return write(folder / f"model-{i + 1:05d}-of-{count:05d}.gguf", fill)


def test_a_split_file_is_one(tmp_path: Path) -> None:
    first, second = split(tmp_path, 0, "a"), split(tmp_path, 1, "b")
    for path in (first, second, tmp_path):
        weights = open_weights(path)
        assert weights.names == ("a", "b")
        assert weights["b"].tolist() == [1] * 4
        assert weights.config["hidden_size"] == 8
    split(tmp_path, 1, "a")
    with pytest.raises(errors.BadWeightsFile, match="holds a, which another part holds too"):
        open_weights(first)
    second.unlink()
    with pytest.raises(errors.BadWeightsFile, match=r"part model-00002-of-00002\.gguf is missing"):
        open_weights(first)
    first.rename(tmp_path / "other.gguf")
    with pytest.raises(errors.BadWeightsFile, match="one of 2 parts"):
        open_weights(tmp_path / "other.gguf")


def test_another_architecture_has_its_own_names_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "w.gguf", lambda w: w.add_tensor("x", np.ones(4, "f4")), "rwkv7")
    weights = open_weights(file)
    assert weights.aliases == ()
    assert weights.config["model_type"] == "rwkv7"


@pytest.mark.skipif(stories() is None, reason=NO_STORIES)
def test_a_real_file() -> None:
    file = stories()
    assert file is not None
    weights = open_weights(file)
    reader = gguf.GGUFReader(file)
    assert set(weights.names) == {t.name for t in reader.tensors}
    for t in reader.tensors:
        np.testing.assert_array_equal(weights[t.name], np.asarray(t.data))
    assert weights.config["hidden_size"] == 64
    assert weights.config["num_key_value_heads"] == 4
    assert weights.shape("model.layers.4.mlp.down_proj.weight") == (64, 172)
    assert weights.metadata["tokenizer.ggml.tokens"][:3] == ("<unk>", "<s>", "</s>")


# --- bad files ------------------------------------------------------------------------------------

LLAMA = pair("general.architecture", 8, text("llama"))
Q_OF_3_ROWS = row("blk.0.attn_q.weight", (4, 3))
BAD: dict[str, tuple[bytes, str]] = {
    "only a magic": (b"GGUF", "4 bytes are too few"),
    "version 1": (raw(version=1), "version 1"),
    "version 4": (raw(version=4), "version 4"),
    "big-endian": (raw(version=0x03000000), "big-endian"),
    "tensors": (raw(counts=(2**63, 0)), "claims 9223372036854775808 tensors"),
    "keys": (raw(counts=(0, 2**40)), "keys"),
    "key twice": (raw(pairs=[pair("a", 7, b"\1")] * 2), "key a twice"),
    "key not UTF-8": (raw(pairs=[pair(b"a\xff", 7, b"\1")]), "not UTF-8"),
    "long key": (raw(pairs=[struct.pack("<Q", 2**40)]), "claims 1099511627776 bytes"),
    "text beyond the end": (raw(pairs=[pair("a", 8, struct.pack("<Q", 2**62))]), "a needs"),
    "text not UTF-8": (raw(pairs=[pair("a", 8, text(b"\xc3("))]), "a is not UTF-8"),
    "half a character": (raw(pairs=[pair("a", 8, text(b"\xed\xa0\x80"))]), "not UTF-8"),
    "bool of 2": (raw(pairs=[pair("a", 7, b"\2")]), "a is a bool of 2"),
    "bools of 2": (
        raw(pairs=[pair("a", 9, struct.pack("<IQ", 7, 2) + b"\1\2")]),
        "bytes other than 0 and 1",
    ),
    "kind of value": (raw(pairs=[pair("a", 13, b"")]), "a is of the unknown type 13"),
    "kind of array": (
        raw(pairs=[pair("a", 9, struct.pack("<IQ", 99, 1))]),
        "array of the unknown type 99",
    ),
    "long array": (
        raw(pairs=[pair("a", 9, struct.pack("<IQ", 0, 2**50))]),
        "elements of a",
    ),
    "long array of texts": (
        raw(pairs=[pair("a", 9, struct.pack("<IQ", 8, 2**61))]),
        "elements of a",
    ),
    "arrays in arrays": (
        raw(pairs=[pair("a", 9, struct.pack("<IQ", 9, 1) * 1000)]),
        "in too many others",
    ),
    "alignment 0": (raw(pairs=[pair("general.alignment", 4, bytes(4))]), "no power of 2"),
    "alignment 24": (raw(pairs=[pair("general.alignment", 4, b"\x18\0\0\0")]), "is 24"),
    "alignment a text": (raw(pairs=[pair("general.alignment", 8, text("x"))]), "is x"),
    "name twice": (raw([row("x"), row("x", offset=32)]), "holds x twice"),
    "name not UTF-8": (raw([row(b"\xfe")]), "not UTF-8"),
    "axes": (raw([row(shape=(1,) * 5)]), "5 axes"),
    "negative size": (raw([row(shape=(2**64 - 1,))]), "not one of sizes"),
    "absurd size": (raw([row(shape=(2**40, 2**40))]), "do not hold"),
    "product that wraps": (raw([row(shape=(2**62, 4))]), "do not hold"),
    "kind": (raw([row(kind=200)]), "unknown type 200"),
    "removed kind": (raw([row(kind=4)]), "unknown type 4"),
    "no whole blocks": (raw([row(shape=(33, 2), kind=8)]), "no whole blocks of 32"),
    "beyond the end": (raw([row(shape=(17,))]), "do not hold"),
    "offset beyond the end": (raw([row(offset=2**63)]), "do not hold"),
    "not aligned": (raw([row(offset=4)]), "no multiple of the alignment 32"),
    "overlap": (raw([row("a", (16,)), row("b", offset=32)]), "b overlaps a"),
    "no heads": (raw([Q_OF_3_ROWS], [LLAMA]), "no llama.attention.head_count"),
    "heads": (
        raw([Q_OF_3_ROWS], [LLAMA, pair("llama.attention.head_count", 4, b"\2\0\0\0")]),
        "no pairs for 2 heads",
    ),
    "no heads at all": (
        raw([Q_OF_3_ROWS], [LLAMA, pair("llama.attention.head_count", 4, bytes(4))]),
        "no pairs for 0 heads",
    ),
    "a number that is a text": (
        raw(pairs=[LLAMA, pair("llama.block_count", 8, text("five"))]),
        "llama.block_count is 'five'",
    ),
    "a count that is a fraction": (
        raw(pairs=[LLAMA, pair("llama.block_count", 6, struct.pack("<f", 2.5))]),
        "no whole number",
    ),
    "old magic": (b"ggjt" + bytes(40), "before GGUF"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, tmp_path: Path) -> None:
    content, wanted = BAD[name]
    file = tmp_path / "w.gguf"
    file.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(errors.BadWeightsFile) as caught:
        open_weights(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wanted in str(caught.value)
    assert "w.gguf" in str(caught.value)
    assert len(str(caught.value)) < 600
    assert peak < 1_000_000


def good(tmp_path: Path) -> bytes:
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_tokenizer_model("llama")
        w.add_token_list(["a", "b", "ß"])
        w.add_token_scores([0.5, 1.5, 2.5])
        w.add_token_types([1, 3, 4])
        w.add_bos_token_id(1)
        w.add_head_count(2)
        w.add_tensor("blk.0.attn_q.weight", np.ones((4, 4), "f4"))
        w.add_tensor("small", np.ones((2, 34), np.uint8), raw_dtype=Kind.Q8_0)

    return write(tmp_path / "good.gguf", fill).read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"llama.rope.scaling.type": [1, 2], "llama.rope.scaling.factor": 4.0},
        {"split.count": [1, 2]},
        {"tokenizer.ggml.model": "llama", "tokenizer.ggml.bos_token_id": [1, 2]},
        {"llama.attention.head_count": [math.nan]},
        {"llama.attention.head_count": True},
        {"llama.attention.key_length": [16, 8], "llama.rope.dimension_count": 16},
    ],
    ids=lambda c: next(iter(c)),
)
def test_metadata_of_other_kinds_are_read_or_refused(tmp_path: Path, changes: Any) -> None:
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "llama")
    given = {"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.scores": [0.0]}
    for key, value in {**given, **changes}.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        (add | {str: writer.add_string, list: writer.add_array})[type(value)](key, value)
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with contextlib.suppress(errors.UserError):
        weights = open_weights(tmp_path / "w.gguf")
        _ = [weights[name] for name in (*weights.names, *weights.aliases)]
        _ = weights.tokenizer


def test_truncation_anywhere(tmp_path: Path) -> None:
    content = good(tmp_path)
    size = (
        max(i for i in range(len(content)) if content[i]) + 1
    )  # less padding and zeros at the end
    for end in range(size - 200):
        with pytest.raises(errors.BadWeightsFile):
            opened(tmp_path, content[:end])


def read_all(file: Path, size: int) -> None:
    """What a damaged file may do: be refused, or be read without making more of it than 8 times its size."""
    try:
        weights = open_weights(file)
        assert weights.tokenizer is None or len(weights.tokenizer.tokens) <= size
        for name in (*weights.names, *weights.aliases):
            if weights.has_supported_dtype(name):
                assert weights[name].nbytes <= 8 * size
    except errors.BadWeightsFile:
        pass


def mutated(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, int, int]]
) -> None:
    base = tmp_path_factory.getbasetemp()
    content = bytearray(good(base))
    for place, byte, how in changes:
        at = int(place * (len(content) - 1))
        if how == 0:
            content[at] = byte
        elif how == 1:
            content[at] ^= 1 << byte % 8
        elif how == 2:
            del content[at : at + byte % 9]
        else:
            content[at:at] = bytes([byte]) * (byte % 9)
    file = base / "mutated.gguf"
    file.write_bytes(content)
    read_all(file, len(content))


CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 255), st.integers(0, 3)), min_size=1, max_size=4
)


@given(CHANGES)
def test_changed_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, int, int]]
) -> None:
    mutated(tmp_path_factory, changes)


@pytest.mark.slow
@settings(max_examples=2000)
@given(CHANGES)
def test_many_changed_bytes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, int, int]]
) -> None:
    mutated(tmp_path_factory, changes)
