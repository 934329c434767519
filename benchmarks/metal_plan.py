"""What a token of a Llama takes on a GPU of Apple's by its plan: launches, bytes, operations; no GPU is needed.

    python benchmarks/metal_plan.py

Weights and caches are held in f16. Bytes are those of every launch's operands and results, as the kernels' costs say.
Then what a token of Llama 2 takes on chips at least: its matrices by their memory, with a short context, and the
operations of a prompt's by their arithmetic.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import lumigen as lg
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

EXAMPLE = Path(__file__).parent.parent / "examples" / "llama" / "model.py"
BOTH = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
MODELS = {
    "Llama 2, 7B": BOTH
    | {"intermediate_size": 11008, "num_key_value_heads": 32, "vocab_size": 32000},
    "Llama 3, 8B": BOTH
    | {"intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 128256},
}
MORE = {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
PREFILL = 512
# Bytes and operations of f32 in a second, 1e9 and 1e12 of them; docs/metal_speed.md says whose numbers they are.
CHIPS = {
    "M1 Pro, 16 cores": (200, 5.2),
    "M2 Max, 38 cores": (400, 13.6),
    "M3 Max, 40 cores": (400, 14),
    "M4, 10 cores": (120, 4),
    "M5, 10 cores": (153, 13),
}
BYTES = {"f16": 2, "8 bits": 34 / 32, "4 bits": 18 / 32}  # of a weight; blocks of 32 have a scale


def traced(config: dict[str, object], folder: Path) -> lg.Traced:
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"none": np.zeros(1, np.float32)}, folder / "model.safetensors")
    options = {"prefill": str(PREFILL), "length": "2048", "cache": "f16"}
    model = lg.load_model_file(EXAMPLE, weights=lg.open_weights(folder), options=options)
    return model.trace()


def limits(operations: float) -> None:
    """Tokens in a second that a chip's memory and its arithmetic allow; `operations` of a token of the prompt."""
    width, depth = 4096, 32
    weights = depth * (4 * width * width + 3 * width * 11008) + 32000 * width
    print(
        "GB of the matrices of Llama 2, 7B:",
        {n: round(b * weights / 1e9, 1) for n, b in BYTES.items()},
    )
    print(f"| chip | GB/s | TFLOP/s | decode {', '.join(BYTES)} | prefill |")
    print("| --- | --- | --- | --- | --- |")
    for chip, (memory, arithmetic) in CHIPS.items():
        decode = ", ".join(f"{memory * 1e9 / (b * weights):.0f}" for b in BYTES.values())
        prefill = arithmetic * 1e12 / operations
        print(f"| {chip} | {memory} | {arithmetic} | {decode} | {prefill:.0f} |")


def main() -> None:
    operations: dict[tuple[str, str], float] = {}
    print("| model | entry | launches | GB read and written | billions of operations |")
    print("| --- | --- | --- | --- | --- |")
    for name, config in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            made = lower_model(
                traced(config | MORE, Path(folder)), {}, target=parse_target("metal"), dtype=lg.f16
            ).model
        for p in made.programs:
            dims = dict.fromkeys(p.dims, PREFILL)
            launches = p.chosen(dims)
            costs = [(made.kernel(x.kernel).cost, x.numbers(dims)) for x in launches]
            flops, read, written = (sum(x) for x in zip(*(c.at(n) for c, n in costs), strict=True))
            print(
                f"| {name} | {p.entry} | {len(launches)} | {(read + written) / 1e9:.2f} | {flops / 1e9:.1f} |"
            )
            operations[name, p.entry] = flops
    print()
    limits(operations["Llama 2, 7B", "prefill"] / PREFILL)


if __name__ == "__main__":
    main()
