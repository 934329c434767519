"""Every test that the package `onnx` ships: imported, run by the interpreter, compared; and the table of it.

    python tests/sweeps/onnx_nodes.py                     # how many pass
    python tests/sweeps/onnx_nodes.py --list              # each one that does not
    python tests/sweeps/onnx_nodes.py --symbolic          # every size of an input is a dim, where its case has one
    python tests/sweeps/onnx_nodes.py --write docs/onnx.md
    python tests/sweeps/onnx_nodes.py test_relu test_gru_defaults

Those of single nodes, and the models among its data: `simple`, `pytorch-converted`, `pytorch-operator`, and `light`,
which are whole classifiers whose weights a node fills.

An input whose numbers decide a shape has the numbers of the case while the model is imported; so has what holds no
elements, and what is no tensor. The table counts those cases. A case that differs by rounding alone is a row of its
own: the interpreter computes in f64 and rounds at casts and outputs, where ONNX rounds after each operator.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

import lumigen as lg
from lumigen.errors import DimSpecialised, LumigenError, NotConstant
from lumigen.importers.onnx.ports import identifier
from lumigen.importers.onnx.values import HELD
from lumigen.interp.graph import evaluate

UNITS = 4  # in the last place of the greatest element, that rounding alone may make
KINDS = ("simple", "pytorch-converted", "pytorch-operator")
HOWS = ("passed", "rounded", "refused", "wrong", "broken")


@dataclass(frozen=True)
class Found:
    """How a case went, one of HOWS, and why; `fixed` are inputs that were given while importing."""

    name: str
    ops: tuple[str, ...]
    how: str
    why: str = ""
    fixed: tuple[str, ...] = ()
    free: int = 0
    ulps: float = 0.0
    kind: str = "node"


def cases() -> list:
    """The cases of single nodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def model_cases() -> list:
    """Those that are files of the package, with the messages of their inputs and outputs."""
    found = [c for kind in KINDS for c in load_model_tests(kind=kind)]
    return [*map(loaded, found), *map(light, load_model_tests(kind="real"))]


def loaded(case):
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    ports = model.graph.input, model.graph.output
    sets = [
        tuple(
            messages(part, f, name) for part, name in zip(ports, ("input", "output"), strict=True)
        )
        for f in sorted(folder.glob("test_data_set_*"))
    ]
    return dataclasses.replace(case, model=model, data_sets=sets)


def messages(ports, folder: Path, name: str) -> list:
    """The values of files `input_0.pb` and so on, each in its port's kind."""
    return [
        message(port.type, folder / f"{name}_{i}.pb")
        for i, port in enumerate(ports)
        if (folder / f"{name}_{i}.pb").is_file()
    ]


def message(declared, file: Path):
    if declared.WhichOneof("value") == "sequence_type":
        found = onnx.SequenceProto()
        found.ParseFromString(file.read_bytes())
        return numpy_helper.to_list(found)
    found = TensorProto()
    found.ParseFromString(file.read_bytes())
    return found


def light(case):
    """A classifier, of numbers that rise evenly from 0 to 1: its outputs are stored for those."""
    file = Path(onnx.__file__).parent.parent / case.url
    model = onnx.load(file)
    initial = {t.name for t in model.graph.initializer}
    (port,) = (i for i in model.graph.input if i.name not in initial)
    shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
    image = (np.arange(np.prod(shape)) / np.prod(shape)).reshape(shape).astype(np.float32)
    wanted = message(model.graph.output[0].type, file.with_name(f"{file.stem}_output_0.pb"))
    return dataclasses.replace(case, model=model, data_sets=[([image], [wanted])])


