"""Every node test of the package `onnx`: imported, run by the interpreter, compared; and the table of it.

python tests/sweeps/onnx_nodes.py [--write docs/onnx.md] [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from onnx import TensorProto, numpy_helper

import lumigen as lg
from lumigen.errors import DimSpecialised, LumigenError, NotConstant
from lumigen.importers.onnx.importing import identifier
from lumigen.importers.onnx.values import HELD
from lumigen.interp.graph import evaluate

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Found:
    """How a case went: `passed`, `refused`, `wrong` or `broken`, and why."""

    name: str
    ops: tuple[str, ...]
    how: str
    why: str = ""
    fixed: tuple[str, ...] = ()
    ulps: float = 0.0


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return collect_testcases(None)


def plain(value):
    """A value of a case as arrays: of a message, a sequence or an option."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if value is None:
        return None
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def flattened(value):
    """The arrays of a value, those of sequences one by one."""
    if isinstance(value, list):
        return [a for v in value for a in flattened(v)]
    return [] if value is None else [value]


def as_held(array):
    """An array of the case in the type that the entry has."""
    return array.astype(HELD[array.dtype].numpy) if array.dtype in HELD else array


def imported(case, inputs):
    """The traced model; inputs that decide shapes have the values of the case."""
    # what holds nothing, and what is no tensor, cannot be passed
    fixed = {name: a for name, a in inputs.items() if not isinstance(a, np.ndarray) or not a.size}
    dims: dict[str, object] = {
        d.dim_param: (1, int(size))
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
            if all(isinstance(d, int) for d in dims.values()):
                raise
            dims = {name: d[1] for name, d in dims.items()}
        except NotConstant as e:
            new = [name for name in e.facts["inputs"] if name in inputs and name not in fixed]
            if not new:
                raise
            # one at a time, the last operand first: data stay inputs where they can
            fixed[new[-1]] = inputs[new[-1]]


def ulps(got, want):
    """The greatest distance in units in the last place of what is wanted; 0 for what are no floats."""
    if want.dtype.kind != "f" or not want.size:
        return 0.0
    unit = np.spacing(np.abs(want))
    fine = np.isfinite(want) & np.isfinite(got)
    return float(np.max(np.abs(got.astype(np.float64) - want) / unit, where=fine, initial=0.0))


def difference(got, want, case):
    """Why an output is not what is expected; empty where it is."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    held = HELD.get(want.dtype)
    if held is None or np.dtype(held.numpy) != got.dtype:
        return f"type {got.dtype}, expected {want.dtype}"
    wide = [np.asarray(a).astype(np.float64) for a in (got, want)]
    if np.allclose(*wide, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return ""
    return f"differs by {np.nanmax(np.abs(wide[0] - wide[1])):.3g}"


def judged(case) -> Found:
    """One case, all of its data sets."""
    ops = tuple(sorted({n.op_type for n in case.model.graph.node}))
    try:
        return run(case, ops)
    except LumigenError as e:
        how = "refused" if e.exit_code == 1 else "broken"
        return Found(case.name, ops, how, f"{type(e).__name__}: {e}")
    except Exception as e:  # noqa: BLE001  # what is counted
        return Found(case.name, ops, "broken", f"{type(e).__name__}: {str(e)[:200]}")


def run(case, ops) -> Found:
    graph = case.model.graph
    worst, fixed = 0.0, {}
    for given, wanted in case.data_sets:
        initial = {t.name for t in graph.initializer}
        names = [i.name for i in graph.input if i.name not in initial]
        inputs = dict(zip(names, map(plain, given), strict=False))
        entry, weights, fixed = imported(case, inputs)
        arrays = {identifier(n, ()): as_held(a) for n, a in inputs.items() if n not in fixed}
        found = evaluate(entry, arrays, weights)
        flat = [a for w in wanted for a in flattened(plain(w))]
        for got, want in zip(found.values(), flat, strict=True):
            if why := difference(got, want, case):
                return Found(case.name, ops, "wrong", why, tuple(fixed))
            worst = max(worst, ulps(got, want))
    return Found(case.name, ops, "passed", "", tuple(fixed), worst)


_CASES: list = []


def _judged_at(i: int) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return judged(_CASES[i])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--list", action="store_true", help="every case that does not pass")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    chosen = [c for c in cases() if not args.names or c.name in args.names]
    _CASES.extend(chosen)
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(pool.map(_judged_at, range(len(chosen)), chunksize=20))
    counts = Counter(f.how for f in found)
    print(", ".join(f"{counts[k]} {k}" for k in ("passed", "refused", "wrong", "broken")))
    if args.list or args.names:
        for f in sorted(found, key=lambda f: (f.how, f.why)):
            if f.how != "passed" or args.names:
                print(f.how, f.name, f.why, f.fixed, f"{f.ulps:.1f}")
    if args.write:
        args.write.write_text(page(found), encoding="utf-8")


def page(found: list[Found]) -> str:
    return f"# ONNX\n\n{date.today()}\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
