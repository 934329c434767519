// exp2, exp, power, log2, sin and cos against the double functions of the C library: errors in ulp, special
// values, and one float against a lane of a vector. Argument: test every stride-th float (default 127; the
// bounds were found with 1).
#include "vmath.h"

#include <cmath>
#include <cstring>
#include <initializer_list>

#include "check.h"

using LUMIGEN_NS::AllLanes;
using LUMIGEN_NS::kFusedFma;
using LUMIGEN_NS::kLanes;
using LUMIGEN_NS::Vec;

static float from_word(uint32_t word) {
  float x;
  std::memcpy(&x, &word, sizeof x);
  return x;
}

// |got - exact| in units of the last place that a float near `exact` has.
static double ulps(float got, double exact) {
  if (std::isnan(exact) || std::isinf(float(exact)) || std::isnan(got) || std::isinf(got)) {
    const float nearest = float(exact);
    if (std::isnan(exact) && std::isnan(got)) return 0.0;
    if (nearest == got) return 0.0;
    // Beside overflow, count as if exponents went on.
    if (std::isnan(got) || std::isnan(exact) || std::isinf(exact)) return 1e30;
    if (std::isinf(got)) return std::fabs(exact - std::copysign(0x1p128, exact)) / 0x1p104;
    return std::fabs(double(got) - exact) / 0x1p104;
  }
  int exponent;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, (exponent > -125 ? exponent : -125) - 24);
  return std::fabs(double(got) - exact) / unit;
}

struct Worst {
  double error = 0.0;
  float at = 0.0f;
};

template <class F, class G>
static Worst worst_error(F&& ours, G&& exact, uint32_t first, uint32_t last, uint32_t stride) {
  Worst worst;
  for (uint64_t word = first; word <= last; word += uint64_t(stride) * kLanes) {
    float x[kLanes], y[kLanes];
    for (int i = 0; i < kLanes; i++) {
      const uint64_t w = word + uint64_t(i) * stride;
      x[i] = from_word(uint32_t(w <= last ? w : last));
    }
    store(y, ours(load(x, AllLanes{})), AllLanes{});
    for (int i = 0; i < kLanes; i++) {
      const double error = ulps(y[i], exact(double(x[i])));
      if (error > worst.error) worst = {error, x[i]};
    }
  }
  return worst;
}

// Both signs of every magnitude in [low, high].
template <class F, class G>
static void check_range(const char* name, F&& ours, G&& exact, float low, float high, uint32_t stride,
                        double bound) {
  uint32_t first, last;
  std::memcpy(&first, &low, sizeof first);
  std::memcpy(&last, &high, sizeof last);
  const Worst up = worst_error(ours, exact, first, last, stride);
  const Worst down = worst_error(ours, exact, first | 0x80000000u, last | 0x80000000u, stride);
  const Worst worst = up.error > down.error ? up : down;
  std::printf("%s, |x| in [%g, %g]: %.3f ulp at %.9g\n", name, double(low), double(high), worst.error,
              double(worst.at));
  CHECK(worst.error <= bound);
}

