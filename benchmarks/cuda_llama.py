"""A decoder of the shape of Llama 3 8B on a GPU, random bf16 weights, beside torch.compile in the same run.

PYTHONPATH=. python3 benchmarks/cuda_llama.py [--quick] [--peers masked,blocks,prompt] [--layers 32] [--work DIRECTORY]
    [--weights-dtype q4]

A prompt, and one token behind as many others, over caches of bf16 of 2048 positions. `torch_llama.py` says how the
peer is written. All programs run on one stream, with tokens, positions and logits at fixed addresses; they take turns
in rounds, and a slice of a round is the wall time of many calls with one wait for the GPU at its end. A ratio is the
peer's time over ours, with the 90% interval over rounds. The share is that of the rate of a copy: every weight of a
matrix is read once, and the caches up to the position. With `--weights-dtype` ours has its matrices in blocks of random
integers, with scales that give them the same spread; torch's weights are what they stand for, in bf16.

`--tiny --device cpu` runs all of it on small sizes, to see that it works: torch captures its graphs there and does not
compile them, so that times say nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import harness
import llama
import torch
import torch_llama
from harness import Samples
from safetensors.torch import save_file

import lumigen as lg
from lumigen.quantise import format_of
from lumigen.weights.formats import Blocks

OURS = "lumigen"
LENGTH = 2048  # of the caches
SPREAD = 0.02  # of the weights
# Of the norm of logits, to those of f32 arithmetic over the same weights. A decoder of 32 layers of such weights,
# computed in bf16, is wrong by some 0.05; one with a mistake by 1.
TOLERANCE = 0.15
LAYERS = 32  # of the model at its whole size
TINY = {
    "vocab_size": 512,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
}
# `masked` and `blocks` decode, and differ in their attention. CUDA graphs replay each. A prompt's products are those of
# cuBLAS: at 512 rows the search of `max-autotune` takes minutes, and it chooses from cuBLAS too; `searched` does it.
MODES = {
    "masked": "max-autotune",
    "blocks": "max-autotune",
    "prompt": "reduce-overhead",
    "searched": "max-autotune",
}
Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Program:
    """`step` gives logits, and may be called any number of times once `prepare` has been."""

    step: Callable[[], torch.Tensor]
    prepare: Callable[[], object] = lambda: None


Cases = dict[str, Program]


def sizes(name: str) -> tuple[str, int]:
    """`decode` at a position, `prefill` of so many tokens."""
    what, count = name.split()
    return what, int(count)


@dataclass
class Run:
    """What all programs have in common."""

    config: Mapping[str, Any]
    device: str
    weights: Weights
    tokens: torch.Tensor
    places: torch.Tensor
    stream: Any
    fields: Weights = field(
        default_factory=dict[str, torch.Tensor]
    )  # of our weights, if they are in blocks
    bits: float = 16  # of one of our weights

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def on_stream(self) -> contextlib.AbstractContextManager[object]:
        return torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext()


# --- the same weights for all -------------------------------------------------------------------------


def random_weights(config: Mapping[str, Any], device: str) -> dict[str, torch.Tensor]:
    made = torch.Generator(device).manual_seed(0)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        if len(shape) == 1:
            return torch.ones(shape, device=device, dtype=torch.bfloat16)
        values = torch.randn(shape, generator=made, device=device, dtype=torch.bfloat16)
        return values.mul_(SPREAD)

    return {name: tensor(shape) for name, shape in llama.shapes_of(config).items()}


class OnDevice:
    """The operations of a format's formula, on tensors of torch."""

    def floats(self, x: torch.Tensor) -> torch.Tensor:
        return x.float()

    def floor(self, x: torch.Tensor) -> torch.Tensor:
        return x.floor()

    def join(self, parts: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
        return torch.cat(list(parts), axis)

    def lookup(self, table: Sequence[float], index: torch.Tensor) -> torch.Tensor:
        return torch.tensor(table, device=index.device)[index.long()]

    def columns(self, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        return x[..., order]


def in_blocks(
    weights: dict[str, torch.Tensor], weights_dtype: str, made: torch.Generator
) -> dict[str, torch.Tensor]:
    """Random fields for each matrix, on the host; the matrix becomes what they stand for."""
    out: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        form = format_of(weights_dtype, weight.shape[-1])
        if weight.dim() != 2 or form is None:
            continue
        blocks = form.blocks
        lead = (*weight.shape[:-1], weight.shape[-1] // blocks.items)
        fields: dict[str, torch.Tensor] = {}
        for part, (shape, dtype) in blocks.fields().items():
            if dtype.is_float:
                fields[part] = torch.ones((*lead, *shape), device=made.device, dtype=torch.float16)
                continue
            kind = {"i8": torch.int8, "u8": torch.uint8}[dtype.name]
            ends, size = (int(dtype.lowest), int(dtype.greatest) + 1), (*lead, *shape)
            fields[part] = torch.randint(
                *ends, size, generator=made, device=made.device, dtype=kind
            )

        def values(
            first: int, end: int, fields: Weights = fields, blocks: Blocks = blocks
        ) -> torch.Tensor:
            return blocks.values({n: x[first:end] for n, x in fields.items()}, OnDevice())

        fields["scales"] *= SPREAD / values(0, 64).std().item()
        for i in range(0, len(weight), 4096):
            weight[i : i + 4096] = values(i, i + 4096).reshape(-1, weight.shape[-1])
        out |= {f"{name}.{part}": x.cpu() for part, x in fields.items()}
    return out


def write_checkpoint(directory: Path, config: Mapping[str, Any], weights: Weights) -> Path:
    """In the layout of Hugging Face, from which ours is emitted."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file({n: w.cpu() for n, w in weights.items()}, directory / "model.safetensors")
    return directory


class Widened(dict[str, torch.Tensor]):
    """Weights in f32, each when it is asked for."""

    def __getitem__(self, name: str) -> torch.Tensor:
        return super().__getitem__(name).float()


# --- the programs -------------------------------------------------------------------------------------


def our_cases(run: Run, directory: Path, names: list[str]) -> Cases:
    model = lg.load(directory).Model()
    context = model.context(stream=run.stream) if run.stream else model.context()

    def program(entry: Callable[..., Any], first: int, end: int) -> Program:
        ids, at = run.tokens[first:end], run.places[first]
        out = torch.empty(run.config["vocab_size"], device=run.device, dtype=torch.bfloat16)

        def step() -> torch.Tensor:
            entry(ids, at, out=out)
            return out

        return Program(step)

    for first in range(0, LENGTH, llama.MOST):  # so that decoding finds what comes before
        program(context.prefill, first, first + llama.MOST).step()
    cases: Cases = {}
    for name in names:
        what, n = sizes(name)
        decodes = what == "decode"
        cases[name] = (
            program(context.decode, n, n + 1) if decodes else program(context.prefill, 0, n)
        )
    return cases


def torch_cases(run: Run, peers: list[str], names: list[str]) -> dict[str, Cases]:
    """For each peer the cases that it is for; what is compiled, is so in its first call."""
    decoder = torch_llama.Decoder(run.config, run.weights, LENGTH)
    decoder(run.tokens, run.places, "prompt")  # so that decoding finds what comes before

    def held(values: torch.Tensor) -> torch.Tensor:
        """Where a graph reads them: other inputs it copies."""
        values = values.clone()
        torch._dynamo.mark_static_address(values)  # noqa: SLF001 -- it has no public name
        return values

    one, at = held(run.tokens[:1]), held(run.places[:1])

    def place(n: int) -> None:
        one.copy_(run.tokens[n : n + 1])
        at.copy_(run.places[n : n + 1])

    def cases_of(peer: str) -> Cases:
        how = {"mode": MODES[peer]} if run.device == "cuda" else {"backend": "eager"}
        step = torch.compile(decoder, fullgraph=True, dynamic=False, **how)
        cases: Cases = {}
        for name in names:
            what, n = sizes(name)
            if what == "decode" and peer in {"masked", "blocks"}:
                cases[name] = Program(lambda: step(one, at, peer), lambda n=n: place(n))
            elif what == "prefill" and peer in {"prompt", "searched"}:
                ids, places = held(run.tokens[:n]), held(run.places[:n])
                cases[name] = Program(lambda i=ids, p=places: step(i, p, "prompt"))
        return cases

    return {peer: cases_of(peer) for peer in peers}


def exact_logits(run: Run, name: str) -> torch.Tensor:
    """By f32 arithmetic over the same weights."""
    what, n = sizes(name)
    with torch.device(run.device):
        return llama.logits(run.config, Widened(run.weights), run.tokens[: n + (what == "decode")])


def checked(program: str, cases: Cases, exact: Mapping[str, torch.Tensor], run: Run) -> Cases:
    """Those that run and are the same model, each called often enough for a graph to be recorded."""
    good: Cases = {}
    for name, case in cases.items():
        begin = time.perf_counter()
        try:
            with run.on_stream():
                case.prepare()
                for _ in range(4):
                    found = case.step().float()
            run.wait()
        except Exception:  # noqa: BLE001  # one program fails, the others are measured
            traceback.print_exc()
            print(f"{name}, {program}: FAILED", flush=True)
            continue
        error = ((found - exact[name]).norm() / exact[name].norm()).item()
        seconds = time.perf_counter() - begin
        good |= {name: case} if error <= TOLERANCE else {}
        said = "" if error <= TOLERANCE else ": WRONG, not measured"
        print(
            f"{name}, {program}: ready in {seconds:.0f} s, off by {error:.1e}{said}",
            flush=True,
        )
    return good


# --- times --------------------------------------------------------------------------------------------


def seconds_of(program: Program, run: Run, calls: int) -> float:
    """Of one call: the wall time of many, with one wait for the GPU."""
    with run.on_stream():
        program.prepare()
        for _ in range(3):
            program.step()
        run.wait()
        begin = time.perf_counter()
        for _ in range(calls):
            program.step()
        run.wait()
        return (time.perf_counter() - begin) / calls


def measure(
    name: str, programs: Mapping[str, Program], run: Run, rounds: int, calls: int
) -> dict[str, Samples]:
    """In every round every program once, in an order that turns."""
    samples = {program: Samples(program, 1, name) for program in programs}
    order = list(programs)
    for _ in range(rounds):
        order = order[1:] + order[:1]
        for program in order:
            samples[program].median.append(seconds_of(programs[program], run, calls))
    return samples


def copy_rate(run: Run) -> float:
    """Bytes a second, read and written."""
    source = torch.zeros(1 << (31 if run.device == "cuda" else 24), dtype=torch.uint8)
    source = source.to(run.device)
    to = torch.empty_like(source)
    copy = Program(lambda: to.copy_(source))
    return 2 * source.numel() / min(seconds_of(copy, run, 10) for _ in range(5))


def bytes_of_token(config: Mapping[str, Any], position: int, bits: float = 16) -> float:
    """Every weight of a matrix but the embedding's, in so many bits, and the caches up to the position, in bf16."""
    shapes = llama.shapes_of(config)
    read = sum(s[0] * s[1] for n, s in shapes.items() if len(s) == 2 and "embed" not in n)
    kv = config["hidden_size"] // config["num_attention_heads"] * config["num_key_value_heads"]
    return read * bits / 8 + 2 * config["num_hidden_layers"] * 2 * (position + 1) * kv


def rows_of(
    name: str, samples: Mapping[str, Samples], run: Run, limit: float
) -> list[dict[str, Any]]:
    what, n = sizes(name)
    count = n if what == "prefill" else 1
    rows: list[dict[str, Any]] = []
    for program, found in samples.items():
        row: dict[str, Any] = {"case": name, "program": program, "ms": found.seconds * 1e3}
        row["tokens/s"] = count / found.seconds
        if what == "decode":
            bits = run.bits if program == OURS else 16
            row["of copy"] = bytes_of_token(run.config, n, bits) / found.seconds / limit
        if program != OURS and OURS in samples:
            row["ratio"] = asdict(harness.ratio(samples[OURS], found))
        row["rounds_s"] = found.median
        rows.append(row)
    return rows


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    share = f"{row['of copy']:.0%}" if "of copy" in row else ""
    ratio = "{median:.3f} ({low:.3f}-{high:.3f})".format(**row["ratio"]) if "ratio" in row else ""
    cells = [row["case"], row["program"], f"{row['ms']:.3f}", f"{row['tokens/s']:.0f}"]
    return "| " + " | ".join([*cells, share, ratio]) + " |"


# --- the driver ---------------------------------------------------------------------------------------


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="at 512 alone, 7 rounds, two peers")
    parser.add_argument("--peers", help=f"of {', '.join(MODES)}; '' for none")
    parser.add_argument("--layers", type=int, help="32 by default")
    parser.add_argument("--weights-dtype", help="blocks of our weights: q8, q4, ...")
    parser.add_argument("--rounds", type=int, help="15 by default")
    parser.add_argument("--tiny", action="store_true", help="small sizes: to see that it works")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--work", type=Path, default=harness.ROOT / "build" / "benchmarks")
    parser.add_argument("--json", type=Path, help="all figures")
    options = parser.parse_args()
    usual = "masked,prompt" if options.quick else "masked,blocks,prompt"
    given = usual if options.peers is None else options.peers
    options.peers = [p for p in given.split(",") if p]
    if unknown := sorted(set(options.peers) - set(MODES)):
        raise SystemExit(f"No peers {', '.join(unknown)}. There are {', '.join(MODES)}.")
    positions = (512,) if options.quick else (64, 512, 2000)
    options.names = [f"decode {n}" for n in positions] + ["prefill 512"]
    options.rounds = options.rounds or (7 if options.quick else 15)
    return options


def prepared(options: argparse.Namespace) -> Run:
    config = llama.CONFIG_8B | (TINY if options.tiny else {})
    config |= {"num_hidden_layers": options.layers or config.get("num_hidden_layers", LAYERS)}
    made = torch.Generator(options.device).manual_seed(1)
    shape = (LENGTH,)
    tokens = torch.randint(
        3, config["vocab_size"], shape, generator=made, device=options.device, dtype=torch.int64
    )
    places = torch.arange(LENGTH, device=options.device)
    weights = random_weights(config, options.device)
    stream = torch.cuda.Stream() if options.device == "cuda" else None
    run = Run(config, options.device, weights, tokens, places, stream)
    if options.weights_dtype:
        fields = in_blocks(weights, options.weights_dtype, made)
        count = sum(w.numel() for w in weights.values() if w.dim() == 2)
        bits = 8 * sum(x.numel() * x.element_size() for x in fields.values()) / count
        run = replace(run, fields=fields, bits=bits)
    return run


def emitted(options: argparse.Namespace, run: Run, pool: ProcessPoolExecutor) -> Future[None]:
    """Ours is emitted and compiled in another process, as torch compiles in this one."""
    form = options.weights_dtype or ""
    about = f"{run.device}_{run.config['num_hidden_layers']}{form and '_'}{form}"
    checkpoint = write_checkpoint(
        options.work / f"llama_checkpoint_{about}", run.config, run.weights
    )
    target = "cuda:sm_90a" if run.device == "cuda" else "cpu"
    options.project = options.work / f"llama_decoder_{about}"
    if run.fields:
        save_file(dict(run.fields), checkpoint / llama.FIELDS)
    return pool.submit(llama.emit, checkpoint, options.project, "bf16", target, LENGTH, form)


def main() -> None:
    options = parsed()
    options.work.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    rows: list[dict[str, Any]] = []
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool, torch.no_grad():
        run = prepared(options)
        building = emitted(options, run, pool)
        exact = {name: exact_logits(run, name) for name in options.names}
        programs = torch_cases(run, options.peers, options.names) if options.peers else {}
        run.wait()
        with torch.inference_mode():
            programs = {p: checked(p, cases, exact, run) for p, cases in programs.items()}
        skipped = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]  # noqa: SLF001
        print(f"programs of torch without a CUDA graph: {skipped}")
        building.result()
        print(f"all built after {time.perf_counter() - begin:.0f} s", flush=True)
        ours = our_cases(run, options.project, options.names)
        run.wait()
        with torch.inference_mode():
            programs = {OURS: checked(OURS, ours, exact, run)} | programs
            limit = copy_rate(run)
            where = torch.cuda.get_device_name() if run.stream else "CPU"
            print(f"{where}, torch {torch.__version__}, {run.config['num_hidden_layers']} layers,")
            print(f"{options.rounds} rounds; a copy reaches {limit / 1e9:.0f} GB/s\n")
            print("| case | program | ms | tokens/s | of a copy's rate | peer / ours |")
            print("| --- | --- | --- | --- | --- | --- |", flush=True)
            for name in options.names:
                those = {p: cases[name] for p, cases in programs.items() if name in cases}
                calls = 20 if sizes(name)[0] == "decode" else 10
                samples = measure(name, those, run, options.rounds, calls)
                found = rows_of(name, samples, run, limit)
                print(*map(line, found), sep="\n", flush=True)
                rows += found
    if options.json:
        about = {"device": where, "torch": torch.__version__, "copy": limit}
        options.json.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    print(f"{time.perf_counter() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
