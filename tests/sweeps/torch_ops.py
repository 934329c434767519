"""PyTorch's samples of its own list of ops, each exported, imported and run; and what is imported of core ATen.

    python tests/sweeps/torch_ops.py                          # which entries do not pass
    python tests/sweeps/torch_ops.py nn.functional.pad sort   # these
    python tests/sweeps/torch_ops.py --write docs/torch_ops.md

An entry is one that the frontend offers; of each the first samples in f32, i64 and bool are run, in one program. An
entry fails if a sample is refused or wrong.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "importers"))
sys.path.insert(0, str(Path(__file__).parent.parent / "parity"))

import imported
import numpy as np
import torch
from exclusions import DRAWN, left_out
from opinfo import OPS, Sample, compare, dtypes_of, leaves, samples

import lumigen as lg
from lumigen.errors import NotExported, NotImported
from lumigen.frontend.excluded import reason
from lumigen.importers.torch.aten import reason_of, row_of

WANTED = (torch.float32, torch.int64, torch.bool)
FEW = 4  # samples of an entry in one dtype
HOWS = ("passed", "refused", "wrong", "broken")
OFFERED = [n for n in OPS if reason(n) is None and n not in DRAWN]


@dataclass(frozen=True)
class Found:
    """How it went with an entry, one of HOWS, and why."""

    name: str
    how: str
    why: str = ""
    count: int = 0


class Calls(torch.nn.Module):
    """Calls of an op; tensors with elements are inputs, in order."""

    def __init__(self, op: Any, given: Sequence[Sample]) -> None:
        super().__init__()
        self.op, self.given = op, given

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        inputs = iter(tensors)
        found: list[torch.Tensor] = []
        for sample in self.given:
            args, kwargs = filled((sample.args, sample.kwargs), lambda _: next(inputs))
            found += tensors_of(self.op(*args, **kwargs))
        return found


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [x for x in leaves(value) if isinstance(x, torch.Tensor)]


def filled(x: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Operands with other tensors in place of those that have elements."""
    match x:
        case torch.Tensor():
            return make(x) if x.numel() else x
        case torch.Size():
            return x
        case dict():
            return {k: filled(v, make) for k, v in x.items()}
        case tuple() if hasattr(x, "_fields"):
            return type(x)(*(filled(v, make) for v in x))
        case tuple() | list():
            return type(x)(filled(v, make) for v in x)
        case _:
            return x


def inputs_of(given: Iterable[Sample]) -> tuple[torch.Tensor, ...]:
    """The tensors that are inputs, each a copy: an op may change it."""
    found = leaves([(s.args, s.kwargs) for s in given])
    return tuple(x.detach().clone() for x in found if isinstance(x, torch.Tensor) and x.numel())


def compared(op: Any, given: Sequence[Sample]) -> None:
    """AssertionError where the imported program of these calls gives something else than PyTorch."""
    tensors = inputs_of(given)
    model = lg.from_torch(Calls(op, given), tensors, name="calls")
    outputs, _ = imported.run(model, tensors, {})
    results = iter(found for name, found in outputs.items() if not name.startswith("new_"))
    for sample in given:
        copied = Sample(*filled((sample.args, sample.kwargs), torch.clone))
        count = len(tensors_of(op(*copied.args, **copied.kwargs)))
        compare(op, sample, [np.asarray(next(results)) for _ in range(count)])


