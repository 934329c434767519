"""The instruction sets that kernels of f32 are compiled for, and those of them that this processor runs."""

from __future__ import annotations

from lumigen.toolchain import cpu_flags

INSTRUCTION_SETS = {
    "baseline": (),
    "avx2": ("avx2", "fma", "f16c"),
    "avx512": ("avx512f", "avx512dq", "avx512bw", "avx512vl"),
}


def instruction_sets() -> list[str]:
    """As <MODEL>_ISA names them.

    A build under sanitizers is of these alone: code that cannot run has nothing to say there, and what a compiler
    says of it, other builds show, which take a fraction of the time.
    """
    flags = cpu_flags()
    return [name for name, needed in INSTRUCTION_SETS.items() if flags.issuperset(needed)]
