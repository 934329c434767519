"""Compiled models written by hand: small kernels with scalar bodies."""

from __future__ import annotations

from dataclasses import replace

from lumigen.condition import less
from lumigen.dtype import bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import SourceLocation
from lumigen.index import Dim, ix
from lumigen.program import (
    CompiledModel,
    Group,
    Guard,
    InputArg,
    KernelParameter,
    KernelSource,
    Launch,
    OutputArg,
    Panels,
    Port,
    Program,
    Slot,
    SlotArg,
    Stored,
    ValueArg,
    Variant,
    WeightArg,
    WeightInfo,
    always,
)
from lumigen.targets.cpu.row import CPU

BATCH = Dim("batch", 1, 64, typical=8)
N = Dim("n", 2, 1000, multiple_of=2, typical=10)
M = Dim("m", 3, 5)
IN, OUT, ROWS = 7, 20, 10


def kernel_text(name: str, body: str) -> str:
    return f"""namespace LUMIGEN_NS {{
inline namespace LUMIGEN_ISA {{

void {name}(const void* args, int64_t task, char* scratch) {{
  const {name}_args& a = *static_cast<const {name}_args*>(args);
  (void)scratch;
{body}
}}

}}  // namespace LUMIGEN_ISA
}}  // namespace LUMIGEN_NS"""


def reference_text(name: str, parameter: str, body: str) -> str:
    return f"""namespace LUMIGEN_NS {{

double {name}_{parameter}_reference(const {name}_args& a, int64_t element) {{
{body}
}}

}}  // namespace LUMIGEN_NS"""


def kernel(name, title, parameters, body, written, reference, line, scratch=0) -> KernelSource:
    return KernelSource(
        name=name,
        title=title,
        lines=(SourceLocation("/home/someone/model.py", line, "forward"),),
        parameters=parameters,
        scratch_bytes=scratch,
        body=kernel_text(name, body),
        reference=reference_text(name, written, reference),
    )


AFFINE = kernel(
    "k00_affine_7",
    "h = x * scale + shift",
    (
        KernelParameter("x", f32, shape=(ix(BATCH), ix(IN))),
        KernelParameter("scale", f32, shape=(ix(IN),)),
        KernelParameter("shift", f32, shape=(ix(IN),)),
        KernelParameter("h", f32, written=True, shape=(ix(BATCH), ix(IN))),
        KernelParameter("batch", None),
    ),
    f"""  const float* x = a.x + task * {IN};
  for (int64_t i = 0; i < {IN}; ++i) a.h[task * {IN} + i] = x[i] * a.scale[i] + a.shift[i];""",
    "h",
    f"""  const int64_t i = element % {IN};
  const double x = a.x[element], scale = a.scale[i], shift = a.shift[i];
  return x * scale + shift;""",
    12,
)
PROJECT = kernel(
    "k01_project_20x7",
    "y = h @ weight.T",
    (KernelParameter("h", f32), KernelParameter("w", f32), KernelParameter("y", f32, written=True)),
    f"""  float* sums = reinterpret_cast<float*>(scratch);
  for (int64_t n = 0; n < {OUT}; ++n) {{
    sums[n] = 0.0f;
    const float* w = a.w + n / 16 * {IN} * 16 + n % 16;
    for (int64_t k = 0; k < {IN}; ++k) sums[n] += a.h[task * {IN} + k] * w[k * 16];
  }}
  for (int64_t n = 0; n < {OUT}; ++n) a.y[task * {OUT} + n] = sums[n];""",
    "y",
    f"""  const int64_t row = element / {OUT}, n = element % {OUT};
  double sum = 0;
  for (int64_t k = 0; k < {IN}; ++k) {{
    const double h = a.h[row * {IN} + k], w = a.w[(n / 16 * {IN} + k) * 16 + n % 16];
    sum += h * w;
  }}
  return sum;""",
    13,
    scratch=OUT * 4,
)
SUM = kernel(
    "k02_sum_20",
    "total = y.sum(-1)",
    (KernelParameter("y", f32), KernelParameter("total", f32, written=True)),
    f"""  float sum = 0.0f;
  for (int64_t n = 0; n < {OUT}; ++n) sum += a.y[task * {OUT} + n];
  a.total[task] = sum;""",
    "total",
    f"""  double sum = 0;
  for (int64_t n = 0; n < {OUT}; ++n) sum += static_cast<double>(a.y[element * {OUT} + n]);
  return sum;""",
    14,
)
ROWS_OF = kernel(
    "k03_rows_10x7",
    "rows = table[ids]",
    (
        KernelParameter("ids", i64, range=(0, ROWS - 1)),
        KernelParameter("table", f32),
        KernelParameter("rows", f32, written=True),
    ),
    f"""  const float* row = a.table + a.ids[task] * {IN};
  for (int64_t i = 0; i < {IN}; ++i) a.rows[task * {IN} + i] = row[i];""",
    "rows",
    f"""  return static_cast<double>(a.table[a.ids[element / {IN}] * {IN} + element % {IN}]);""",
    21,
)


