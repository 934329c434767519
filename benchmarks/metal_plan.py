"""What a token of a Llama takes on a GPU of Apple's by its plan: launches, bytes, operations; no GPU is needed.

    python benchmarks/metal_plan.py

Weights and caches are held in f16. Bytes are those of every launch's operands and results, as the kernels' costs say.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import lumigen as lg
from lumigen.compile import lower_model
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


def traced(config: dict[str, object], folder: Path) -> lg.Traced:
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"none": np.zeros(1, np.float32)}, folder / "model.safetensors")
    options = {"prefill": str(PREFILL), "length": "2048", "cache": "f16"}
    model = lg.load_model_file(EXAMPLE, weights=lg.open_weights(folder), options=options)
    return model.trace()


def main() -> None:
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


if __name__ == "__main__":
    main()
