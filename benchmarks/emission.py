"""What it takes to emit a large model: seconds from its file to sources, memory, and how many kernels there are.

PYTHONPATH=. python3 benchmarks/emission.py

The shape of Llama 3 8B, with 2 layers and with 32, for each target; nothing is compiled. The file of weights is sparse:
16 GB that nobody reads.
"""

# ruff: noqa: PLC0415  # what is timed begins with the compiler's own import

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import llama

LAYERS, TARGETS = (2, 32), ("cpu", "cuda")


def make_checkpoint(directory: Path, layers: int) -> Path:
    """A file of weights in bf16 that has names, shapes and places, and a hole where the numbers are."""
    config = llama.CONFIG_8B | {"num_hidden_layers": layers}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, shape in llama.shapes_of(config).items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with (directory / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return directory


def emit(checkpoint: Path, out: Path, target: str) -> None:
    """In a process of its own, as the peak of memory is a process's."""
    begin = time.perf_counter()
    from lumigen.dtype import bf16
    from lumigen.frontend.load import load_model_file
    from lumigen.make_project import compile_project
    from lumigen.weights import open_weights

    options = {"length": "2048", "cache": "bf16"}
    model = load_model_file(llama.EXAMPLE, weights=open_weights(checkpoint), options=options)
    compile_project(
        model.trace(), directory=out, target=target, dtype=bf16, build=False, force=True
    )
    seconds, processor = time.perf_counter() - begin, time.process_time()
    kernels = len(list((out / "kernels").glob("k[0-9]*.c*")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([f"{seconds:.1f}", f"{processor:.1f}", f"{peak / 1e6:.0f}", kernels]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=harness.ROOT / "build" / "benchmarks")
    parser.add_argument("--emit", nargs=3, help=argparse.SUPPRESS)  # checkpoint, directory, target
    options = parser.parse_args()
    if options.emit:
        checkpoint, out, target = options.emit
        emit(Path(checkpoint), Path(out), target)
        return
    print("| target | layers | seconds | of a processor | peak of memory, MB | kernels |")
    print("| --- | --- | --- | --- | --- | --- |")
    for layers in LAYERS:
        checkpoint = make_checkpoint(options.work / f"llama_8b_hole_{layers}", layers)
        for target in TARGETS:
            out = options.work / f"llama_8b_{layers}_{target}"
            with tempfile.TemporaryDirectory() as cache:  # empty: nothing of an earlier run is used
                made = subprocess.run(
                    [sys.executable, __file__, "--emit", checkpoint, out, target],
                    env=os.environ | {"LUMIGEN_CACHE": cache},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
            found = json.loads(made.stdout.splitlines()[-1])
            print("|", " | ".join(map(str, (target, layers, *found))), "|", flush=True)


if __name__ == "__main__":
    main()
