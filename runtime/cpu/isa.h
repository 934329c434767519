// Which instruction sets the kernels were compiled for, and which of them this processor runs.
#pragma once

#include <cstdint>

#include "status.h"

namespace LUMIGEN_NS {

// The least first.
enum Isa : int32_t { kBaseline, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx, kIsaCount };

// As the <MODEL>_ISA variable and the tests spell it: baseline (x86-64-v2, or what any other processor has),
// avx2, avx512, avx512_vnni, avx512_bf16, amx.
const char* isa_name(Isa isa);

// Whether this processor, and the operating system with it, runs code compiled for `isa`. The first question
// for kAmx asks the system for its registers, for all threads of the process and for good.
bool isa_runs(Isa isa);

// The best of `compiled` (bit i: Isa i) that this processor runs: the last one, but kAvx512Bf16 only where it
// is the faster one, or the only one. If the environment variable is set, the one that it names, or
// kUnsupported where that cannot be had.
Status choose_isa(Isa* isa, uint32_t compiled, const char* variable);

}  // namespace LUMIGEN_NS
