#include "isa.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace LUMIGEN_NS {

namespace {

#if defined(__x86_64__)

// The registers that the operating system saves when it switches threads. An instruction set whose
// registers it does not save cannot be used, whatever cpuid says.
uint64_t saved_registers() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

// Linux saves tile registers, 8 KiB of them, for a process that has asked. It refuses where a thread has
// an alternate signal stack that they would not fit on.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool may = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return may;
#else
  return false;
#endif
}

// AVX512_BF16
bool multiplies_bf16() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, 1u << 5);
}

// On AMD's processors vdpbf16ps takes as long as a multiply-add of f32 and does two: products ran at 1.9
// to 2.0 times the rate of f32 on Zen 4. On Intel's Sapphire Rapids a loop of it does half of what f32 does.
bool gains_from_bf16() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx &&
         d == signature_AMD_edx;
}

// All but whether the system gives the registers of kAmx, which is asked when they are wanted.
uint32_t supported() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  // x86-64-v2: SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
  if (!has(c, 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23)) return 0;
  uint32_t found = 1u << kBaseline;
  // FMA, OSXSAVE, AVX, F16C
  if (!has(c, 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29)) return found;
  const uint64_t saved = saved_registers();
  if ((saved & 0x6) != 0x6) return found;  // xmm and ymm
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  if (!has(b, 1u << 5)) return found;  // AVX2
  found |= 1u << kAvx2;
  // AVX512F, DQ, BW, VL; opmask, the upper halves of zmm0-15, zmm16-31
  if (!has(b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) || (saved & 0xe6) != 0xe6) return found;
  found |= 1u << kAvx512;
  if (!has(c, 1u << 11)) return found;  // AVX512_VNNI
  found |= 1u << kAvx512Vnni;
  if (!multiplies_bf16()) return found;
  found |= 1u << kAvx512Bf16;
  // AMX-BF16, AMX-TILE, AMX-INT8; the configuration and the data of tiles
  if (has(d, 1u << 22 | 1u << 24 | 1u << 25) && (saved & 0x60000) == 0x60000) found |= 1u << kAmx;
  return found;
}

#else

bool may_use_tiles() { return false; }
bool gains_from_bf16() { return false; }
uint32_t supported() { return 1u << kBaseline; }

#endif

// The least of what is compiled, as an error calls it.
const char* needs(uint32_t compiled) {
  if (compiled >> kBaseline & 1) return "x86-64-v2 (SSE4.2, POPCNT)";
  if (compiled >> kAvx2 & 1) return "AVX2, FMA or F16C";
  if (compiled >> kAvx512 & 1) return "AVX-512 (F, DQ, BW, VL)";
  if (compiled >> kAvx512Vnni & 1) return "AVX512-VNNI";
  return compiled >> kAvx512Bf16 & 1 ? "AVX512-BF16" : "AMX (TILE, BF16, INT8) or AVX512-BF16";
}

}  // namespace

const char* isa_name(Isa isa) {
  static const char* const names[] = {"baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"};
  return names[isa];
}

bool isa_runs(Isa isa) { return (supported() >> isa & 1) != 0 && (isa != kAmx || may_use_tiles()); }

Status choose_isa(Isa* isa, uint32_t compiled, const char* variable) {
  const char* wanted = std::getenv(variable);
  if (wanted != nullptr && *wanted != '\0') {
    for (int32_t i = 0; i < kIsaCount; ++i) {
      const Isa candidate = static_cast<Isa>(i);
      if (std::strcmp(wanted, isa_name(candidate)) != 0) continue;
      *isa = candidate;
      const bool is_compiled = (compiled >> i & 1) != 0;
      if (is_compiled && isa_runs(candidate)) return kOk;
      if (is_compiled)
        return fail(kUnsupported, "[model_open] %s is %s, which this processor does not have. Unset %s.",
                    variable, wanted, variable);
      return fail(kUnsupported, "[model_open] %s is %s, for which this library holds no code. Unset %s.",
                  variable, wanted, variable);
    }
    return fail(kUnsupported,
                "[model_open] %s is %s, must be %s, avx2, avx512, avx512_vnni, "
                "avx512_bf16 or amx. Correct or unset it.",
                variable, wanted, isa_name(kBaseline));
  }
  bool found = false;
  for (int32_t i = 0; i < kIsaCount; ++i) {
    const Isa candidate = static_cast<Isa>(i);
    if (!(compiled >> i & 1) || !isa_runs(candidate)) continue;
    if (found && candidate == kAvx512Bf16 && !gains_from_bf16()) continue;
    *isa = candidate;
    found = true;
  }
  if (found) return kOk;
  return fail(
      kUnsupported,
      "[model_open] this processor lacks %s, the least that the kernels of this library need. Run the "
      "model on a newer one%s.",
      needs(compiled), (compiled >> kBaseline & 1) != 0 ? "" : ", or build it with more instruction sets");
}

}  // namespace LUMIGEN_NS
