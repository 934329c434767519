"""Compiled models written by hand: small kernels with scalar bodies."""

from __future__ import annotations

from lumigen.dtype import f32, i64
from lumigen.errors import SourceLocation
from lumigen.index import Dim, ix
from lumigen.program import (
    CompiledModel,
    InputArg,
    KernelSource,
    Launch,
    OutputArg,
    Panels,
    Parameter,
    Port,
    Program,
    Slot,
    SlotArg,
    Stored,
    ValueArg,
    WeightArg,
    WeightInfo,
)

BATCH = Dim("batch", 1, 64, typical=8)
N = Dim("n", 2, 1000, multiple_of=2, typical=10)
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
        Parameter("x", f32),
        Parameter("scale", f32),
        Parameter("shift", f32),
        Parameter("h", f32, written=True),
        Parameter("batch", None),
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
    (Parameter("h", f32), Parameter("w", f32), Parameter("y", f32, written=True)),
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
    (Parameter("y", f32), Parameter("total", f32, written=True)),
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
        Parameter("ids", i64, range=(0, ROWS - 1)),
        Parameter("table", f32),
        Parameter("rows", f32, written=True),
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
        launches=(
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
            Launch(PROJECT.name, (SlotArg("h"), WeightArg("proj_weight"), OutputArg("y")), batch),
            Launch(SUM.name, (OutputArg("y"), OutputArg("total")), batch),
        ),
        arena=(Slot("unused", ix(100), ()), Slot("h", batch * (IN * 4), ("unused",))),
    )
    lookup = Program(
        entry="lookup",
        inputs=(Port("ids", (n + 1,), i64, range=(0, ROWS - 1)),),
        outputs=(Port("rows", (n + 1, ix(IN)), f32),),
        dims=(N,),
        launches=(
            Launch(ROWS_OF.name, (InputArg("ids"), WeightArg("table"), OutputArg("rows")), n + 1),
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
        options=(("target", "cpu"),),
    )