def plain(value):
    """A value of a case as arrays: of a message, a sequence or an option."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if value is None:
        return None
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def flattened(value) -> list[np.ndarray]:
    """The arrays of a value, those of sequences one by one."""
    if isinstance(value, list):
        return [a for v in value for a in flattened(v)]
    return [] if value is None else [value]


def as_held(array):
    """An array of the case in the type that the entry has."""
    return array.astype(HELD[array.dtype].numpy) if array.dtype in HELD else array


def imported(case, inputs):
    """The graph, its weights, and the inputs that had to be given while importing."""
    fixed = {n: a for n, a in inputs.items() if not isinstance(a, np.ndarray) or not a.size}
    dims: dict[str, object] = {
        d.dim_param: around(d.dim_param, int(size))
        for i in case.model.graph.input
        if i.type.HasField("tensor_type") and i.name in inputs and i.name not in fixed
        for d, size in zip(i.type.tensor_type.shape.dim, inputs[i.name].shape, strict=True)
        if d.dim_param
    }
    while True:
        try:
            model = lg.from_onnx(case.model, dims=dims, inputs=fixed)
            return dict(model.trace().entries)["forward"], model.values(), fixed
        except DimSpecialised:
            if any(name == f"d{d[1] - 2}" for name, d in dims.items() if isinstance(d, tuple)):
                raise  # the case is about what sizes it takes
            if all(isinstance(d, int) for d in dims.values()):
                raise
            dims = {name: d[1] for name, d in dims.items()}
        except NotConstant as e:
            new = [name for name in e.facts["inputs"] if name in inputs and name not in fixed]
            if not new:
                raise
            fixed[new[-1]] = inputs[new[-1]]


def around(name: str, size: int) -> tuple[int, int]:
    """The range of a dim: of one that `symbolic` has made, sizes on both sides of that of the case."""
    return (max(1, size - 1), size + 2) if name == f"d{size}" else (1, size)


def ulps(got, want) -> float:
    """The greatest distance in units in the last place of what is wanted; 0 for what are no floats."""
    if not is_float(want) or not want.size:
        return 0.0
    unit = np.spacing(np.abs(want)).astype(np.float64)
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b) / unit, 0.0)
    return float(np.max(apart, initial=0.0))


def is_float(array) -> bool:
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16


def difference(got, want, case) -> tuple[str, str]:
    """Why an output is not what is expected; empty where it is."""
    held = HELD.get(want.dtype)
    if got.shape != want.shape:
        return "wrong", f"shape {got.shape}, expected {want.shape}"
    if held is None or np.dtype(held.numpy) != got.dtype:
        return "wrong", f"type {got.dtype}, expected {want.dtype}"
    a, b = (x.astype(np.float64) for x in (got, want))
    if np.allclose(a, b, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return "passed", ""
    apart = np.abs(a - b)
    unit = 1.0
    if is_float(want):
        unit = UNITS * float(np.spacing(np.abs(want).max()))
    how = "rounded" if np.isfinite(apart).all() and apart.max() <= unit else "wrong"
    return how, f"differs by {np.nanmax(apart):.3g}, where {np.abs(b).max():.3g} is the greatest"


def symbolic(case):
    """The case with a dim for every size above 1, the same one for equal sizes; None where it has no such case.

    What must be given while importing stays as it is.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(case.model)
    if len(case.data_sets) != 1 or case.name.endswith("expanded"):
        return None
    inputs = dict(
        zip([i.name for i in changed.graph.input], map(plain, case.data_sets[0][0]), strict=False)
    )
    try:
        *_, fixed = imported(case, inputs)
    except LumigenError:
        return None
    made = False
    for i in changed.graph.input:
        if i.name in inputs and i.name not in fixed and i.type.HasField("tensor_type"):
            for d, size in zip(i.type.tensor_type.shape.dim, inputs[i.name].shape, strict=True):
                if size > 1:
                    d.dim_param, made = f"d{size}", True
    return dataclasses.replace(case, model=changed) if made else None


def judged(case) -> Found:
    """One case, all of its data sets."""
    return dataclasses.replace(_judged(case), kind="light" if case.kind == "real" else case.kind)


def _judged(case) -> Found:
    ops = tuple(sorted({n.op_type for n in case.model.graph.node}))
    try:
        return run(case, ops)
    except LumigenError as e:
        how = "refused" if e.exit_code == 1 else "broken"
        return Found(case.name, ops, how, str(e))
    except Exception as e:  # noqa: BLE001  # what is counted
        return Found(case.name, ops, "broken", f"{type(e).__name__}: {str(e)[:200]}")


def run(case, ops: tuple[str, ...]) -> Found:
    graph = case.model.graph
    initial = {t.name for t in graph.initializer}
    names = [i.name for i in graph.input if i.name not in initial]
    worst, fixed, free = 0.0, (), 0
    for given, wanted in case.data_sets:
        inputs = dict(zip(names, map(plain, given), strict=False))
        entry, weights, known = imported(case, inputs)
        fixed, free = tuple(known), len(inputs) - len(known)
        arrays = {identifier(n, ()): as_held(a) for n, a in inputs.items() if n not in known}
        found = evaluate(entry, arrays, weights)
        flat = [a for w in wanted for a in flattened(plain(w))]
        for got, want in zip(found.values(), flat, strict=True):
            how, why = difference(got, want, case)
            if how != "passed":
                return Found(case.name, ops, how, why, fixed, free)
            worst = max(worst, ulps(got, want))
    return Found(case.name, ops, "passed", "", fixed, free, worst)


# --- the command ----------------------------------------------------------------------------------

_CASES: list = []


def _judged_at(i: int) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return judged(_CASES[i])


