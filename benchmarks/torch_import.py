"""Seconds that a module of PyTorch takes to be imported, on top of torch.export itself.

    python3 benchmarks/torch_import.py [--libraries DIR] [resnet50] [bert]

ResNet-50 is torchvision's, `pip install --no-deps --target DIR torchvision pillow`, BERT-base that of transformers,
both with random weights and a symbolic batch. Of the rounds the quickest is printed; a processor's time is that of all
of its threads.
"""

# ruff: noqa: PLC0415  # torchvision need not be there for the other one

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import torch

import lumigen as lg

ROUNDS = 3
BATCH = torch.export.Dim("batch", min=1, max=64)
LENGTH = torch.export.Dim("length", min=2, max=512)


def resnet50() -> tuple[Any, ...]:
    for name in ("nms", "qnms"):  # of another build; the model needs none of them
        torch.library.define(f"torchvision::{name}", "(Tensor boxes) -> Tensor")
    import torchvision

    model = torchvision.models.resnet50(weights=None)
    return model, (torch.randn(2, 3, 224, 224),), {}, [{0: BATCH}]


def bert() -> tuple[Any, ...]:
    import transformers

    model = transformers.BertModel(transformers.BertConfig())
    ids, mask = torch.randint(0, 30000, (2, 16)), torch.ones(2, 16, dtype=torch.int64)
    shapes = {0: BATCH, 1: LENGTH}
    named = {"input_ids": ids, "attention_mask": mask}
    return model, (), named, dict.fromkeys(named, shapes)


MODELS = {"resnet50": resnet50, "bert": bert}


def seconds(model: Any, args: Any, kwargs: Any, shapes: Any) -> tuple[tuple[float, float], ...]:
    """(on the clock, of the processor) of torch.export, and of from_torch with its trace."""
    start = time.perf_counter(), time.process_time()
    program = torch.export.export(model.eval(), args, kwargs, dynamic_shapes=shapes)
    middle = time.perf_counter(), time.process_time()
    lg.from_torch(program, name="model")
    end = time.perf_counter(), time.process_time()
    return tuple((b[0] - a[0], b[1] - a[1]) for a, b in ((start, middle), (middle, end)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--libraries", default="build/libraries")
    parser.add_argument("names", nargs="*", default=list(MODELS))
    given = parser.parse_args()
    sys.path.append(given.libraries)
    warnings.simplefilter("ignore")
    for name in given.names:
        made = MODELS[name]()
        rounds = [seconds(*made) for _ in range(ROUNDS)]
        for what, found in zip(("torch.export", "lumigen"), zip(*rounds, strict=True), strict=True):
            clock, processor = (min(times) for times in zip(*found, strict=True))
            print(f"{name:10} {what:13} {clock:6.2f} s, {processor:6.2f} s of the processor")


if __name__ == "__main__":
    main()