def tiny(name: str = "tiny", version: str = "1.2.3") -> CompiledModel:
    """An affine map with a packed projection and its sum; rows of a table by number."""
    scale = Stored("scale", WeightInfo("scale", (IN,), f32), None)
    shift = Stored("shift", WeightInfo("shift", (IN,), f32), None)
    weight = Stored(
        "proj_weight", WeightInfo("proj.weight", (OUT, IN), f32), Panels(OUT, IN, IN, 1)
    )
    table = Stored("table", WeightInfo("table", (ROWS, IN), f32), None)
    batch, n = ix(BATCH), ix(N)
    forward = Program(
        entry="forward",
        inputs=(Port("x", (batch, ix(IN)), f32),),
        outputs=(Port("y", (batch, ix(OUT)), f32), Port("total", (batch,), f32)),
        dims=(BATCH,),
        groups=(
            always(
                Launch(
                    AFFINE.name,
                    (
                        InputArg("x"),
                        WeightArg("scale"),
                        WeightArg("shift"),
                        SlotArg("h"),
                        ValueArg(batch),
                    ),
                    batch,
                ),
                Launch(
                    PROJECT.name, (SlotArg("h"), WeightArg("proj_weight"), OutputArg("y")), batch
                ),
                Launch(SUM.name, (OutputArg("y"), OutputArg("total")), batch),
            ),
        ),
        arena=(Slot("unused", ix(100), ()), Slot("h", batch * (IN * 4), ("unused",))),
    )
    lookup = Program(
        entry="lookup",
        inputs=(Port("ids", (n + 1,), i64, range=(0, ROWS - 1)),),
        outputs=(Port("rows", (n + 1, ix(IN)), f32),),
        dims=(N,),
        groups=(
            always(
                Launch(
                    ROWS_OF.name, (InputArg("ids"), WeightArg("table"), OutputArg("rows")), n + 1
                ),
            ),
        ),
        arena=(),
    )
    return CompiledModel(
        name=name,
        version=version,
        programs=(forward, lookup),
        weights=(scale, shift, weight, table),
        kernels=(AFFINE, PROJECT, SUM, ROWS_OF),
        graph_hash="0123456789abcdef",
        target=CPU,
        options=(("target", "cpu"),),
    )


def tiny_with_a_choice() -> CompiledModel:
    """`tiny`, whose first step keeps its temporary elsewhere where there are few rows or many."""
    model = tiny()
    forward, lookup = model.programs
    affine, project, total = forward.launches

    def through(slot: str) -> tuple[Launch, Launch]:
        made = SlotArg(slot)
        x, scale, shift, _, batch = affine.arguments
        return (
            replace(affine, arguments=(x, scale, shift, made, batch)),
            replace(project, arguments=(made, *project.arguments[1:])),
        )

    group = Group(
        (
            Variant(Guard((less(BATCH, 4),)), through("few")),
            Variant(Guard((less(40, BATCH), less(ix(BATCH) % 16, 1)), ("avx2",)), through("many")),
            Variant(Guard(), through("h")),
        )
    )
    arena = (
        *forward.arena,
        Slot("few", ix(BATCH) * (IN * 4), ("unused",)),
        Slot("many", ix(BATCH) * (IN * 4), ("unused",)),
    )
    changed = replace(forward, groups=(group, always(total)), arena=arena)
    return replace(model, programs=(changed, lookup))


