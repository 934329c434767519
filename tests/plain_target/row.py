"""row: a target whose kernels are plain loops; the runtime is that of the host's processors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lumigen.emit.environment import render
from lumigen.emit.expression import Renderer, computed_in, literal
from lumigen.emit.kernel import KernelText, dim_arguments, spelled_dims
from lumigen.emit.lines import Lines, joined, used
from lumigen.index import Ix, product
from lumigen.lower.scope import address
from lumigen.program import KernelParameter
from lumigen.region import Local, Monoid
from lumigen.target import TARGETS
from lumigen.targets.backend import TargetBackend
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Bind,
    Finish,
    For,
    Let,
    Stmt,
    StoreTile,
    TileProgram,
)

FOLDER = Path(__file__).parent / "templates"
HOST = TARGETS["cpu"]


@dataclass(frozen=True)
class PlainContext:
    """All that `kernel.cpp.j2` may see."""

    name: str
    pointers: tuple[KernelParameter, ...]
    dims: tuple[tuple[str, str], ...]
    tiles: tuple[str, ...]  # of scratch
    lines: tuple[str, ...]


def plain_kernel(
    name: str, program: TileProgram, parameters: tuple[KernelParameter, ...], _origin: str
) -> KernelText:
    dims = spelled_dims(program, parameters)
    lines = joined(used(statements(program.body, Renderer(dims))))
    pointers = tuple(p for p in parameters if p.dtype is not None)
    tiles = tuple(f"{computed_in(b.dtype)} {b}[{product(b.dims)}]" for b in program.scratch)
    arguments = dim_arguments(program, parameters, dims)
    context = PlainContext(name, pointers, arguments, tiles, lines.text)
    return KernelText(render(FOLDER, "kernel.cpp.j2", kernel=context))


def statements(body: Iterable[Stmt], r: Renderer) -> list[Lines]:
    return [statement(s, r.inside()) for s in body]


def statement(s: Stmt, r: Renderer) -> Lines:
    """Lanes are points of a loop like any others: what is summed over them is one number."""
    match s:
        case Bind():
            return r.lines(f"const int64_t {s.axis} = {r.index(s.value)};", binds=s.axis.name)
        case Let():
            return r.lines(f"const {declared(s.name)} = {r.scalar(s.value).code};")
        case Accumulator():
            start = literal(s.name.dtype.lowest if s.monoid is Monoid.MAX else 0, s.name.dtype)
            return r.lines(f"{declared(s.name)} = {r.scalar(s.start).code if s.start else start};")
        case Accumulate():
            name, value = r.use(s.into.name), r.scalar(s.value).code
            total = f"{name} + ({value})" if s.monoid is Monoid.SUM else f"max_nan({name}, {value})"
            return r.lines(f"{name} = {total};")
        case Finish():
            return r.lines(f"const {declared(s.name)} = {r.use(s.source.name)};")
        case For():
            inner = joined(statements(s.body, r)).indented()
            return r.lines(f"{loop(s.axis.name, s.lo, s.hi, s.step, r)} {{", inner, "}")
        case StoreTile():
            where = f"if ({' && '.join(map(r.holds, s.where))}) " if s.where else ""
            place = f"{r.use(str(s.dst))}[{r.index(address(s.dst, s.at))}]"
            return r.lines(f"{where}{place} = {r.scalar(s.value).code};")
        case _:
            raise NotImplementedError(type(s).__name__)


def declared(name: Local) -> str:
    return f"{computed_in(name.dtype)} {name.name}"


def loop(axis: str, lo: Ix, hi: Ix, step: int, r: Renderer) -> str:
    return f"for (int64_t {axis} = {r.index(lo)}; {axis} < {r.index(hi)}; {axis} += {step})"


TARGET = replace(
    HOST.target,
    name="plain",
    features={},
    isas=("baseline",),
    skeletons={"simt": "loops over numbers"},
    template_folders=(FOLDER, *HOST.target.template_folders),
)
BACKEND = TargetBackend(
    target=TARGET,
    device=replace(
        HOST.device,
        products=lambda _region, _schedule: iter(()),
        runs_whole=lambda _region, _temporaries: False,
    ),
    spell=plain_kernel,
    probe=HOST.probe,
    skipped="nothing",
)
