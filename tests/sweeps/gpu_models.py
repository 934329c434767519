"""The architectures that are used most, imported from PyTorch, built for this machine's GPU, and compared with PyTorch.

    python tests/sweeps/gpu_models.py [--only NAMES] [--jobs 5] [--seconds 240] [--out PAGE]

Each runs in a process of its own; most of the time goes to nvcc. Needs a GPU, nvcc, torch, torchvision, transformers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import TimeoutExpired, run

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "importers"))

import imported
from shipped_programs import group_kernels
from torch_models import LIBRARIES, told, wanted

import lumigen as lg
from lumigen.build import build_project, load_module
from lumigen.compile import compile_project
from lumigen.importers.torch.exported import export
from lumigen.target import parse_target
from lumigen.targets.cuda.row import ARCHITECTURES
from lumigen.targets.cuda.tools import cuda_driver

TWENTY = {
    "torchvision": "resnet50 mobilenet_v2 efficientnet_b0 convnext_tiny vit_b_16 swin_t",
    "transformers": (
        "bert roberta distilbert modernbert gpt2 llama mistral qwen2 qwen3 gemma2 mixtral t5 whisper clip"
    ),
}
CLOSE = 1e-4  # by norm, of what PyTorch computes in double precision
HEAD = """# Imported architectures on a GPU

Each of these was made with random weights, exported by `torch.export`, imported by `lg.from_torch`, compiled and built
for the GPU in f32, run there, and compared with PyTorch in double precision: at most 1e-4 apart by norm. Those of
transformers are tiny, images have 64 pixels a side (224 for `vit_b_16`). `python tests/sweeps/gpu_models.py` makes this
page; this one is of {date}, on {gpu}.

| architecture | agrees | farthest apart | launches | reason |
| --- | --- | --- | --- | --- |
"""


def own_target() -> str:
    """The target of the GPU here, with the features of its generation where there are such."""
    found = cuda_driver().found.rpartition("(")[2].rstrip(")")
    return f"cuda:{found}a" if f"{found}a" in ARCHITECTURES else f"cuda:{found}"


def attempt(library: str, name: str) -> str:
    """The row of an architecture."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(2)
    try:
        model, args, kwargs = LIBRARIES[library][1](name)
        model = model.eval()
        want = wanted(model, args, kwargs)
        ours = lg.from_torch(export(model, args, kwargs, None), name="m")
        inputs = imported.arrays((tuple(args), dict(kwargs)))
        given = dict(zip((each for each, _ in ours.entries[0].inputs), inputs, strict=True))
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "m"
            target = own_target()
            weights = ours.sources(None)
            made = compile_project(
                ours.trace(), directory=place, target=target, weights=weights, build=False
            )
            group_kernels(place, parse_target(target).kernel_suffix)
            build_project(place)
            out = load_module(place).Model().context().forward(**given)
            found = out._asdict() if hasattr(out, "_asdict") else {"": out}
            got = {key: np.asarray(y) for key, y in found.items()}
        imported.check(got, want, CLOSE)
        floats = [
            imported.distance(g, w)
            for g, w in zip(got.values(), want, strict=True)
            if w.dtype.kind == "f"
        ]
    except Exception as e:  # noqa: BLE001
        return f"| {name} | no |  |  | {told(e)} |"
    return f"| {name} | yes | {max(floats, default=0):.0e} | {made.entries[0].launches} |  |"


def bounded(library: str, name: str, seconds: float) -> str:
    """`attempt` by a process of its own, whose last line is the row."""
    begin = time.monotonic()
    command = [sys.executable, __file__, "--one", f"{library}/{name}"]
    try:
        done = run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except TimeoutExpired:
        return f"| {name} | no |  |  | more than {seconds:.0f} seconds |"
    rows = [line for line in done.stdout.splitlines() if line.startswith(f"| {name} |")]
    why = next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
    row = rows[-1] if rows else f"| {name} | no |  |  | {why[:150]} |"
    print(row, f"{time.monotonic() - begin:.0f} s", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=240, help="of one architecture")
    parser.add_argument("--out", type=Path, default=Path("docs/gpu_models.md"))
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(attempt(*given.one.split("/")))
        return
    only = set(filter(None, given.only.split(",")))
    wanted_ones = [
        (library, name)
        for library, names in TWENTY.items()
        for name in names.split()
        if not only or name in only
    ]
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda one: bounded(*one, given.seconds), wanted_ones))
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    head = HEAD.format(date=date, gpu=torch.cuda.get_device_name())
    given.out.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
