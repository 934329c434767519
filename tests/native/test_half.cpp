// Floats of 16 bits over lanes: all of them, what lies between two neighbours, and the end of a page.
#include "simd.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <initializer_list>

#include "check.h"

using namespace LUMIGEN_NS;

// How one of the two types is read and written, and its meaning in plain arithmetic.
struct Half {
  const char* name;
  int fraction, least;  // bits of the fraction, exponent of the least normal number
  float (*load_one)(uint16_t);
  uint16_t (*bits_of)(float);
  Vec (*load)(const uint16_t*);
  void (*store)(uint16_t*, Vec);
  Vec (*load_some)(const uint16_t*, FirstLanes);
  void (*store_some)(uint16_t*, Vec, FirstLanes);
  Vec (*load_strided)(const uint16_t*, int64_t, FirstLanes);
  void (*store_strided)(uint16_t*, int64_t, Vec, FirstLanes);
  Vec (*round)(Vec);

  double value(uint16_t h) const {
    const int exponent = (h & 0x7fff) >> fraction, low = h & ((1 << fraction) - 1),
              top = (1 << (15 - fraction)) - 1;
    double size =
        std::ldexp(exponent ? low + (1 << fraction) : low, (exponent ? exponent - 1 : 0) + least - fraction);
    if (exponent == top) size = low ? NAN : INFINITY;
    return h >> 15 ? -size : size;
  }
};

static const Half kF16{
    "f16",
    10,
    -14,
    [](uint16_t h) { return load_f16(h); },
    [](float x) { return f16_bits(x); },
    [](const uint16_t* p) { return load_f16(p, AllLanes{}); },
    [](uint16_t* p, Vec a) { store_f16(p, a, AllLanes{}); },
    [](const uint16_t* p, FirstLanes l) { return load_f16(p, l); },
    [](uint16_t* p, Vec a, FirstLanes l) { store_f16(p, a, l); },
    [](const uint16_t* p, int64_t s, FirstLanes l) { return load_strided_f16(p, s, l); },
    [](uint16_t* p, int64_t s, Vec a, FirstLanes l) { store_strided_f16(p, s, a, l); },
    [](Vec a) { return round_f16(a); },
};
static const Half kBF16{
    "bf16",
    7,
    -126,
    [](uint16_t h) { return load_bf16(h); },
    [](float x) { return bf16_bits(x); },
    [](const uint16_t* p) { return load_bf16(p, AllLanes{}); },
    [](uint16_t* p, Vec a) { store_bf16(p, a, AllLanes{}); },
    [](const uint16_t* p, FirstLanes l) { return load_bf16(p, l); },
    [](uint16_t* p, Vec a, FirstLanes l) { store_bf16(p, a, l); },
    [](const uint16_t* p, int64_t s, FirstLanes l) { return load_strided_bf16(p, s, l); },
    [](uint16_t* p, int64_t s, Vec a, FirstLanes l) { store_strided_bf16(p, s, a, l); },
    [](Vec a) { return round_bf16(a); },
};

static bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

static void check_all_values(const Half& t) {
  for (int first = 0; first < 0x10000; first += kLanes) {
    uint16_t h[kLanes], back[kLanes];
    float x[kLanes], y[kLanes];
    for (int l = 0; l < kLanes; l++) h[l] = uint16_t(first + l);
    store(x, t.load(h), AllLanes{});
    store(y, t.round(t.load(h)), AllLanes{});
    t.store(back, t.load(h));
    for (int l = 0; l < kLanes; l++) {
      const float wanted = float(t.value(h[l]));
      CHECK(same(x[l], wanted) && same(t.load_one(h[l]), wanted) && same(y[l], wanted));
      if (wanted == wanted) {
        CHECK(back[l] == h[l] && t.bits_of(wanted) == h[l]);
      } else {
        CHECK(std::isnan(t.value(back[l])) && std::isnan(t.value(t.bits_of(wanted))));
      }
    }
  }
}

