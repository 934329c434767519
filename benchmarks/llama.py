"""Language models on a CPU: a token and prompts of emitted Llamas beside llama.cpp, and beside the rate of memory.

Weights in few bits are blocks of GGUF's Q8_0, Q4_0, Q4_K and Q6_K: both read one file. Of `q8i8` and so on our products
round their rows to 8 bits too, as llama.cpp always does. It runs with its flash attention, and as a peer of its own
without.

PYTHONPATH=. python3 benchmarks/llama.py --models 110m --dtypes q8,q4 --quick
"""

# ruff: noqa: PLC0415  # a worker imports its own peer and no other

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Case, Job, Samples, Worker

COMMON = {
    "model_type": "llama",
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS: dict[str, dict[str, Any]] = {
    "110m": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "intermediate_size": 2048,
        "tie_word_embeddings": True,
    },
    "1b": {
        "hidden_size": 2048,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "intermediate_size": 5632,
        "tie_word_embeddings": False,
    },
}
CONFIG_8B: dict[str, Any] = {  # for a GPU
    **COMMON,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "tie_word_embeddings": False,
}
POSITIONS = (64, 512)  # at which a token is decoded, behind as many others
PREFILLS = {"110m": (128, 512), "1b": (128, 512)}
LENGTH, MOST = 1024, 512  # of caches, and tokens that come at a time
FEW_BITS = {"q8": "Q8_0", "q4": "Q4_0", "q4k": "Q4_K", "q6k": "Q6_K"}  # blocks of a GGUF file
OF_FILE = {"Q8_0": 34 / 32, "Q4_0": 18 / 32, "Q4_K": 144 / 256, "Q6_K": 210 / 256}  # bytes
ROUNDED = {f"{dtype}i8": "i8" for dtype in FEW_BITS}  # rows of products, as they are multiplied
BLOCKS = FEW_BITS | {f"{dtype}i8": blocks for dtype, blocks in FEW_BITS.items()}
WIDTH = {"f32": 4, "bf16": 2} | {dtype: OF_FILE[blocks] for dtype, blocks in BLOCKS.items()}
CACHED = {"bf16": "bf16"}  # what a cache holds: else f32
BYTES = {"f32": 4, "bf16": 2}  # of a number in a cache
TOLERANCE = 0.2  # of logits, to f32, in their standard deviations: whether it is the same model
COARSE = dict.fromkeys(
    ("q4k", "q4ki8", "q6k", "q6ki8"), 0.3
)  # llama.cpp rounds with a step for 256
FIELDS = "fields.blocks"  # of a checkpoint's matrices, as safetensors
EXAMPLE = harness.ROOT / "examples" / "llama" / "model.py"
PLAIN = "llama.cpp without flash attention"
NEEDS = {"llama.cpp": ("llama_cpp", "gguf"), PLAIN: ("llama_cpp", "gguf")}


def config_of(model: str) -> dict[str, Any]:
    return {**COMMON, **MODELS[model]}


def project_of(model: str, dtype: str) -> str:
    """Its own name for each, as one process loads them all and a loader knows libraries by their names."""
    return f"llama_{model}_{dtype}"