COPIES = (
    ("default", boolean, ()),  # a word that C++ keeps for itself
    ("pos", i32, ()),
    ("half", f16, (4,)),
    ("brain", bf16, (2, 2)),
    ("context", i8, (ix(N) * 3 - 1,)),
    ("bytes", u8, (ix(N) * 3 - 1, ix(M))),
    ("wide", f64, (3,)),
    ("s", i64, (1, 1)),
)


def zoo() -> CompiledModel:
    """Every dtype, tensors without axes, dims inside expressions, unlucky names, no weights; and an
    entry without dims, arena and kernels.
    """
    shapes = {name: tuple(ix(e) for e in shape) for name, _, shape in COPIES}
    parameters, arguments, body, references = [], [], [], []
    for name, dtype, _ in COPIES:
        parameters += [
            KernelParameter(f"{name}_in", dtype),
            KernelParameter(f"{name}_out", dtype, written=True),
        ]
        parameters.append(KernelParameter(f"{name}_n", None))
        count = ix(1)
        for extent in shapes[name]:
            count = count * extent
        arguments += [InputArg(name), OutputArg(f"{name}2"), ValueArg(count)]
        body.append(f"  for (int64_t i = 0; i < a.{name}_n; ++i) a.{name}_out[i] = a.{name}_in[i];")
        value = {
            "f16": "half_value(a.half_in[element])",
            "bf16": "bfloat_value(a.brain_in[element])",
        }.get(dtype.name, f"static_cast<double>(a.{name}_in[element])")
        references.append(
            f"double copy_{name}_out_reference(const copy_args& a, int64_t element) {{\n"
            f"  return {value};\n}}"
        )
    helpers = """#include <cmath>
#include <cstring>

namespace LUMIGEN_NS {

static double half_value(uint16_t bits) {
  const int e = bits >> 10 & 31, m = bits & 1023;
  const double size = e == 0 ? std::ldexp(m, -24) : std::ldexp(m + 1024, e - 25);
  return bits >> 15 ? -size : size;
}

static double bfloat_value(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}
"""
    copy = KernelSource(
        name="copy",
        title="all that comes in",
        lines=(),
        parameters=tuple(parameters),
        scratch_bytes=0,
        body=kernel_text("copy", "  (void)task;\n" + "\n".join(body)),
        reference=helpers + "\n".join(references) + "\n}",
    )
    bounds = {"pos": ((1, N.hi + M.hi), ix(N) + M)}
    inputs = tuple(
        Port(name, shapes[name], dtype, *bounds.get(name, ())) for name, dtype, _ in COPIES
    )
    outputs = tuple(Port(f"{name}2", shapes[name], dtype) for name, dtype, _ in COPIES)
    echo = Program(
        entry="echo",
        inputs=inputs,
        outputs=outputs,
        dims=(N, M),
        groups=(always(Launch("copy", tuple(arguments), ix(1))),),
        arena=(),
    )
    nothing = Program(
        entry="nothing",
        inputs=(Port("x", (ix(2),), f32),),
        outputs=(Port("out", (ix(2),), f32),),
        dims=(),
        groups=(),
        arena=(),
    )
    return CompiledModel(
        name="zoo",
        version="0.1.0-rc1+x86",
        programs=(echo, nothing),
        weights=(),
        kernels=(copy,),
        graph_hash="",
        target=CPU,
    )


def single() -> CompiledModel:
    """One entry with one output, so its context can be called."""
    model = tiny("single")
    return replace(
        model, programs=model.programs[1:], kernels=(ROWS_OF,), weights=model.weights[3:]
    )
