// Writes which of the instruction sets in a mask is chosen on this processor if such is its vendor, or why
// none is; TEST_ISA forces one.
#include <cpuid.h>

#include <cstdio>
#include <cstring>
#include <string>

static const char* vendor;

static int get_cpuid(unsigned leaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  const int known = __get_cpuid(leaf, a, b, c, d);
  if (leaf == 0) {
    std::memcpy(b, vendor, 4);
    std::memcpy(d, vendor + 4, 4);
    std::memcpy(c, vendor + 8, 4);
  }
  return known;
}

#define __get_cpuid get_cpuid
#include "isa.cpp"

int main(int count, char** arguments) {
  using namespace rt;
  if (count != 3) return 2;
  vendor = arguments[2];
  Isa isa = kIsaCount;
  const bool failed = choose_isa(&isa, uint32_t(std::stoul(arguments[1])), "TEST_ISA") != kOk;
  std::puts(failed ? last_error() : isa_name(isa));
  return failed;
}