def tokens(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(3, 32000, count)


def cases_of(
    models: Sequence[str], dtypes: Sequence[str], kinds: Sequence[str]
) -> dict[str, tuple[str, str, str, int]]:
    """By name: model, dtype, and `decode` at a position or `prefill` of so many tokens."""
    asked = [
        (m, d, what, n)
        for m in models
        for d in dtypes
        for what, sizes in (("decode", POSITIONS), ("prefill", PREFILLS[m]))
        for n in sizes
        if what in kinds
    ]
    return {f"{m} {d}, {what} {n}": (m, d, what, n) for m, d, what, n in asked}


# --- peers ----------------------------------------------------------------------------------------


def lumigen_peer(job: Job) -> dict[str, Case]:
    out: dict[str, Case] = {}
    made: dict[str, Any] = {}
    for name, (model, dtype, what, n) in cases_of(
        job["models"], job["dtypes"], job["kinds"]
    ).items():
        project = project_of(model, dtype)
        if project not in made:
            sys.path.insert(0, str(Path(job["work"]) / project / "python"))
            made[project] = importlib.import_module(project).Model(threads=job["threads"])
        context, ids = made[project].context(), tokens(n)
        if what == "prefill":
            out[name] = lambda c=context, ids=ids: c.prefill(ids, np.array(0))
            continue
        for i in range(0, n, 128):
            context.prefill(ids[i : i + 128], np.array(i))
        one, at = tokens(1), np.array(n)
        out[name] = lambda c=context, one=one, at=at: c.decode(one, at)
    return {name: lambda f=f: np.asarray(f(), np.float32) for name, f in out.items()}


def llama_cpp_peer(job: Job) -> dict[str, Case]:
    """Caches hold the type of the weights, or f32, as ours do."""
    import llama_cpp

    out: dict[str, Case] = {}
    types = {"f32": 0, "f16": 1, "bf16": 30}  # of ggml
    caches = {"f32": "f32", "bf16": "bf16"}  # beside blocks f16, its default, which is faster
    loaded: dict[tuple[str, str, str, int], Any] = {}
    for name, key in cases_of(job["models"], job["dtypes"], job["kinds"]).items():
        model, dtype, what, n = key
        is_flash = job["peer"] != PLAIN
        if dtype in CACHED and not is_flash:
            continue  # caches of bf16 are refused
        loaded[key] = llm = llama_cpp.Llama(
            str(Path(job["work"]) / f"llama-{model}.{dtype}.gguf"),
            n_ctx=LENGTH,
            n_batch=MOST,
            n_ubatch=MOST,
            n_threads=job["threads"],
            n_threads_batch=job["threads"],
            type_k=types[caches.get(dtype, "f16")],
            type_v=types[caches.get(dtype, "f16")],
            flash_attn=is_flash,
            verbose=False,
        )
        before = 0 if what == "prefill" else n
        given = [int(i) for i in tokens(n if what == "prefill" else 1)]
        if before:
            llm.eval([int(i) for i in tokens(n)])

        def call(llm=llm, given=given, before=before):
            llm.n_tokens = before
            llm.eval(given)
            row = llama_cpp.llama_get_logits_ith(llm.ctx, -1)
            return np.ctypeslib.as_array(row, (COMMON["vocab_size"],)).copy()

        out[name] = call
    return out


def torch_compile_peer(job: Job) -> dict[str, Case]:
    """Prompts alone: weights are constants (frozen), so that products have them packed."""
    import torch
    import torch._inductor.config as inductor
    from safetensors.torch import load_file

    class Frozen(torch.nn.Module):
        def __init__(self, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> None:
            super().__init__()
            self.config, self.names = config, {name: name.replace(".", "/") for name in weights}
            for name, weight in weights.items():
                self.register_buffer(self.names[name], weight)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            weights = {name: self.get_buffer(own) for name, own in self.names.items()}
            return logits(self.config, weights, ids)

    torch.set_num_threads(job["threads"])
    inductor.freezing = True
    kinds = {"f32": torch.float32, "bf16": torch.bfloat16}
    made: dict[tuple[str, str], Any] = {}
    out: dict[str, Case] = {}
    for name, (model, dtype, what, n) in cases_of(
        job["models"], job["dtypes"], job["kinds"]
    ).items():
        if what != "prefill" or dtype in BLOCKS:
            continue
        if (model, dtype) not in made:
            file = Path(job["work"]) / model / "model.safetensors"
            weights = {k: v.to(kinds[dtype]) for k, v in load_file(file).items()}
            made[model, dtype] = torch.compile(Frozen(config_of(model), weights), dynamic=False)
        ids = torch.from_numpy(tokens(n))

        def call(forward=made[model, dtype], ids=ids):
            with torch.no_grad():
                return forward(ids)

        out[name] = call
    return out


PEERS = {
    "lumigen": lumigen_peer,
    "llama.cpp": llama_cpp_peer,
    PLAIN: llama_cpp_peer,
    "torch.compile": torch_compile_peer,
}


# --- what they are built from ---------------------------------------------------------------------


def shapes_of(c: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The weights of a Llama by their names in the layout of Hugging Face: matrices, and vectors of norms."""
    h, inner = c["hidden_size"], c["intermediate_size"]
    kv = h // c["num_attention_heads"] * c["num_key_value_heads"]
    made: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c["vocab_size"], h)}
    made["model.norm.weight"] = (h,)
    if not c["tie_word_embeddings"]:
        made["lm_head.weight"] = (c["vocab_size"], h)
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (h, h),
        "self_attn.k_proj": (kv, h),
        "self_attn.v_proj": (kv, h),
        "self_attn.o_proj": (h, h),
        "mlp.gate_proj": (inner, h),
        "mlp.up_proj": (inner, h),
        "mlp.down_proj": (h, inner),
        "input_layernorm": (h,),
        "post_attention_layernorm": (h,),
    }
    for i in range(c["num_hidden_layers"]):
        made |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return made


def make_checkpoint(directory: Path, model: str) -> Path:
    """Random weights in the layout of Hugging Face; sums stay of the size of what is summed."""
    from safetensors.numpy import save_file

    if (directory / "model.safetensors").exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    c, rng = config_of(model), np.random.default_rng(1)
    (directory / "config.json").write_text(json.dumps(c))

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(columns**-0.5)

    made = {
        name: matrix(*shape) if len(shape) == 2 else np.ones(shape, np.float32)
        for name, shape in shapes_of(c).items()
    }
    save_file(made, directory / "model.safetensors")
    return directory


def blocks_of(a: np.ndarray, kind: Any) -> np.ndarray:
    """Rows in blocks: as gguf makes them, or llama.cpp's own library where gguf makes none of a type."""
    import gguf

    try:
        return gguf.quants.quantize(a, kind)
    except NotImplementedError:
        import llama_cpp

    library = Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"
    make = ctypes.CDLL(str(library)).ggml_quantize_chunk
    counts, pointer = ctypes.c_int64, ctypes.c_void_p
    make.argtypes = (ctypes.c_int, pointer, pointer, counts, counts, counts, pointer)
    make.restype = ctypes.c_size_t
    floats = np.ascontiguousarray(a, np.float32)
    made = np.empty((len(a), *gguf.quant_shape_to_byte_shape(a.shape[1:], kind)), np.uint8)
    done = make(kind.value, floats.ctypes.data, made.ctypes.data, 0, *a.shape, None)
    assert done == made.nbytes
    return made


def make_gguf(checkpoint: Path, file: Path, model: str, dtype: str) -> None:
    """The same weights as llama.cpp has them: pairs of rotated features lie side by side."""
    import gguf
    from safetensors.numpy import load_file

    if file.exists():
        return
    c, weights = config_of(model), load_file(checkpoint / "model.safetensors")
    kind = gguf.GGMLQuantizationType[BLOCKS.get(dtype, dtype.upper())]
    w = gguf.GGUFWriter(file, "llama")
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("no_vocab")
    names = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    heads = {"attn_q": c["num_attention_heads"], "attn_k": c["num_key_value_heads"]}

    def add(name: str, a: np.ndarray) -> None:
        if kind is not gguf.GGMLQuantizationType.F32 and a.ndim > 1:
            w.add_tensor(name, blocks_of(a, kind), raw_dtype=kind)
        else:
            w.add_tensor(name, a)

    add("token_embd.weight", weights["model.embed_tokens.weight"])
    add("output_norm.weight", weights["model.norm.weight"])
    if "lm_head.weight" in weights:
        add("output.weight", weights["lm_head.weight"])
    for i in range(c["num_hidden_layers"]):
        for ours, theirs in names.items():
            a = weights[f"model.layers.{i}.{ours}.weight"]
            if theirs in heads:
                n = heads[theirs]
                a = a.reshape(n, 2, -1, a.shape[1]).swapaxes(1, 2).reshape(a.shape)
            add(f"blk.{i}.{theirs}.weight", np.ascontiguousarray(a))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def emit(
    checkpoint: Path,
    directory: Path,
    dtype: str,
    target: str = "cpu",
    length: int = LENGTH,
    weights_dtype: str = "",
) -> None:
    """The project, compiled, with its Python module; caches of the dtype of the weights, or f32 beside blocks.

    With a `weights_dtype` matrices are in blocks, whose fields lie beside the checkpoint.
    """
    from lumigen.activations import rounded
    from lumigen.dtype import bf16, f32
    from lumigen.frontend.load import load_model_file
    from lumigen.make_project import compile_project
    from lumigen.quantise import quantised
    from lumigen.weights import open_weights

    weights = open_weights(checkpoint)
    cached = CACHED.get(dtype, "f32")
    options = {"length": str(length), "prefill": str(MOST), "cache": cached}
    model = load_model_file(EXAMPLE, weights=weights, options=options)
    found = quantised(model.trace(), weights, None)
    traced, given = dataclasses.replace(found.traced, name=directory.name), found.weights
    traced = rounded(traced, ROUNDED.get(dtype)).traced
    if weights_dtype:
        from safetensors.numpy import load_file

        traced = quantised(traced, None, weights_dtype).traced
        fields = load_file(checkpoint / FIELDS)
        names = [w.name for w in traced.weights]
        given = {name: fields[name] if name in fields else weights[name] for name in names}
    compile_project(
        traced,
        directory=directory,
        target=target,
        weights=given,
        dtype={"f32": f32, "bf16": bf16}[cached],
        isa="native" if target == "cpu" else None,
        force=True,
    )


def read_anew(file: Path) -> None:
    """What is in memory of it is dropped: a service that starts finds it on the disk, and has it in other pages than
    those that its writer happened to be given."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def logits(c: Mapping[str, Any], w: Mapping[str, Any], ids: Any) -> Any:
    """Those behind the last of the tokens (vocabulary), by plain torch in the type of the weights."""
    import torch
    from torch.nn import functional

    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    half = c["hidden_size"] // heads // 2
    turns = c["rope_theta"] ** (-torch.arange(half) / half)
    angles = torch.arange(len(ids))[:, None] * turns
    kind = w["model.embed_tokens.weight"].dtype
    cos, sin = angles.cos().to(kind), angles.sin().to(kind)

    def rotated(x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def norm(x, name):
        return functional.rms_norm(x, x.shape[-1:], w[name], c["rms_norm_eps"])

    def split(x, n):
        return x.unflatten(-1, (n, -1)).transpose(0, 1)

    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        y = norm(x, layer + "input_layernorm.weight")
        q, k, v = (y @ w[f"{layer}self_attn.{p}_proj.weight"].T for p in "qkv")
        y = functional.scaled_dot_product_attention(
            rotated(split(q, heads))[None],
            rotated(split(k, groups))[None],
            split(v, groups)[None],
            is_causal=True,
            enable_gqa=True,
        )[0]
        x = x + y.transpose(0, 1).flatten(1) @ w[layer + "self_attn.o_proj.weight"].T
        y = norm(x, layer + "post_attention_layernorm.weight")
        gate, up = (y @ w[f"{layer}mlp.{p}_proj.weight"].T for p in ("gate", "up"))
        x = x + (functional.silu(gate) * up) @ w[layer + "mlp.down_proj.weight"].T
    head = w["lm_head.weight" if "lm_head.weight" in w else "model.embed_tokens.weight"]
    return (norm(x[-1:], "model.norm.weight") @ head.T)[0]


def references(work: Path, cases: Mapping[str, tuple[str, str, str, int]]) -> dict[str, np.ndarray]:
    import torch
    from safetensors.torch import load_file

    from lumigen.weights import open_weights

    known: dict[tuple[str, str, str, int], np.ndarray] = {}
    files = {(m, BLOCKS.get(d, "")): work / f"llama-{m}.{d}.gguf" for m, d, *_ in cases.values()}
    for (model, blocks), file in files.items():
        weights: Any = load_file(work / model / "model.safetensors")
        if blocks:  # the numbers that the blocks stand for
            opened = open_weights(file)
            weights = {name: torch.from_numpy(np.array(opened[name])) for name in weights}
        for of, dtype, what, n in cases.values():
            key = model, blocks, what, n
            if (of, BLOCKS.get(dtype, "")) == (model, blocks) and key not in known:
                ids = tokens(n) if what == "prefill" else np.concatenate([tokens(n), tokens(1)])
                with torch.no_grad():
                    found = logits(config_of(model), weights, torch.from_numpy(ids))
                known[key] = found.numpy()
        del weights
        gc.collect()
    return {name: known[m, BLOCKS.get(d, ""), what, n] for name, (m, d, what, n) in cases.items()}


# --- the driver -----------------------------------------------------------------------------------


def bytes_of_token(model: str, dtype: str, position: int) -> int:
    """What a step has to read: every weight of a matrix once, and the caches up to the position."""
    c = config_of(model)
    h, inner = c["hidden_size"], c["intermediate_size"]
    kv = h // c["num_attention_heads"] * c["num_key_value_heads"]
    layers, layer = c["num_hidden_layers"], 2 * h * h + 2 * h * kv + 3 * h * inner
    cached = BYTES[CACHED.get(dtype, "f32")] * layers * 2 * (position + 1) * kv
    return cached + int(WIDTH[dtype] * (layers * layer + c["vocab_size"] * h))


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="110m,1b by default")
    parser.add_argument(
        "--dtypes", default=",".join(WIDTH), help="all by default: " + ",".join(WIDTH)
    )
    parser.add_argument("--what", default="decode,prefill", help="decode,prefill by default")
    parser.add_argument("--threads", default="1,2", help="1,2 by default")
    options = parser.parse_args()
    models, dtypes = options.models.split(","), options.dtypes.split(",")
    if not set(dtypes) <= set(WIDTH):
        parser.error(f"--dtypes {options.dtypes}: some of {', '.join(WIDTH)}, with commas")
    threads = [int(t) for t in options.threads.split(",")]
    kinds = options.what.split(",")
    if not {"decode", "prefill"}.issuperset(kinds):
        parser.error(f"--what {options.what}: decode, prefill or both, with a comma")
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    harness.probes().cpu_library()
    wanted = options.peers.split(",") if options.peers else list(PEERS)
    peers = harness.available([p for p in PEERS if p in wanted or p == "lumigen"], NEEDS)
    for model in models:
        checkpoint = make_checkpoint(work / model, model)
        for dtype in dtypes:
            file = work / f"llama-{model}.{dtype}.gguf"
            if "llama.cpp" in peers or dtype in BLOCKS:
                make_gguf(checkpoint, file, model, dtype)
            start = time.perf_counter()
            emit(file if dtype in BLOCKS else checkpoint, work / project_of(model, dtype), dtype)
            print(f"{model} {dtype}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    for file in (*work.glob("llama_*/weights/*.safetensors"), *work.glob("*.gguf")):
        read_anew(file)
    cases = cases_of(models, dtypes, kinds)
    about = harness.machine()
    expected = references(work, cases)
    workers: list[Worker] = []
    try:
        more = {"models": models, "dtypes": dtypes, "kinds": kinds}
        for peer in ("limits", *peers):
            workers += [harness.start(__file__, peer, t, work, **more) for t in threads]
        harness.await_all(workers)
        workers = [w for w in workers if w.cases]
        scale = float(np.std(next(iter(expected.values()))))
        limits = {name: COARSE.get(d, TOLERANCE) * scale for name, (_, d, *_) in cases.items()}
        differences = harness.compare(workers, expected, limits)
        samples = harness.measure(workers, rounds, 0.05 if options.quick else 0.25)
    finally:
        harness.stop(workers)
    report(options, about, samples, cases, peers, differences)


def report(
    options: Any,
    about: Mapping[str, Any],
    samples: Sequence[Samples],
    cases: Mapping[str, tuple[str, str, str, int]],
    peers: Sequence[str],
    differences: Mapping[str, Mapping[str, float]],
) -> None:
    limits = harness.rates(samples)
    print(harness.describe(about, samples, len(samples[0].median)))
    print(harness.limits_text(limits), end="\n\n")
    table = harness.Table(samples, peers, limits, lambda _: 0.0)
    ours = peers[0]
    head = ["case", "threads", *(f"{p}, tokens/s" for p in peers)]
    head += [*(f"{p} / {ours}" for p in peers[1:]), "read, GB/s", "of the read limit"]
    lines = [head, ["---"] * len(head)]
    for threads, case, by in table.rows():
        model, dtype, what, n = cases[case]
        count = n if what == "prefill" else 1
        speeds = [f"{count / by[p].seconds:.3g}" if p in by else "-" for p in peers]
        ratios = [str(harness.ratio(by[ours], by[p])) if p in by else "-" for p in peers[1:]]
        mark = "!" if any(s.disturbed for s in by.values()) else ""
        rate, share = "", ""
        if what == "decode":
            read = bytes_of_token(model, dtype, n) / by[ours].seconds / 1e9
            best = max(r for name, (r, _) in limits[threads].items() if name.startswith("read"))
            rate, share = f"{read:.1f}", f"{read / best:.0%}"
        lines.append([case, f"{threads}{mark}", *speeds, *ratios, rate, share])
    print("\n".join("| " + " | ".join(line) + " |" for line in lines))
    file = options.json or options.work / "llama.json"
    harness.write(file, about, table, benchmark="llama", differences=differences)


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
