// Vector primitives lane by lane against plain C++, over ordinary and special values, and partial
// loads and stores against the end of a page that must not be touched.
#include "lanes.h"
#include "simd.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <initializer_list>

#include "each_pair.h"

using namespace LUMIGEN_NS;

static const float kValues[] = {0.0f,  -0.0f,  1.0f,      -1.0f,   0.5f,     -0.5f,     1.5f,
                                2.5f,  -2.5f,  3.7f,      -3.7f,   7.0f,     -7.0f,     1e-40f,
                                1e30f, -1e30f, 8388609.f, -1e-40f, INFINITY, -INFINITY, NAN,
                                0.1f,  -0.3f,  1e9f,      -2e9f,   3e-20f,   0x1p-126f, 3.0f};
static constexpr int kCount = sizeof kValues / sizeof kValues[0];

template <class F, class G>
static void check_unary(F&& vector, G&& plain) {
  for (int i = 0; i < kCount; i++) {
    float x[kLanes], y[kLanes];
    for (int l = 0; l < kLanes; l++) x[l] = kValues[(i + l) % kCount];
    store(y, vector(load(x, AllLanes{})), AllLanes{});
    for (int l = 0; l < kLanes; l++) CHECK(same(y[l], plain(x[l])));
  }
}

template <class F, class G>
static void check_binary(F&& vector, G&& plain) {
  check_pairs<AllLanes, kLanes>(kValues, vector, plain);
}

static void check_arithmetic() {
  check_binary([](Vec a, Vec b) { return a + b; }, [](float a, float b) { return a + b; });
  check_binary([](Vec a, Vec b) { return a - b; }, [](float a, float b) { return a - b; });
  check_binary([](Vec a, Vec b) { return a * b; }, [](float a, float b) { return a * b; });
  check_binary([](Vec a, Vec b) { return a / b; }, [](float a, float b) { return a / b; });
  check_binary([](Vec a, Vec b) { return fma(a, b, splat(0.7f)); },
               [](float a, float b) { return kFusedFma ? std::fma(a, b, 0.7f) : a * b + 0.7f; });
  check_binary([](Vec a, Vec b) { return max_ordered(a, b); },
               [](float a, float b) { return a < b ? b : a; });
  check_binary([](Vec a, Vec b) { return min_ordered(a, b); },
               [](float a, float b) { return b < a ? b : a; });
  check_binary([](Vec a, Vec b) { return max_nan(a, b); },
               [](float a, float b) { return LUMIGEN_NS::max_nan(a, b); });
  check_binary([](Vec a, Vec b) { return min_nan(a, b); },
               [](float a, float b) { return LUMIGEN_NS::min_nan(a, b); });
  CHECK(std::isnan(LUMIGEN_NS::max_nan(NAN, 1.0f)) && std::isnan(LUMIGEN_NS::max_nan(1.0f, NAN)));
  check_binary([](Vec a, Vec b) { return copy_sign(a, b); },
               [](float a, float b) { return std::copysign(a, b); });
  check_unary([](Vec a) { return recip(a); }, [](float a) { return 1.0f / a; });
  check_unary([](Vec a) { return sqrt(a); }, [](float a) { return std::sqrt(a); });
  check_unary([](Vec a) { return abs(a); }, [](float a) { return std::fabs(a); });
  check_unary([](Vec a) { return negate(a); }, [](float a) { return -a; });
  check_unary([](Vec a) { return floor(a); }, [](float a) { return std::floor(a); });
  check_unary([](Vec a) { return trunc(a); }, [](float a) { return std::trunc(a); });
  check_unary([](Vec a) { return round_even(a); }, [](float a) { return std::nearbyint(a); });
}

static void check_mod() {
  const auto vector = [](Vec a, Vec b) { return mod(a, b); };
  const auto plain = [](float a, float b) { return LUMIGEN_NS::mod(a, b); };
  check_binary(vector, plain);
  Random random;
  for (int round = 0; round < 200000; round++) {
    float x[kLanes], y[kLanes], z[kLanes];
    for (int l = 0; l < kLanes; l++) {
      x[l] = std::ldexp(random.unit(), random.below(40) - 20);
      y[l] = random.below(4) ? std::ldexp(random.unit(), random.below(30) - 15)
                             : x[l] / float(1 + random.below(9));
    }
    store(z, vector(load(x, AllLanes{}), load(y, AllLanes{})), AllLanes{});
    for (int l = 0; l < kLanes; l++) CHECK(same(z[l], plain(x[l], y[l])));
  }
  CHECK(LUMIGEN_NS::mod(-7.0f, 3.0f) == 2.0f && LUMIGEN_NS::mod(7.0f, -3.0f) == -2.0f);
  CHECK(LUMIGEN_NS::mod(5.5f, 2.0f) == 1.5f && std::isnan(LUMIGEN_NS::mod(1.0f, 0.0f)));
}