static void check_rounded(const Half& t, float x, uint16_t wanted) {
  uint16_t h[kLanes];
  float y[kLanes];
  t.store(h, splat(x));
  store(y, t.round(splat(x)), AllLanes{});
  CHECK(h[0] == wanted && h[kLanes - 1] == wanted && t.bits_of(x) == wanted);
  CHECK(same(y[0], float(t.value(wanted))));
}

// Between each two neighbours: a tie goes to the even one, its float neighbours to the nearest.
static void check_rounding(const Half& t) {
  const int infinite = ((1 << (15 - t.fraction)) - 1) << t.fraction;
  for (int h = 0; h < infinite; h++) {
    const bool is_last = h + 1 == infinite;
    const double low = t.value(uint16_t(h));
    const double high = is_last ? 2 * low - t.value(uint16_t(h - 1)) : t.value(uint16_t(h + 1));
    const double middle = (low + high) / 2;
    const float tie = float(middle);
    const uint16_t even = uint16_t(h + (h & 1)), next = uint16_t(h + 1);
    for (const int sign : {0, 0x8000}) {
      const float one = sign ? -1.0f : 1.0f;
      if (double(tie) == middle) check_rounded(t, one * tie, uint16_t(even | sign));
      const float above = std::nextafter(tie, INFINITY), below = std::nextafter(tie, 0.0f);
      if (double(above) > middle) check_rounded(t, one * above, uint16_t(next | sign));
      if (double(below) < middle) check_rounded(t, one * below, uint16_t(h | sign));
    }
  }
  for (const float x : {INFINITY, 0x1.fffffep127f}) check_rounded(t, x, uint16_t(infinite));
  check_rounded(t, -0.0f, 0x8000);
  uint32_t bits = 0x7f800001;  // its payload is below what 16 bits keep
  float nan;
  std::memcpy(&nan, &bits, sizeof nan);
  uint16_t h[kLanes];
  t.store(h, load(&nan, FirstLanes{1}));
  CHECK(std::isnan(t.value(h[0])) && std::isnan(t.value(t.bits_of(nan))));
  CHECK(std::isnan(first_lane(t.round(load(&nan, FirstLanes{1})))));
}

// A readable page before one that is not: nothing after the end may be touched.
static uint16_t* end_of_page() {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  char* two =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(two != MAP_FAILED && mprotect(two + page, page, PROT_NONE) == 0);
  return reinterpret_cast<uint16_t*>(two + page);
}

static void check_partial_lanes(const Half& t) {
  uint16_t* const end = end_of_page();
  for (int n = 1; n < kLanes; n++) {
    const FirstLanes lanes{n};
    for (const int stride : {1, 3}) {
      uint16_t* const p = end - (stride * (n - 1) + 1);
      for (int i = 0; i <= stride * (n - 1); i++) p[i] = t.bits_of(float(i + 1));
      p[-1] = 99;
      float all[kLanes];
      store(all, t.load_strided(p, stride, lanes), AllLanes{});
      for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(stride * i + 1) : 0.0f));
      t.store_strided(p, stride, splat(7.0f), lanes);
      for (int i = 0; i <= stride * (n - 1); i++)
        CHECK(t.load_one(p[i]) == (i % stride ? float(i + 1) : 7.0f));
      if (stride == 1) {
        store(all, t.load_some(p, lanes), AllLanes{});
        for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? 7.0f : 0.0f));
        t.store_some(p, iota(), lanes);
        for (int i = 0; i < n; i++) CHECK(t.load_one(p[i]) == float(i));
      }
      CHECK(p[-1] == 99);
    }
  }
}

int main() {
  for (const Half* t : {&kF16, &kBF16}) {
    check_all_values(*t);
    check_rounding(*t);
    check_partial_lanes(*t);
  }
  std::puts("floats of 16 bits: right, all of them");
  return 0;
}
