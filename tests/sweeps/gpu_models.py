"""The architectures that are used most, imported from PyTorch, built for a GPU, and compared with PyTorch there.

    python tests/sweeps/gpu_models.py --emit DIR [--only NAMES]           # needs torch, torchvision, transformers
    python tests/sweeps/gpu_models.py --run DIR [--jobs 5] [--out PAGE]   # needs a GPU and nvcc

The two may be two machines. A project goes from one to the other with its inputs, and with what PyTorch gives in double
precision; parameters are random numbers of their names, so that both machines make the same. Each project is built in
a process of its own: most of the time goes to nvcc.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import time
import warnings
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from subprocess import TimeoutExpired, run
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "importers"))

from shipped_programs import group_kernels

from lumigen.build import build_project, load_module
from lumigen.directory import read_manifest
from lumigen.target import parse_target

TWENTY = {
    "torchvision": "resnet50 mobilenet_v2 efficientnet_b0 convnext_tiny vit_b_16 swin_t",
    "transformers": (
        "bert roberta distilbert modernbert gpt2 llama mistral qwen2 qwen3 gemma2 mixtral t5 whisper clip"
    ),
}
CLOSE = 1e-4  # by norm, of what PyTorch computes in double precision
GIVEN, DRAWN = "given.npz", "drawn.json"
HEAD = """# Imported architectures on a GPU

Each of these was made with random weights, exported by `torch.export`, imported by `lg.from_torch`, compiled and built
for the GPU in f32, run there, and compared with PyTorch in double precision: at most 1e-4 apart by norm. Those of
transformers are tiny, images have 64 pixels a side (224 for `vit_b_16`). [The sweep](../tests/sweeps/gpu_models.py)
makes this page; this one is of {date}, on {gpu}, built with nvcc {nvcc}.

