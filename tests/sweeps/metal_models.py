"""The examples on the emulator of Metal, small, of random weights: against the interpreter, texts against the CPU.

    python tests/sweeps/metal_models.py [--only NAMES] [--seed 1] [--jobs 2] [--write docs/metal_models.md]

Each is built for Metal and runs in a process of its own. Of decoders the greedy text is compared with what kernels of
the CPU say, with matrices in f32 and in blocks of 8 and of 4 bits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "models"))
sys.path.insert(0, str(Path(__file__).parent.parent / "gpu"))

import numpy as np
import test_classifiers
import test_decoders
import test_gpu_examples as examples
import test_yolov8
from metal_whole import WHOLE, same_text
from small_models import Compiled, Interpreted, distance, example, farthest, random_weights, save

import lumigen as lg
from lumigen.quantise import quantised

DTYPES = {"f32": lg.f32, "f16": lg.f16, "bf16": lg.bf16}
DECODERS = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
SECONDS = 3600  # of a row
BLOCKS = ("", "q8", "q4")
PROMPT, TOKENS = test_decoders.IDS[:5].tolist(), 12
OnMetal = examples.OnGPU


def loaded(name: str, folder: Path, **options: str) -> tuple[lg.Traced, Mapping[str, Any]]:
    place, config, _ = examples.CASES[name]
    labels = {"classifier.bias": np.zeros(7, np.float32)}  # which say how many there are
    traced, _ = example(place, save(folder, labels, examples.written(config)), **options)
    return traced, random_weights(traced)


def of_example(name: str, dtype: lg.DType, folder: Path) -> float:
    """How far results are from the interpreter's, of the greatest."""
    options = {"sound": "f32"} if name == "whisper" else {}
    traced, weights = loaded(name, folder, **options)
    exact = Interpreted(traced, weights)
    context = OnMetal(traced, weights, dtype, "metal", folder / "project")
    calls = [
        (
            entry,
            {
                n: np.float32(x) if np.asarray(x).dtype == np.float64 else x
                for n, x in inputs.items()
            },
        )
        for entry, inputs in examples.CASES[name][2]
    ]
    allowed = farthest(traced, weights, dtype, calls, examples.TOLERANCE[dtype])
    found = 0.0
    for (entry, given), limit in zip(calls, allowed, strict=True):
        pairs = zip(
            context.run(entry, **given).values(), exact.run(entry, **given).values(), strict=True
        )
        apart = max(distance(one, other) for one, other in pairs)
        if apart > limit:
            raise AssertionError(f"{apart:.1e} apart where {limit:.1e} is allowed")
        found = max(found, apart)
    return found


def of_resnet(dtype: lg.DType, folder: Path) -> float:
    expected = test_classifiers.resnet18(folder)
    traced, weights = example("resnet", folder, **test_classifiers.options("resnet"))
    context = OnMetal(traced, weights, dtype, "metal", folder / "project")
    (found,) = context.run("classify", image=test_classifiers.IMAGES).values()
    if (apart := distance(found, expected)) > examples.TOLERANCE[dtype]:
        raise AssertionError(f"{apart:.1e} apart")
    return apart


def of_yolov8(dtype: lg.DType, folder: Path) -> float:
    tensors = test_yolov8.checkpoint(folder)
    traced, weights = example("yolov8", folder, **test_yolov8.OPTIONS)
    context = OnMetal(traced, weights, dtype, "metal", folder / "project")
    test_yolov8.check(context, tensors, examples.TOLERANCE[dtype])
    return examples.TOLERANCE[dtype]


def of_text(name: str, blocks: str, folder: Path) -> int:
    """Tokens that are the CPU's, all of them."""
    traced, weights = loaded(name, folder)
    if blocks:
        found = quantised(traced, weights, blocks, ())
        traced, weights = found.traced, found.weights
    arrays = {w.name: np.asarray(weights[w.name]) for w in traced.weights}
    found = OnMetal(traced, arrays, lg.f32, "metal", folder / "project")
    return same_text(found, Compiled(traced, arrays), PROMPT, TOKENS)


def rows() -> Iterator[tuple[str, Callable[[Path], float]]]:
    for kind, dtype in DTYPES.items():
        for name in examples.CASES:
            if name != "whisper" or kind == "f32":  # whose sound stays in f32
                yield f"{name} {kind}", lambda f, n=name, d=dtype: of_example(n, d, f)
        yield f"resnet {kind}", lambda f, d=dtype: of_resnet(d, f)
        yield f"yolov8 {kind}", lambda f, d=dtype: of_yolov8(d, f)
    for name in DECODERS:
        for blocks in BLOCKS:
            yield f"text of {name} {blocks}".strip(), lambda f, n=name, b=blocks: of_text(n, b, f)
    yield from WHOLE.items()


def attempt(name: str, seed: int) -> tuple[bool, str]:
    """In a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--here", name]
    env = {**os.environ, "LUMIGEN_EMULATOR_SEED": str(seed)}
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"not within {SECONDS} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    found = done.returncode == 0, (lines or ["it said nothing"])[-1][:400]
    print(f"{name}: {found}, {time.monotonic() - begun:.0f} s", flush=True)
    return found


def attempt_or_read(name: str, seed: int, file: Path | None) -> tuple[bool, str]:
    """As `attempt`, whose result is added to the file; what the file has is not run again."""
    lines = file.read_text(encoding="utf-8").splitlines() if file and file.is_file() else []
    known = {row["name"]: (row["agrees"], row["said"]) for row in map(json.loads, lines)}
    if name in known:
        return known[name]
    agrees, said = attempt(name, seed)
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"name": name, "agrees": agrees, "said": said}) + "\n")
    return agrees, said


HEAD = """# The examples on the emulator of Metal

Compiled for `--target metal` and run on the [emulator](metal.md), threads in the order of seed {seed}: how far they
are from the interpreter's results in float64, from PyTorch's or from those of kernels for the CPU, as a share of the
greatest one (of YOLOv8, less than what), and whether greedy texts are those of kernels for the CPU. Those called whole
are as large as they are published, and MiniLM and stories260K have their weights; the others are small. All other
weights are random. Images, sounds and texts are short.
`python tests/sweeps/metal_models.py --write docs/metal_models.md` makes this page; this one is of {date}{part}.

| model | agrees | how far apart, or how many tokens with the prompt |
| --- | --- | --- |
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--kept", type=Path, help="a file of results, which grows")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = dict(rows())
    if options.here:
        with tempfile.TemporaryDirectory() as folder:
            found = known[options.here](Path(folder))
            print(f"{found:.1e}" if isinstance(found, float) else found)
        return 0
    names = [n for n in known if not options.only or any(o in n for o in options.only)]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda n: attempt_or_read(n, options.seed, options.kept), names))
    if options.write:
        part = " and has what `--only` named" if options.only else ""
        text = HEAD.format(seed=options.seed, date=datetime.now(UTC).date(), part=part)
        for name, (agrees, said) in zip(names, found, strict=True):
            text += f"| {name} | {'yes' if agrees else 'no'} | {said} |\n"
        options.write.write_text(text, encoding="utf-8")
    return 0 if all(agrees for agrees, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