def _judged_symbolic_at(i: int) -> Found | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = symbolic(_CASES[i])
        return None if case is None else judged(case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table")
    parser.add_argument("--symbolic", action="store_true", help="with dims for sizes")
    parser.add_argument("--list", action="store_true", help="print every case that does not pass")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    every = [*cases(), *([] if args.symbolic else model_cases())]
    _CASES.extend(c for c in every if not args.names or c.name in args.names)
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        every = range(len(_CASES))
        found, dims = list[Found](), list[Found]()
        if not args.symbolic:
            found = list(pool.map(_judged_at, every, chunksize=20))
        if args.symbolic or args.write:
            nodes = [i for i in every if _CASES[i].kind == "node"]
            dims = [f for f in pool.map(_judged_symbolic_at, nodes, chunksize=20) if f is not None]
    if args.write:
        args.write.write_text(page(found, dims), encoding="utf-8")
    found = dims if args.symbolic else found
    number = Counter(f.how for f in found)
    print(", ".join(f"{number[how]} {how}" for how in HOWS))
    for f in sorted(found, key=lambda f: (HOWS.index(f.how), f.why)):
        if args.names or (args.list and f.how != "passed"):
            print(f.how, f.name, f.why, " ".join(f.fixed), f"{f.ulps:.1f}")


def page(found: Sequence[Found], dims: Sequence[Found]) -> str:
    """The table as a page; `dims` are the cases whose sizes are symbolic."""
    of_dims = Counter(f.how for f in dims)
    given = [f for f in found if f.fixed and f.how == "passed"]
    all_given = [f for f in given if not f.free]
    today = datetime.now(tz=UTC).date()
    lines = [
        "# ONNX operators",
        "",
        f"The {len(found)} tests that the package `onnx` {onnx.__version__} ships, each imported and run by the",
        f"interpreter at its own tolerances, on {today}; `node` are those of single operators:",
        "",
        *table(("tests", "cases", *HOWS), counts(found)),
        "",
        f"Of those that pass, {len(given)} have inputs that decide shapes, such as the axes of a reduction, and",
        f"are given while the model is imported (`--set`); in {len(all_given)} of them that is every input.",
        "`rounded` differs from what is expected by rounding alone: the interpreter rounds at casts and",
        "outputs, ONNX after each operator.",
        "",
        f"In {len(dims)} cases every size above 1 can be a dim, in a range around the size of the case.",
        f"Imported that way {of_dims['passed']} pass, {of_dims['rounded']} are rounded, {of_dims['refused']} are",
        f"refused, as they ask for a fixed size, and {of_dims['wrong'] + of_dims['broken']} are wrong.",
        "",
        "[The sweep](../tests/sweeps/onnx_nodes.py) writes this page:",
        "`python tests/sweeps/onnx_nodes.py --write docs/onnx.md`.",
        "",
        "## What does not pass",
        "",
        *table(("result", "reason", "tests", "cases"), reasons(found)),
        "",
        "## Largest error of each operator",
        "",
        "In units in the last place (ULP) of the expected floats, over the cases of one node that pass. Expected",
        "numbers are computed in f32 themselves, and small differences of large numbers have many units.",
        "",
        *table(("operator", "cases", "largest ULP"), errors(found)),
        "",
    ]
    return "\n".join(lines)


def counts(found: Sequence[Found]) -> list[tuple[object, ...]]:
    """How the cases of each kind went."""
    kinds = dict.fromkeys(f.kind for f in found)
    of = {kind: Counter(f.how for f in found if f.kind == kind) for kind in kinds}
    return [(kind, of[kind].total(), *(of[kind][how] for how in HOWS)) for kind in kinds]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"| {' | '.join('---' for _ in head)} |",
        *(f"| {' | '.join(str(c).replace('|', '/') for c in row)} |" for row in rows),
    ]


def reasons(found: Sequence[Found]) -> list[tuple[str, str, str, str]]:
    """The cases by why they do not pass, with how many are of which tests; texts without the node's place."""
    by: dict[tuple[str, str], list[Found]] = {}
    for f in found:
        if f.how != "passed":
            why = f.why[f.why.find("[") :] if "[" in f.why else f.why
            by.setdefault((f.how, why), []).append(f)
    rows = [
        (how, why, kinds(alike), ", ".join(f.name.removeprefix("test_") for f in alike))
        for (how, why), alike in by.items()
    ]
    return sorted(rows, key=lambda r: (HOWS.index(r[0]), r[1]))


def kinds(found: Sequence[Found]) -> str:
    """How many cases are of which tests."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(f.kind for f in found).items())


def errors(found: Sequence[Found]) -> list[tuple[str, int, str]]:
    """(operator, cases, largest error) of the cases of one node."""
    by: dict[str, list[float]] = {}
    for f in found:
        if f.how == "passed" and len(f.ops) == 1:
            by.setdefault(f.ops[0], []).append(f.ulps)
    return [(op, len(all_), f"{max(all_):.3g}") for op, all_ in sorted(by.items())]


if __name__ == "__main__":
    main()