| architecture | agrees | farthest apart | launches | reason |
| --- | --- | --- | --- | --- |
"""


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A parameter: numbers that its name decides, of a size that keeps what a deep network computes about as large."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = np.asarray(rng.standard_normal(shape), np.float32)
    if len(shape) > 1:
        return found / np.float32(np.sqrt(np.prod(shape[1:])))
    return np.asarray(found * 0.1 + ("bias" not in name), np.float32)


# --- where PyTorch is -------------------------------------------------------------------------------


def emit(library: str, name: str, folder: Path, target: str) -> str:
    """The project of an architecture, and what it is given; how long that took."""
    import imported
    import torch
    from torch_models import LIBRARIES, register_torchvision, wanted

    import lumigen as lg
    from lumigen.importers.torch.exported import export
    from lumigen.make_project import compile_project

    begin = time.monotonic()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    if library not in sys.modules:
        register_torchvision()
    model, args, kwargs = LIBRARIES[library][1](name)
    model = model.eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(drawn(key, tuple(parameter.shape))))
    want = wanted(model, args, kwargs)
    ours = lg.from_torch(export(model, args, kwargs, None), name=f"gpu_{name}")
    traced, held = ours.trace(), ours.values()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    compile_project(traced, directory=folder / "project", target=target, build=False)
    inputs = imported.arrays((tuple(args), dict(kwargs)))
    given = {f"in.{n}": a for (n, _), a in zip(ours.entries[0].inputs, inputs, strict=True)}
    given |= {f"out.{i}": a for i, a in enumerate(want)}
    given |= {f"w.{w.name}": held[w.name] for w in traced.weights if w.name not in parameters}
    np.savez_compressed(folder / GIVEN, **given)
    shapes = {w.name: w.shape for w in traced.weights if w.name in parameters}
    (folder / DRAWN).write_text(json.dumps(shapes))
    return f"{name}: {time.monotonic() - begin:.0f} s"


# --- where the GPU is -------------------------------------------------------------------------------


def attempt(folder: Path) -> str:
    """The row of an architecture."""
    name = folder.name
    try:
        with np.load(folder / GIVEN) as file:
            given = dict(file)
        weights = {n: drawn(n, tuple(s)) for n, s in json.loads(_read(folder / DRAWN)).items()}
        weights |= {n.removeprefix("w."): a for n, a in given.items() if n.startswith("w.")}
        project = folder / "project"
        if not (project / "python").exists():
            build(project)
        (folder / "weights.safetensors").write_bytes(safetensors(weights))
        context = load_module(project).Model(weights=str(folder / "weights.safetensors")).context()
        inputs = {n.removeprefix("in."): a for n, a in given.items() if n.startswith("in.")}
        out = context.forward(**inputs)
        got = [np.asarray(y) for y in (out if isinstance(out, tuple) else (out,))]
        want = [a for n, a in given.items() if n.startswith("out.")]
        apart = compared(got, want)
        manifest = read_manifest(project)
        assert manifest is not None
        launches = len(manifest["entries"][0]["launches"])
    except Exception as e:  # noqa: BLE001
        return f"| {name} | no |  |  | `{type(e).__name__}: {' '.join(str(e).split())[:200]}` |"
    return f"| {name} | {'yes' if apart <= CLOSE else 'no'} | {apart:.0e} | {launches} |  |"


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def build(project: Path) -> None:
    manifest = read_manifest(project)
    assert manifest is not None
    group_kernels(project, parse_target(str(manifest["target"])).kernel_suffix)
    build_project(project)


def compared(got: list[Any], want: list[Any]) -> float:
    """How far outputs are apart by norm, the farthest; infinite where shapes or integers differ."""
    apart = [0.0 if len(got) == len(want) else np.inf]
    for a, b in zip(got, want, strict=False):
        if a.shape != b.shape or (b.dtype.kind != "f" and not np.array_equal(a, b)):
            apart.append(np.inf)
        elif b.dtype.kind == "f":
            wide = a.astype(np.float64)
            apart.append(float(np.linalg.norm(wide - b) / max(float(np.linalg.norm(b)), 1e-30)))
    return float(np.max(apart))  # NaN where one is


def safetensors(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """A file of weights."""
    kinds = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "bool": "BOOL"}
    header: dict[str, Any] = {}
    end = 0
    for name, a in arrays.items():
        place = [end, end := end + a.nbytes]
        header[name] = {
            "dtype": kinds[a.dtype.name],
            "shape": list(a.shape),
            "data_offsets": place,
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in arrays.values())


def bounded(folder: Path, action: str, seconds: float) -> str:
    """`attempt`, or a build alone, by a process of its own, whose last line is the row."""
    begin = time.monotonic()
    command = [sys.executable, __file__, "--one", action, "--run", str(folder)]
    name = folder.name
    try:
        done = run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except TimeoutExpired:
        return f"| {name} | no |  |  | more than {seconds:.0f} seconds |"
    rows = [line for line in done.stdout.splitlines() if line.startswith(f"| {name} |")]
    why = next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
    row = rows[-1] if rows else f"| {name} | no |  |  | {why[:150]} |"
    print(row, f"{time.monotonic() - begin:.0f} s", flush=True)
    return row


def one(action: str, folder: Path) -> str:
    if action == "build":
        build(folder / "project")
        return f"| {folder.name} | built |"
    return attempt(folder)


def described(command: list[str], after: str) -> str:
    """What a tool says of this machine, or of itself."""
    if which(command[0]) is None:
        return "unknown"
    said = run(command, capture_output=True, text=True, check=False).stdout
    line = next((s for s in said.splitlines() if after in s), "")
    return line.partition(after)[2].partition("(")[0].strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emit", type=Path, metavar="DIR")
    parser.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--build", action="store_true", help="with --run: build, and run nothing")
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=240, help="of one architecture")
    parser.add_argument("--out", type=Path, help="the page that is written")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(one(given.one, given.run))
        return
    only = set(filter(None, given.only.split(",")))
    chosen = [
        (library, name)
        for library, names in TWENTY.items()
        for name in names.split()
        if not only or name in only
    ]
    for library, name in chosen if given.emit else ():
        (given.emit / name).mkdir(parents=True, exist_ok=True)
        print(emit(library, name, given.emit / name, given.target), flush=True)
    if given.run:
        folders = [given.run / name for _, name in chosen if (given.run / name).exists()]
        action = "build" if given.build else "run"
        with ThreadPoolExecutor(given.jobs) as pool:
            rows = list(pool.map(lambda f: bounded(f, action, given.seconds), folders))
        if given.out:
            head = HEAD.format(
                date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
                gpu=described(["nvidia-smi", "-L"], ": "),
                nvcc=described(["nvcc", "--version"], "release ").partition(",")[0],
            )
            given.out.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