static void check_special_values() {
  const float inf = INFINITY;
  const float nan = from_word(0x7fc01234u);
  CHECK(LUMIGEN_NS::exp2(-inf) == 0.0f && !std::signbit(LUMIGEN_NS::exp2(-inf)));
  CHECK(LUMIGEN_NS::exp2(inf) == inf && LUMIGEN_NS::exp2(128.0f) == inf);
  CHECK(LUMIGEN_NS::exp2(1e38f) == inf && LUMIGEN_NS::exp2(-1e38f) == 0.0f);
  CHECK(LUMIGEN_NS::exp2(-149.0f) == 0x1p-149f && LUMIGEN_NS::exp2(-151.0f) == 0.0f);
  CHECK(LUMIGEN_NS::exp2(-150.0f) == 0.0f && LUMIGEN_NS::exp2(std::nextafter(-150.0f, 0.0f)) == 0x1p-149f);
  CHECK(LUMIGEN_NS::exp2(0.0f) == 1.0f && LUMIGEN_NS::exp2(-0.0f) == 1.0f);
  for (int n = -149; n < 128; n++) CHECK(LUMIGEN_NS::exp2(float(n)) == std::ldexp(1.0f, n));
  CHECK(LUMIGEN_NS::exp(-inf) == 0.0f && LUMIGEN_NS::exp(inf) == inf && LUMIGEN_NS::exp(89.0f) == inf);
  CHECK(LUMIGEN_NS::exp(0.0f) == 1.0f && LUMIGEN_NS::exp(-104.0f) == 0.0f && LUMIGEN_NS::exp(-1e38f) == 0.0f);
  for (const float c : {-0.5f, 0.5f, 1e-30f, -1e30f}) {
    CHECK(LUMIGEN_NS::exp2_scaled(c > 0.0f ? inf : -inf, c, c * 1e-9f) == inf);
    CHECK(LUMIGEN_NS::exp2_scaled(c > 0.0f ? -inf : inf, c, c * 1e-9f) == 0.0f);
    CHECK(std::isnan(LUMIGEN_NS::exp2_scaled(nan, c, 0.0f)));
  }
  // As exp2(log2(x) * y): of two exponents that no number is the product of, NaN.
  const float powers[][3] = {
      {0.0f, 2.0f, 0.0f},     {-0.0f, -3.0f, inf}, {inf, 0.5f, inf},     {inf, -2.0f, 0.0f},
      {2.0f, inf, inf},       {0.5f, inf, 0.0f},   {-1.0f, 2.0f, nan},   {1.0f, inf, nan},
      {0.0f, 0.0f, nan},      {nan, 0.0f, nan},    {3.0f, nan, nan},     {7.0f, 0.0f, 1.0f},
      {1e-40f, 1.0f, 1e-40f}, {1e38f, 2.0f, inf},  {1e38f, -3.0f, 0.0f}, {5.0f, 3.0f, 125.0f}};
  for (const auto& p : powers) {
    const float got = LUMIGEN_NS::power(p[0], p[1]);
    CHECK(got == p[2] || (std::isnan(got) && std::isnan(p[2])));
  }
  for (int n = -149; n < 128; n++) CHECK(LUMIGEN_NS::log2(std::ldexp(1.0f, n)) == float(n));
  CHECK(LUMIGEN_NS::log2(0.0f) == -inf && LUMIGEN_NS::log2(-0.0f) == -inf);
  CHECK(LUMIGEN_NS::log2(inf) == inf);
  CHECK(LUMIGEN_NS::log2(1.0f) == 0.0f && !std::signbit(LUMIGEN_NS::log2(1.0f)));
  CHECK(std::isnan(LUMIGEN_NS::log2(-1.0f)) && std::isnan(LUMIGEN_NS::log2(-inf)));
  CHECK(std::isnan(LUMIGEN_NS::log2(from_word(0x80000001u))));
  CHECK(std::isnan(LUMIGEN_NS::sin(inf)) && std::isnan(LUMIGEN_NS::sin(-inf)));
  CHECK(std::isnan(LUMIGEN_NS::cos(inf)) && std::isnan(LUMIGEN_NS::cos(-inf)));
  CHECK(LUMIGEN_NS::cos(0.0f) == 1.0f && LUMIGEN_NS::cos(-0.0f) == 1.0f && LUMIGEN_NS::cos(1e-40f) == 1.0f);
  CHECK(std::fabs(LUMIGEN_NS::cos(1.57079637f) + 4.37113883e-8f) < 1e-14f);
  CHECK(LUMIGEN_NS::sin(0.0f) == 0.0f && !std::signbit(LUMIGEN_NS::sin(0.0f)));
  CHECK(LUMIGEN_NS::sin(-0.0f) == 0.0f && std::signbit(LUMIGEN_NS::sin(-0.0f)));
  for (const float x : {nan, -nan, from_word(0x7fffffffu), from_word(0xff800001u)}) {
    CHECK(std::isnan(LUMIGEN_NS::exp2(x)));
    CHECK(std::isnan(LUMIGEN_NS::exp(x)));
    CHECK(std::isnan(LUMIGEN_NS::log2(x)));
    CHECK(std::isnan(LUMIGEN_NS::sin(x)));
    CHECK(std::isnan(LUMIGEN_NS::cos(x)));
  }
}

// A lane's result depends on that lane alone, whatever its neighbours make the code do.
static void check_lanes_are_independent() {
  Random random;
  for (int round = 0; round < 20000; round++) {
    float x[kLanes], e[kLanes], l[kLanes], s[kLanes];
    for (int i = 0; i < kLanes; i++) x[i] = from_word(random.word());
    store(e, exp2(load(x, AllLanes{})), AllLanes{});
    store(l, log2(load(x, AllLanes{})), AllLanes{});
    store(s, sin(load(x, AllLanes{})), AllLanes{});
    for (int i = 0; i < kLanes; i++) {
      const float one[] = {LUMIGEN_NS::exp2(x[i]), LUMIGEN_NS::log2(x[i]), LUMIGEN_NS::sin(x[i])};
      CHECK(std::memcmp(&one[0], &e[i], 4) == 0 || std::isnan(x[i]));
      CHECK(std::memcmp(&one[1], &l[i], 4) == 0 || std::isnan(x[i]));
      CHECK(std::memcmp(&one[2], &s[i], 4) == 0 || std::isnan(x[i]));
    }
  }
}