def judged(name: str) -> Found:
    """How it goes with the samples of an entry: in one program, and if they fail in one for each dtype."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    op = OPS[name]
    given = {d: few(name, d) for d in dtypes_of(op, WANTED)}
    every = [s for kept in given.values() for s in kept]
    found = tried(name, every)
    if found.how == "passed":
        return found
    parts = (tried(name, kept, f" ({str(d)[6:]})") for d, kept in given.items())
    return next((part for part in parts if part.how != "passed"), found)


def few(name: str, dtype: torch.dtype) -> list[Sample]:
    op = OPS[name]
    kept = (s for s in samples(op, dtype) if not left_out(name, s) and useful(op, s))
    return list(itertools.islice(kept, FEW))


def tried(name: str, given: Sequence[Sample], dtype: str = "") -> Found:
    """How it goes with samples in one program."""
    how, why = "passed", ""
    try:
        if given:
            compared(OPS[name], given)
    except (NotExported, NotImported) as e:
        how, why = "refused", told(e)
    except AssertionError as e:
        how, why = "wrong", told(e)
    except Exception as e:  # noqa: BLE001  # what is counted
        how, why = "broken", told(e)
    return Found(name, how, why + dtype if why else "", len(given))


def useful(op: Any, sample: Sample) -> bool:
    """Whether a sample has a tensor with elements, and gives one."""
    if not inputs_of([sample]):
        return False
    copied = Sample(*filled((sample.args, sample.kwargs), torch.clone))
    found = tensors_of(op(*copied.args, **copied.kwargs))
    return bool(found) and all(x.numel() and not x.is_complex() for x in found)


def told(error: Exception) -> str:
    """Why, in one line: of a refusal the first operation that is in the way."""
    if isinstance(error, NotImported):
        text = str(error.facts["text"]).splitlines()[0]
    elif isinstance(error, NotExported):
        text = f"torch.export: {error.facts['why']}"
    else:
        text = f"{type(error).__name__}: {error}"
    text = text.rpartition(".py:")[2] if ".py:" in text else text
    text = text.partition(": ")[2] if text[:1].isdigit() else text
    return " ".join(text.split())[:160]


# --- core ATen --------------------------------------------------------------------------------------


def core() -> dict[str, str]:
    """Each overload of ATen that PyTorch tags `core`: why it is refused; empty where it is imported."""
    names = [n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names()]
    found: dict[str, str] = {}
    for name in sorted(names):
        packet, _, overload = name.partition(".")
        if "::" in packet or not hasattr(torch.ops.aten, packet):
            continue
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        if torch.Tag.core in op.tags:
            full = f"aten.{packet}.{overload or 'default'}"
            row = row_of(full)
            found[full.removeprefix("aten.")] = (
                "" if row else reason_of(full) or "no row, no reason"
            )
    return found


# --- the command ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [n for n in OFFERED if not args.names or n.partition("|")[0] in args.names]
    found: list[Found] = []
    with ProcessPoolExecutor(args.processes) as pool:
        for f in pool.map(judged, chosen, chunksize=4):
            found.append(f)
            if f.how != "passed" or args.names:
                print(f.how, f.name, f.count, f.why, flush=True)
    if args.write:
        args.write.write_text(page(found), encoding="utf-8")
    print(", ".join(f"{sum(f.how == how for f in found)} {how}" for how in HOWS))


def page(found: Sequence[Found]) -> str:
    count = {how: sum(f.how == how for f in found) for how in HOWS}
    failing = sorted((f for f in found if f.how != "passed"), key=lambda f: HOWS.index(f.how))
    lines = [
        "# Ops of PyTorch that are imported",
        "",
        f"PyTorch {torch.__version__.partition('+')[0]} has samples of its own ops. Those of each op that the frontend",
        "offers, but for random ones, were exported by `torch.export`, imported, run by the interpreter and compared",
        f"with PyTorch, the first {FEW} in each of f32, i64 and bool, on {datetime.now(tz=UTC).date()}:",
        "",
        "| result | ops |",
        "| --- | --- |",
        *(f"| {how} | {count[how]} |" for how in HOWS),
        "",
        "[The sweep](../tests/sweeps/torch_ops.py) writes this page:",
        "`python tests/sweeps/torch_ops.py --write docs/torch_ops.md`.",
        "",
        "## What does not pass",
        "",
        "| op | result | reason |",
        "| --- | --- | --- |",
        *(f"| {shown(f.name)} | {f.how} | `{plain(f.why)}` |" for f in failing),
        "",
        *core_lines(),
    ]
    return "\n".join(lines)


def shown(name: str) -> str:
    """An entry as the page has it."""
    return name.replace("|", " / ")


def plain(text: str) -> str:
    return text.replace("|", "/").replace("`", "")


def core_lines() -> list[str]:
    """The second half of the page, which needs no run."""
    found = core()
    imported_ones = [name for name, why in found.items() if not why]
    by: dict[str, list[str]] = {}
    for name, why in found.items():
        if why:
            by.setdefault(why, []).append(name)
    return [
        "## Core ATen",
        "",
        f"Of the {len(found)} overloads that PyTorch tags `core`, {len(imported_ones)} are imported:",
        "",
        ", ".join(f"`{name}`" for name in imported_ones) + ".",
        "",
        "The others are refused:",
        "",
        "| reason | overloads |",
        "| --- | --- |",
        *(f"| {plain(why)} | {', '.join(f'`{n}`' for n in names)} |" for why, names in by.items()),
        "",
    ]


if __name__ == "__main__":
    main()
