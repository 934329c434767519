"""The hand-written models for a GPU: one thread of a block runs the scalar body of the CPU's kernel."""

from __future__ import annotations

from dataclasses import replace

from lumigen.emit.entry import source_lines
from lumigen.program import CompiledModel, KernelSource
from lumigen.target_row import Target
from lumigen.targets.cuda.row import CUDA
from lumigen.targets.cuda.speller import symbol


def on_gpu(model: CompiledModel, target: Target = CUDA) -> CompiledModel:
    """The same model with kernels for a GPU."""
    kernels = tuple(replace(k, body=cuda_text(k)) for k in model.kernels)
    return replace(model, kernels=kernels, target=target, options=(("target", target.text),))


def cuda_text(kernel: KernelSource) -> str:
    name, lines = kernel.name, source_lines(kernel.lines)
    kernel_symbol = symbol(name, lines)
    function = f"void {name}(const void* args, int64_t task, char* scratch) {{"
    body = kernel.body.replace("inline namespace LUMIGEN_ISA {\n", "")
    body = body.replace("}  // namespace LUMIGEN_ISA\n", "")
    body = body.replace(function, f"static __device__ {function.replace(name, f'{name}_tile')}")
    end = body.rindex("}  // namespace LUMIGEN_NS")
    return f"""{body[:end]}
__global__ void __launch_bounds__(32) {kernel_symbol}(const __grid_constant__ {name}_args args) {{
  alignas(16) __shared__ char scratch[{max(kernel.scratch_bytes, 1)}];
  if (threadIdx.x == 0) {name}_tile(&args, blockIdx.x, scratch);
}}

extern const KernelRow {name}_row = {{
    "{name}", "{lines}", reinterpret_cast<const void*>(&{kernel_symbol}), sizeof({name}_args), 32, 0}};

{body[end:]}"""


def fake_kernels(model: CompiledModel) -> str:
    """All kernels for native/fake_cuda.cpp: functions of the host, with the rows that a GPU's have."""
    parts = ['#include "kernels/kernels.h"\n#include "fake_cuda.h"\n#include <cstring>\n']
    for k in model.kernels:
        body = k.body.replace("inline namespace LUMIGEN_ISA {\n", "")
        body = body.replace("}  // namespace LUMIGEN_ISA\n", "")
        end = body.rindex("}  // namespace LUMIGEN_NS")
        parts.append(f"""{body[:end]}
static void {k.name}_run(const void* args, int64_t task) {{
  alignas(16) char scratch[{max(k.scratch_bytes, 1)}];
  {k.name}(args, task, scratch);
}}

extern const KernelRow {k.name}_row = {{"{k.name}", "{source_lines(k.lines)}",
    reinterpret_cast<const void*>(&{k.name}_run), sizeof({k.name}_args), 32, 0}};

{body[end:]}""")
    rows = ", ".join(f"&LUMIGEN_NS::{k.name}_row" for k in model.kernels)
    parts.append(f"""
static const LUMIGEN_NS::KernelRow* const rows[] = {{{rows}}};

extern "C" size_t fake_args_bytes(const void* function) {{
  for (const auto* row : rows) {{
    if (row->function == function) return row->args_bytes;
  }}
  return 0;
}}

extern "C" const void* kernel_named(const char* name) {{
  for (const auto* row : rows) {{
    if (std::strcmp(row->name, name) == 0) return row->function;
  }}
  return nullptr;
}}
""")
    return "\n".join(parts)