static float lane(Mask m) { return first_lane(select(m, splat(1.0f), splat(0.0f))); }

static void check_masks() {
  for (const float a : kValues)
    for (const float b : kValues) {
      const Vec x = splat(a), y = splat(b);
      CHECK(lane(lt(x, y)) == float(a < b) && lane(eq(x, y)) == float(a == b));
      CHECK(lane(le(x, y)) == float(a <= b) && lane(ne(x, y)) == float(a != b));
      CHECK(lane(is_inf(x)) == float(std::isinf(a)) && lane(is_finite(x)) == float(std::isfinite(a)));
      CHECK(lane(mask_and(lt(x, y), is_nan(x))) == 0.0f);
      CHECK(lane(mask_or(eq(x, x), is_nan(x))) == 1.0f);
      CHECK(lane(mask_not(lt(x, y))) == float(!(a < b)) && any(lt(x, y)) == (a < b));
    }
  CHECK(lane(lt(splat_int(-1), splat_int(1))) == 1.0f && lane(eq(splat_int(3), splat_int(4))) == 0);
}

static void check_integers() {
  Random random;
  for (int round = 0; round < 1000; round++) {
    const int32_t a = int32_t(random.word()), b = int32_t(random.word());
    const uint32_t p = uint32_t(a), q = uint32_t(b);
    const IVec x = splat_int(a), y = splat_int(b);
    const IVec got[] = {x + y, x - y, x * y, x & y, x | y, x ^ y, shift_left<5>(x), shift_right<5>(x)};
    const uint32_t want[] = {p + q, p - q, p * q, p & q, p | q, p ^ q, p << 5, uint32_t(a >> 5)};
    for (int i = 0; i < 8; i++) {
      int32_t each[kLanes];
      store_int(each, got[i], AllLanes{});
      for (int l = 0; l < kLanes; l++) CHECK(uint32_t(each[l]) == want[i]);
    }
    CHECK(first_lane(to_float(x)) == float(a));
    const float small = random.unit() * 1e6f;
    CHECK(first_lane(to_float(to_int(splat(small)))) == std::trunc(small));
  }
}

// A readable page before one that is not: memory[0 .. bytes) may be touched, nothing after.
static float* end_of_page() {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  char* two =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(two != MAP_FAILED && mprotect(two + page, page, PROT_NONE) == 0);
  return reinterpret_cast<float*>(two + page);
}

// Rows of steps that end with the page; all phases have the one row if nothing is between them.
template <int kPhases, class Lanes>
static void check_phases(float* end, Lanes lanes) {
  const int n = lane_count(lanes);
  for (int start = 0; start < 2 * kPhases; start++) {
    const int steps = (start + n - 1) / kPhases + 1;
    for (const int between : {0, steps}) {
      float* const p = end - (between == 0 ? steps : steps * kPhases);
      for (float* x = p; x < end; x++) *x = float(x - p + 1);
      float all[kLanes];
      store(all, load_phases<kPhases>(p, start, between, lanes), AllLanes{});
      for (int i = 0; i < kLanes; i++) {
        const int k = start + i;
        CHECK(all[i] == (i < n ? float(k / kPhases + k % kPhases * between + 1) : 0.0f));
      }
    }
  }
}

template <class Lanes>
static void check_all_phases(float* end, Lanes lanes) {
  check_phases<2>(end, lanes);
  check_phases<3>(end, lanes);
  check_phases<4>(end, lanes);
}

