"""The Llama of examples/: against a float64 evaluation written apart from it, over caches and without."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import fast_lane, tokenizer
from lumigen.interp.graph import step
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.pipeline import lower_model
from lumigen.quantise import quantised
from lumigen.targets.cpu.device import CPU

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "llama"
Array = np.ndarray

BASE = {
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 61,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 48,
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "beta_fast": 4.0,
    "original_max_position_embeddings": 256,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "one head for each": {"num_key_value_heads": 4, "attention_bias": True},
    "mistral": {"sliding_window": 7},
    "llama 3": {"rope_scaling": LLAMA3, "rope_theta": 500000.0, "tie_word_embeddings": True},
    "qwen 2": {
        "model_type": "qwen2",
        "sliding_window": 5,
        "use_sliding_window": True,
        "max_window_layers": 1,
    },
    "qwen 2.5": {"model_type": "qwen2", "sliding_window": 5, "use_sliding_window": False},
    "qwen 3": {"model_type": "qwen3", "head_dim": 32, "rope_parameters": YARN},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}, "head_dim": 16},
}


def weights_of(config: Mapping[str, Any]) -> dict[str, Array]:
    """Random ones, under the names of a checkpoint."""
    rng = np.random.default_rng(7)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    width = config.get("head_dim", hidden // config["num_attention_heads"])
    q, kv = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden)
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name, rows, columns in (
            ("self_attn.q_proj", q, hidden),
            ("self_attn.k_proj", kv, hidden),
            ("self_attn.v_proj", kv, hidden),
            ("self_attn.o_proj", hidden, q),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ):
            shapes[f"{layer}{name}.weight"] = (rows, columns)
            if has_bias(config, name):
                shapes[f"{layer}{name}.bias"] = (rows,)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}{name}.weight"] = (hidden,)
        if config.get("model_type") == "qwen3":
            for name in ("self_attn.q_norm", "self_attn.k_norm"):
                shapes[f"{layer}{name}.weight"] = (width,)
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return {
        name: (rng.normal(size=s) * (0.3 if len(s) > 1 else 0.1) + (len(s) == 1)).astype(np.float32)
        for name, s in shapes.items()
    }


def has_bias(config: Mapping[str, Any], name: str) -> bool:
    """Whether the projection of that name adds one."""
    if config.get("model_type") == "qwen2":
        return name[-6] in "qkv" and "attn" in name
    return bool(config.get("attention_bias")) and "attn" in name


def turns_of(config: Mapping[str, Any], width: int) -> tuple[Array, float]:
    """Radians a position, and a scale, as the papers and config.json of each scaling say."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    out = scaling.get("rope_theta", config["rope_theta"]) ** (-np.arange(0, width, 2) / width)
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return out / scaling["factor"], 1.0
    if kind == "yarn":
        length, base = scaling["original_max_position_embeddings"], scaling["rope_theta"]
        ends = [
            width * math.log(length / (rounds * 2 * math.pi)) / (2 * math.log(base))
            for rounds in (scaling["beta_fast"], 1)
        ]
        low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), width - 1)
        assert 0 < low < high < width // 2  # some stay, some are stretched, some are between
        slow = np.clip((np.arange(width // 2) - low) / (high - low), 0, 1)
        scale = 0.1 * math.log(scaling["factor"]) + 1
        return out * (slow / scaling["factor"] + 1 - slow), scale
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        length = scaling["original_max_position_embeddings"]
        scaled = []
        for f in out:
            wave = 2 * math.pi / f
            if wave < length / high:
                scaled.append(f)
            elif wave > length / low:
                scaled.append(f / scaling["factor"])
            else:
                smooth = (length / wave - low) / (high - low)
                scaled.append((1 - smooth) * f / scaling["factor"] + smooth * f)
        return np.array(scaled), 1.0
    return out, 1.0


def evaluate(
    config: Mapping[str, Any],
    weights: Mapping[str, Array],
    ids: list[int],
    kept: Callable[[Array], Array] = np.asarray,
) -> Array:
    """(tokens, vocabulary): the logits behind each token, of the whole text at once in float64.

    Keys and values are `kept` as caches do it.
    """

    def g(name: str) -> Array:
        return np.asarray(weights[name], np.float64)

    def normalised(x: Array, name: str) -> Array:
        mean = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + config["rms_norm_eps"]) * g(f"{name}.weight")

    def projected(x: Array, name: str) -> Array:
        bias = g(f"{name}.bias") if f"{name}.bias" in weights else 0.0
        return x @ g(f"{name}.weight").T + bias

    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    n = len(ids)
    behind = np.arange(n)[:, None] - np.arange(n)
    turns, scale = turns_of(config, width)
    angles = np.arange(n)[:, None] * turns
    cos, sin = scale * np.cos(angles), scale * np.sin(angles)

    def split(y: Array) -> Array:
        return y.reshape(n, -1, width).transpose(1, 0, 2)

    def rotated(y: Array) -> Array:
        a, b = np.split(y, 2, -1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = g("model.embed_tokens.weight")[ids]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        h = normalised(x, f"{layer}.input_layernorm")
        q, k, v = (split(projected(h, f"{layer}.self_attn.{p}_proj")) for p in "qkv")
        if config.get("model_type") == "qwen3":
            q, k = (
                normalised(q, f"{layer}.self_attn.q_norm"),
                normalised(k, f"{layer}.self_attn.k_norm"),
            )
        window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
        is_narrow = window is not None and i >= config.get("max_window_layers", 0)
        seen = (behind >= 0) & (behind < (window if is_narrow else n))
        k, v = (kept(y) for y in (rotated(k), v))
        q, k = rotated(q), np.repeat(k, heads // groups, 0)
        v = np.repeat(v, heads // groups, 0)
        scores = np.where(seen, q @ k.transpose(0, 2, 1) / math.sqrt(width), -np.inf)
        odds = np.exp(scores - scores.max(-1, keepdims=True))
        odds /= odds.sum(-1, keepdims=True)
        x = x + projected((odds @ v).transpose(1, 0, 2).reshape(n, -1), f"{layer}.self_attn.o_proj")
        h = normalised(x, f"{layer}.post_attention_layernorm")
        gate = projected(h, f"{layer}.mlp.gate_proj")
        inner = gate / (1 + np.exp(-gate)) * projected(h, f"{layer}.mlp.up_proj")
        x = x + projected(inner, f"{layer}.mlp.down_proj")
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return normalised(x, "model.norm") @ g(f"{head}.weight").T


def checkpoint(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The configuration and the weights that the folder now holds, as Hugging Face lays them out."""
    config = {**BASE, **CONFIGS[name]}
    weights = weights_of(config)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    return config, weights


def rounded_to(dtype: lg.DType) -> Callable[[Array], Array]:
    return lambda x: x.astype(dtype.numpy).astype(np.float64)


def in_bytes(x: Array) -> Array:
    """Each row as whole numbers up to 127 of a scale."""
    scales = np.abs(x).max(-1, keepdims=True) / 127
    return np.floor(x / scales + 0.5) * scales


KEPT: dict[str, Callable[[Array], Array]] = {
    "f32": np.asarray,
    "f16": rounded_to(lg.f16),
    "bf16": rounded_to(lg.bf16),
    "q8": in_bytes,
}
LOST = {"f32": 0, "f16": 2e-3, "bf16": 2e-2, "q8": 2e-2}  # of the logits' norm, by what caches keep
TOLERANCE = {
    "f32": 1e-4,
    "q8": 1e-4,  # the scales are f32
    "f16": 2e-3,
    "bf16": 2e-2,
}  # of the largest logit, by what the caches hold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cache", "chunk"),
    [
        *((name, "f32", 64) for name in CONFIGS),
        ("llama 3", "bf16", 64),
        ("llama 3", "f16", 64),
        ("llama 3", "q8", 64),
        ("mistral", "q8", 9),
        ("mistral", "f32", 9),  # in rings, as window and chunk are shorter than the text
        ("mistral", "bf16", 9),
        ("qwen 2", "f32", 9),
    ],
)
def test_the_graphs_give_the_logits_of_the_whole_text(
    name: str, cache: str, chunk: int, tmp_path: Path
) -> None:
    """Tokens in parts of several and of one, over caches, as all at once without them."""
    config, weights = checkpoint(tmp_path, name)
    opened = lg.open_weights(tmp_path)
    options = {"cache": cache, "prefill": str(chunk)}
    model = lg.load_model_file(EXAMPLE / "model.py", weights=opened, options=options)
    graphs = dict(model.trace().entries)
    ids = [int(i) for i in np.random.default_rng(1).integers(0, config["vocab_size"], 23)]
    expected = evaluate(config, weights, ids, KEPT[cache])
    exact = evaluate(config, weights, ids)
    assert np.linalg.norm(expected - exact) <= LOST[cache] * np.linalg.norm(exact)
    states: dict[str, Array] = {}
    for start, stop in ((0, 9), (9, 10), (10, 11), (11, 20), *((i, i + 1) for i in range(20, 23))):
        graph = graphs["decode" if stop == start + 1 else "prefill"]
        given = {"ids": np.array(ids[start:stop]), "position": np.array(start)}
        outputs, new = step(graph, given, weights, states)
        states |= new
        error = np.abs(outputs["logits"] - expected[stop - 1]).max()
        assert error < TOLERANCE[cache] * np.abs(expected).max(), (start, stop)


def test_a_longer_text_costs_windows_no_memory(tmp_path: Path) -> None:
    checkpoint(tmp_path, "mistral")
    found: list[set[int]] = []
    for length in (24, 4096):
        options = {"length": str(length), "prefill": "9"}
        opened = lg.open_weights(tmp_path)
        model = lg.load_model_file(EXAMPLE / "model.py", weights=opened, options=options)
        entries = model.trace().entries
        found.append({s.shape[1].const for _, graph in entries for s in graph.states()})
    assert found == [{7 + 9 - 1}] * 2


@pytest.mark.slow
def test_greedy_text_beyond_the_window_in_cpp(tmp_path: Path) -> None:
    """Rings begin again several times; each token is that of the whole text with a sliding mask."""
    config, weights = checkpoint(tmp_path, "mistral")
    options = {"length": "96", "prefill": "9"}
    opened = lg.open_weights(tmp_path)
    traced = lg.load_model_file(EXAMPLE / "model.py", weights=opened, options=options).trace()
    entries = dict(traced.entries)
    for change in GRAPH_PASSES:
        entries = {name: change(graph) for name, graph in entries.items()}
    lowered = assemble(tuple(entries.items()), CPU)
    lane = fast_lane.load(lowered, "-O1")
    states = {s.name: np.zeros(s.shape, s.dtype.numpy) for s in lowered.states}

    def logits(ids: list[int], position: int) -> Array:
        entry = "decode" if len(ids) == 1 else "prefill"
        given = {"ids": np.array(ids), "position": np.array(position)}
        return lane.run(entry, given, weights, states)["logits"]

    ids = [int(i) for i in np.random.default_rng(1).integers(0, config["vocab_size"], 31)]
    for start in range(0, 31, 9):
        found = logits(ids[start : start + 9], start)
    while len(ids) < 96:
        ids.append(int(found.argmax()))
        found = logits(ids[-1:], len(ids) - 1)
    expected = evaluate(config, weights, ids)
    assert np.abs(found - expected[-1]).max() < TOLERANCE["f32"] * np.abs(expected).max()
    assert ids[31:] == [int(i) for i in expected.argmax(-1)[30:-1]]


@pytest.mark.slow
def test_layers_share_their_kernels(tmp_path: Path) -> None:
    """Twice as many layers, and not one more kernel."""
    counts: list[int] = []
    for layers in (3, 6):
        config = {**BASE, "num_hidden_layers": layers}
        (tmp_path / "config.json").write_text(json.dumps(config))
        save_file(weights_of(config), tmp_path / "model.safetensors")
        model = lg.load_model_file(EXAMPLE / "model.py", weights=lg.open_weights(tmp_path))
        counts.append(len(lower_model(model.trace(), {}).model.kernels))
    assert counts[0] == counts[1]


def stories() -> Path | None:
    named = os.environ.get("LUMIGEN_STORIES")
    found = Path(named) if named else ROOT.parent / "shared" / "data" / "stories260K.gguf"
    return found if found.is_file() else None


NO_STORIES = "no stories260K.gguf: LUMIGEN_STORIES names none, and ../shared/data has none"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real checkpoint, built with its program."""
    file = stories()
    if file is None:
        pytest.skip(NO_STORIES)
    folder = tmp_path_factory.mktemp("stories") / "llama-cpu"
    command = [sys.executable, "-m", "lumigen", "compile", str(EXAMPLE / "model.py")]
    subprocess.run(
        [*command, "--weights", str(file), "-o", str(folder), "--isa", "native"], check=True
    )
    return folder


@pytest.fixture(scope="module")
def opened() -> lg.Weights:
    file = stories()
    if file is None:
        pytest.skip(NO_STORIES)
    return lg.open_weights(file)


@pytest.mark.slow
def test_stories_are_those_of_a_float64_evaluation(project: Path, opened: lg.Weights) -> None:
    """Every greedy token is the one that the evaluation of all before it gives; the program says the same."""
    spec = importlib.util.spec_from_file_location("generate", EXAMPLE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    t = opened.tokenizer
    assert t is not None
    config = dict(opened.config)
    values = {name: opened[name] for name in opened.aliases}
    model = lg.load(project).Model()
    for prompt in ("Once upon a time", "The cat"):
        ids = list(tokenizer.encode(t, prompt))
        text = [*ids, *generate.generate(model, ids, most=100)]
        logits = evaluate(config, values, text)
        ordered = np.sort(logits, -1)
        sure = ordered[:, -1] - ordered[:, -2] > 1e-4 * np.abs(logits).max()
        greedy = logits.argmax(-1)
        assert len(text) == len(ids) + 100
        for i in range(len(ids), len(text)):
            assert not sure[i - 1] or text[i] == greedy[i - 1], (prompt, i)
        printed = said(project, "--prompt", prompt, "--tokens", "100").stdout
        assert printed == continued(t, ids, text[len(ids) :]) + "\n"


def said(
    project: Path, *flags: str, code: int = 0, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """What the program has written, with this exit code."""
    done = subprocess.run(
        [project / "bin" / "llama", "generate", "--threads", "1", *flags],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def continued(t: tokenizer.Tokenizer, ids: list[int], new: list[int]) -> str:
    """The text of new tokens behind others."""
    stream = tokenizer.TextStream(t)
    for i in ids:
        stream.push(i)
    return "".join(map(stream.push, new)) + stream.finish()


@pytest.mark.slow
def test_stories_are_those_of_llama_cpp(project: Path, opened: lg.Weights) -> None:
    """Token for token, where both begin with the same ids; from_llama_cpp.py made the file."""
    t = opened.tokenizer
    assert t is not None
    rows = json.loads((Path(__file__).parent / "llama_cpp.json").read_text(encoding="utf-8"))
    for row in rows:
        assert tokenizer.encode(t, row["prompt"]) == row["ids"]
        count = str(len(row["tokens"]))
        printed = said(project, "--prompt", row["prompt"], "--tokens", count).stdout
        assert printed == continued(t, row["ids"], row["tokens"]) + "\n"


@pytest.mark.slow
def test_what_the_program_says(project: Path, tmp_path: Path) -> None:
    prompt = ("--prompt", "Once upon a time")
    greedy = said(project, *prompt, "--tokens", "40")
    assert "prompt: 5 tokens in " in greedy.stderr
    assert re.search(r"weights: 293 k of 32.00 bits, 1.1 MiB; tensors: 48 in f32\n", greedy.stderr)
    assert re.search(r"caches: [\d.]+ [KM]iB\n", greedy.stderr)
    assert re.search(r"generated: 40 tokens in [\d.]+ m?s, \d+ tokens per second", greedy.stderr)
    one = said(project, *prompt, "--tokens", "1")
    assert re.search(r"generated: 1 token in [\d.]+ ms$", one.stderr, re.MULTILINE)
    drawn = ("--tokens", "40", "--temperature", "0.9", "--top-p=0.95", "--seed")
    first, again, other = (said(project, *prompt, *drawn, seed).stdout for seed in "112")
    assert first == again != other
    stopped = said(project, *prompt, "--tokens", "40", "--stop", "little", "--stop", "girl")
    assert stopped.stdout == greedy.stdout.partition("little")[0] + "\n"
    assert "a stop string" in stopped.stderr
    assert said(project, "--prompt-file", "-", "--tokens", "40", given=prompt[1]).stdout == (
        greedy.stdout
    )
    full = said(project, *prompt, "--tokens", "9999", "--repetition-penalty", "1.5")
    assert "cache was full" in full.stderr or "the text ended" in full.stderr

    spoiled = tmp_path / "llama.tokenizer"
    spoiled.write_bytes((project / "weights" / "llama.tokenizer").read_bytes()[:-200])
    for flags, code, text in (
        (("--prompt", "a b " * 2000), 1, "[generate] the prompt has"),
        (("--prompt-file", str(tmp_path / "none")), 1, "cannot be read: No such file"),
        ((*prompt, "--tokenizer", str(spoiled)), 1, "It is damaged"),
        ((*prompt, "--weights", str(spoiled)), 1, "[model_open] "),
        ((*prompt, "--tokens", "few"), 2, "--tokens takes a whole number, not 'few'"),
        ((*prompt, "--top-p", "1.5"), 2, "--top-p cannot be 1.5"),
        ((*prompt, "--top"), 2, "there is no --top."),
        ((*prompt, "--top-p"), 2, "--top-p lacks its value"),
        ((*prompt, "--top", "1"), 2, "there is no --top"),
        ((*prompt, *prompt), 2, "there are two prompts"),
        ((), 2, "--prompt or --prompt-file is missing"),
    ):
        wrong = said(project, *flags, code=code)
        assert text in wrong.stderr
        assert not wrong.stdout
    program = project / "bin" / "llama"
    bad = subprocess.run(
        [program, "generate", "--prompt", b"a\xff"], capture_output=True, check=False
    )
    assert bad.returncode == 1
    assert b"the prompt is no UTF-8: its byte 1 is 0xff" in bad.stderr


def in_blocks(source: Path, place: Path, kind: gguf.GGMLQuantizationType) -> lg.Weights:
    """A copy of the file, its matrices whose rows are whole blocks in blocks."""
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(place, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if field.types[0] is gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        data = np.asarray(tensor.data)
        if data.ndim > 1 and data.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0:
            writer.add_tensor(tensor.name, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return lg.open_weights(place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Q5_1", "MXFP4"])  # any type with blocks of 32 does
def test_stories_in_blocks_are_those_of_a_float64_evaluation(tmp_path: Path, kind: str) -> None:
    """Blocks stay blocks; logits and greedy tokens are those of what the blocks stand for."""
    file = stories()
    if file is None:
        pytest.skip(NO_STORIES)
    weights = in_blocks(file, tmp_path / "w.gguf", gguf.GGMLQuantizationType[kind])
    model = lg.load_model_file(EXAMPLE / "model.py", weights=weights, options={"length": "64"})
    found = quantised(model.trace(), weights, None)
    assert isinstance(found.weights, lg.Weights)
    assert "model.layers.0.mlp.up_proj.weight" in found.packed
    read = {w.name: found.weights[w.name] for w in found.traced.weights}
    lowered = lower_model(found.traced, {}).lowered
    lane = fast_lane.load(lowered, "-O1")
    states = {s.name: np.zeros(s.shape, s.dtype.numpy) for s in lowered.states}
    t = weights.tokenizer
    assert t is not None
    ids = [int(i) for i in tokenizer.encode(t, "Once upon a time")]
    rows: list[Array] = []
    start, new = 0, ids
    while len(ids) < 40:
        given = {"ids": np.array(new), "position": np.array(start)}
        entry = "decode" if len(new) == 1 else "prefill"
        rows.append(lane.run(entry, given, read, states)["logits"])
        start, new = len(ids), [int(rows[-1].argmax())]
        ids = [*ids, *new]
    values = {name: weights[name] for name in weights.aliases}
    expected = evaluate(dict(weights.config), values, ids)[-len(rows) - 1 : -1]
    assert np.linalg.norm(np.stack(rows) - expected) < 1e-4 * np.linalg.norm(expected)
    ordered = np.sort(expected, -1)
    sure = ordered[:, -1] - ordered[:, -2] > 1e-4 * np.abs(expected).max()
    greedy = expected.argmax(-1)
    assert all(
        token == best for token, best, s in zip(ids[-len(rows) :], greedy, sure, strict=True) if s
    )