// Of every magnitude, near 1, and where the result is near the ends of the range.
static void check_powers(double bound) {
  Random random;
  double worst = 0.0;
  for (int round = 0; round < 100000; round++) {
    float x[kLanes], y[kLanes], z[kLanes];
    for (int i = 0; i < kLanes; i++) {
      const float part = float(int32_t(random.word())) * 0x1p-31f;
      x[i] = round % 2 ? from_word(random.word() & 0x7fffffffu) : 1.0f + part * (round % 4 ? 0.4f : 1e-3f);
      if (!(x[i] > 0.0f && x[i] < INFINITY)) x[i] = 2.0f;
      const double most = 128.0 / std::fabs(std::log2(double(x[i])));
      y[i] = float((most < 1e6 ? most : 1e6) * double(int32_t(random.word())) * 0x1p-31);
    }
    store(z, power(load(x, AllLanes{}), load(y, AllLanes{})), AllLanes{});
    for (int i = 0; i < kLanes; i++) {
      const double error = ulps(z[i], std::pow(double(x[i]), double(y[i])));
      if (error > worst) worst = error;
    }
  }
  std::printf("power: %.3f ulp\n", worst);
  CHECK(worst <= bound);
}

int main(int argc, char** argv) {
  const uint32_t stride = argc > 1 ? uint32_t(std::atoi(argv[1])) : 127;
  check_special_values();
  check_lanes_are_independent();
  const auto exp2_ours = [](Vec x) { return exp2(x); };
  const auto log2_ours = [](Vec x) { return log2(x); };
  const auto sin_ours = [](Vec x) { return sin(x); };
  const auto exp2_exact = [](double x) { return std::exp2(x); };
  const auto log2_exact = [](double x) { return std::log2(x); };
  const auto sin_exact = [](double x) { return std::sin(x); };
  const auto exp_ours = [](Vec x) { return exp(x); };
  const auto exp_exact = [](double x) { return std::exp(x); };
  const auto third_ours = [](Vec x) { return exp2_scaled(x, -0.333333343f, 9.93410776e-9f); };
  const auto third_exact = [](double x) { return std::exp2(x / -3.0); };
  check_range("exp", exp_ours, exp_exact, 0.0f, INFINITY, stride, kFusedFma ? 1.0 : 1.2);
  check_range("2^(-x / 3)", third_ours, third_exact, 0.0f, INFINITY, stride, kFusedFma ? 1.0 : 1.2);
  check_powers(5.5);
  check_range("exp2", exp2_ours, exp2_exact, 0.0f, 1.0f, stride, kFusedFma ? 0.9 : 1.1);
  check_range("exp2", exp2_ours, exp2_exact, 1.0f, 200.0f, stride, kFusedFma ? 0.9 : 1.1);
  check_range("exp2", exp2_ours, exp2_exact, 200.0f, INFINITY, stride, 0.5);
  check_range("log2", log2_ours, log2_exact, 0.0f, 0.5f, stride, kFusedFma ? 1.0 : 1.15);
  check_range("log2", log2_ours, log2_exact, 0.5f, 2.0f, stride, kFusedFma ? 1.0 : 1.15);
  check_range("log2", log2_ours, log2_exact, 2.0f, INFINITY, stride, kFusedFma ? 1.0 : 1.15);
  const auto cos_ours = [](Vec x) { return cos(x); };
  const auto cos_exact = [](double x) { return std::cos(x); };
  check_range("cos", cos_ours, cos_exact, 0.0f, 3.0f, stride, kFusedFma ? 1.6 : 2.2);
  check_range("cos", cos_ours, cos_exact, 3.0f, 20000.0f, stride, kFusedFma ? 1.6 : 2.2);
  check_range("cos", cos_ours, cos_exact, 20000.0f, 3.4e38f, stride, kFusedFma ? 1.6 : 2.2);
  check_range("sin", sin_ours, sin_exact, 0.0f, 3.0f, stride, kFusedFma ? 1.6 : 2.2);
  check_range("sin", sin_ours, sin_exact, 3.0f, 8192.0f, stride, kFusedFma ? 1.6 : 2.2);
  check_range("sin", sin_ours, sin_exact, 8192.0f, 3.4e38f, stride, kFusedFma ? 1.6 : 2.2);
  return 0;
}