static void check_partial_lanes() {
  float* const end = end_of_page();
  check_all_phases(end, AllLanes{});
  for (int n = 1; n < kLanes; n++) {
    const FirstLanes lanes{n};
    float* const p = end - n;
    for (int i = 0; i < n; i++) p[i] = float(i + 1);
    p[-1] = 99.0f;
    float all[kLanes];
    store(all, load(p, lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(i + 1) : 0.0f));
    store(all, zero_tail(load(p, lanes), lanes, 5.0f), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(i + 1) : 5.0f));
    store(all, add_product(splat(2.0f), load(p, lanes), splat(__builtin_inff()), lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? __builtin_inff() : 2.0f));
    store(p, splat(7.0f), lanes);
    for (int i = 0; i < n; i++) CHECK(p[i] == 7.0f);
    CHECK(p[-1] == 99.0f);

    int32_t whole[kLanes];
    for (int i = 0; i < n; i++) reinterpret_cast<int32_t*>(p)[i] = -i;
    store_int(whole, load_int(reinterpret_cast<int32_t*>(p), lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(whole[i] == (i < n ? -i : 0));
    store_int(reinterpret_cast<int32_t*>(p), iota_int(), lanes);
    for (int i = 0; i < n; i++) CHECK(reinterpret_cast<int32_t*>(p)[i] == i);

    int8_t* const bytes = reinterpret_cast<int8_t*>(end) - n;
    for (int i = 0; i < n; i++) bytes[i] = int8_t(-i);
    store(all, load_widened(bytes, lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(-i) : 0.0f));

    float* const wide = end - (3 * n - 2);
    for (int i = 0; i < 3 * n - 2; i++) wide[i] = float(i);
    store(all, load_strided(wide, 3, lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(3 * i) : 0.0f));
    store_strided(wide, 3, iota(), lanes);
    for (int i = 0; i < 3 * n - 2; i++) CHECK(wide[i] == float(i % 3 ? i : i / 3));
    int64_t index[kLanes];
    for (int i = 0; i < n; i++) index[i] = 3 * (n - 1 - i);
    store(all, gather(wide, index, lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(n - 1 - i) : 0.0f));
    store(all, gather(wide, iota_int() * splat_int(3), lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(all[i] == (i < n ? float(i) : 0.0f));
    int32_t* const integers = reinterpret_cast<int32_t*>(wide);
    for (int i = 0; i < 3 * n - 2; i++) integers[i] = -i;
    store_int(whole, gather_int(integers, iota_int() * splat_int(3), lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(whole[i] == (i < n ? -3 * i : 0));
    store_int(whole, build_ints([&](int i) { return integers[3 * i]; }, lanes), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(whole[i] == (i < n ? -3 * i : 0));
    check_all_phases(end, lanes);
  }
}

static void check_for_lanes() {
  for (int n = 0; n <= 3 * kLanes; n++) {
    int64_t covered = 0;
    for_lanes(n, [&](int64_t j, auto lanes) {
      CHECK(j == covered);
      covered += lane_count(lanes);
    });
    CHECK(covered == n);
  }
}

static void check_reductions() {
  Random random;
  for (int round = 0; round < 1000; round++) {
    float x[kLanes], sum[kLanes];
    for (int l = 0; l < kLanes; l++) x[l] = sum[l] = random.unit();
    float most = x[0], least = x[0];
    for (int l = 1; l < kLanes; l++) {
      most = x[l] > most ? x[l] : most;
      least = x[l] < least ? x[l] : least;
    }
    for (int half = kLanes / 2; half > 0; half /= 2)  // the documented order
      for (int l = 0; l < half; l++) sum[l] += sum[l + half];
    CHECK(reduce_add(load(x, AllLanes{})) == sum[0]);
    CHECK(reduce_max(load(x, AllLanes{})) == most && reduce_min(load(x, AllLanes{})) == least);
    Vec rows[kLanes];
    for (Vec& row : rows) row = build([&](int) { return random.unit(); });
    float each[kLanes];
    store(each, reduce_add_rows(rows), AllLanes{});
    for (int r = 0; r < kLanes; r++) CHECK(each[r] == reduce_add(rows[r]));
    x[random.below(kLanes)] = NAN;
    CHECK(std::isnan(reduce_max(load(x, AllLanes{}))));
    CHECK(std::isnan(reduce_min(load(x, AllLanes{}))));
  }
}

static void check_interleave() {
  float both[2 * kLanes];
  for (const bool second : {false, true})
    store(both + (second ? kLanes : 0), interleave(iota(), splat(100.0f) + iota(), second), AllLanes{});
  for (int i = 0; i < 2 * kLanes; i++) CHECK(both[i] == float(i / 2 + 100 * (i % 2)));
}

static void check_transpose() {
  Vec rows[kLanes];
  for (int r = 0; r < kLanes; r++) rows[r] = iota() + splat(float(100 * r));
  transpose(rows);
  for (int r = 0; r < kLanes; r++) {
    float x[kLanes];
    store(x, rows[r], AllLanes{});
    for (int l = 0; l < kLanes; l++) CHECK(x[l] == float(100 * l + r));
  }
}

// Comparisons with a number of each lane, also where it is far beyond 32 bits.
static void check_affine() {
  const int64_t far = int64_t(1) << 62;
  for (int64_t base : {-far, -(int64_t(1) << 31), int64_t(-20), int64_t(-1), int64_t(0), int64_t(3), far})
    for (int64_t step : {-far / 32, -(int64_t(1) << 24), int64_t(-3), int64_t(-1), int64_t(0), int64_t(1),
                         int64_t(7), (int64_t(1) << 24) + 1, far / 32}) {
      float x[kLanes];
      store(x, select(mask_affine(base, step), splat(1.0f), splat(0.0f)), AllLanes{});
      for (int l = 0; l < kLanes; l++) CHECK(x[l] == (base + l * step >= 0 ? 1.0f : 0.0f));
    }
}

int main() {
  check_arithmetic();
  check_affine();
  check_mod();
  check_masks();
  check_integers();
  check_partial_lanes();
  check_for_lanes();
  check_reductions();
  check_interleave();
  check_transpose();
  std::printf("vectors of %d lanes: right\n", kLanes);
  return 0;
}
