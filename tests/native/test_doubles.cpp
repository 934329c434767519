// Vectors of doubles lane by lane against plain C++, over ordinary and special values, with errors of exp2
// and log2 against long double, and partial loads and stores against the end of memory.
#include "doubles.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "each_pair.h"

using namespace LUMIGEN_NS;

static const double kValues[] = {0.0,    -0.0,    1.0,      -1.0,      0.5,   -0.5,   2.5,
                                 -3.7,   1e-310,  5e-324,   1e30,      -1e30, 2000.0, -2000.0,
                                 1023.9, -1074.0, INFINITY, -INFINITY, NAN,   7.0};
static constexpr int kCount = sizeof kValues / sizeof kValues[0];

// Units in the last place between a result and the right one.
static double units(double got, long double right) {
  const double near = double(right);
  if (got == near || (std::isnan(got) && std::isnan(near))) return 0.0;
  const double unit = std::nextafter(std::fabs(near), HUGE_VAL) - std::fabs(near);
  return double(std::fabs((static_cast<long double>(got) - right) / static_cast<long double>(unit)));
}

template <class F, class G>
static void check_binary(F&& vector, G&& plain) {
  check_pairs<AllLanes, kLanes>(kValues, vector, plain);
}

static void check_arithmetic() {
  using D = Doubles;
  check_binary([](D a, D b) { return a + b; }, [](double a, double b) { return a + b; });
  check_binary([](D a, D b) { return a / b; }, [](double a, double b) { return a / b; });
  check_binary([](D a, D b) { return max_nan(a, b); }, [](double a, double b) { return max_nan(a, b); });
  check_binary([](D a, D b) { return min_nan(a, b); }, [](double a, double b) { return min_nan(a, b); });
  check_binary([](D a, D b) { return max_ordered(a, b); }, [](double a, double b) { return a < b ? b : a; });
  check_binary([](D a, D b) { return min_ordered(a, b); }, [](double a, double b) { return b < a ? b : a; });
  check_binary([](D a, D b) { return select(lt(a, b), a, b); },
               [](double a, double b) { return a < b ? a : b; });
  check_binary([](D a, D b) { return select(ne(a, b), a, b); },
               [](double a, double b) { return a != b ? a : b; });
  check_binary([](D a, D) { return sqrt(abs(a)); }, [](double a, double) { return std::sqrt(std::fabs(a)); });
  check_binary([](D a, D) { return floor(a); }, [](double a, double) { return std::floor(a); });
  check_binary([](D a, D) { return mod(a, splat(1.0)); },
               [](double a, double) { return double_mod(a, 1.0); });
  check_binary([](D a, D b) { return mod(a, b); }, [](double a, double b) { return double_mod(a, b); });
  check_binary([](D a, D) { return widen(narrow(a)); }, [](double a, double) { return double(float(a)); });
}

// The functions of special values, and how far off they are of others.
static void check_functions() {
  constexpr double kMostOfExp2 = kFusedFma ? 0.9 : 1.1, kMostOfLog2 = kFusedFma ? 0.9 : 2.8;
  constexpr double kLog2E = 1.4426950408889634, kUpper = 0.6931471806019545, kLower = -4.2009150726810846e-11;
  constexpr double kMostOfExp = 1.5;
  const double kExponents[] = {762.0, -762.0, 0.0, -0.0, std::nan("")};
  Random random;
  double x[kLanes], y[kLanes];
  for (int turn = 0; turn < 20000; turn++) {
    for (double& a : x) a = double(random.unit()) * (turn % 2 ? 1020.0 : 2.0);
    store(y, exp2(load(x, AllLanes{})), AllLanes{});
    for (int l = 0; l < kLanes; l++)
      CHECK(units(y[l], std::exp2(static_cast<long double>(x[l]))) < kMostOfExp2);
    for (double& a : x)
      a = turn % 4 == 0 ? 1.0 + 0.01 * double(random.unit())
                        : std::ldexp(1.5 + 0.5 * double(random.unit()),
                                     turn % 2 ? random.below(2000) - 1000 : -random.below(2));
    store(y, log2(load(x, AllLanes{})), AllLanes{});
    for (int l = 0; l < kLanes; l++)
      CHECK(units(y[l], std::log2(static_cast<long double>(x[l]))) < kMostOfLog2);
  }
  for (int turn = 0; turn < 20000; turn++) {
    for (double& a : x) a = double(random.unit()) * (turn % 2 ? 700.0 : 1.0);
    store(y, exp2_split(load(x, AllLanes{}), splat(kLog2E), splat(kUpper), splat(kLower)), AllLanes{});
    for (int l = 0; l < kLanes; l++)
      CHECK(units(y[l], std::exp(static_cast<long double>(x[l]))) < kMostOfExp);
  }
  for (double value : kExponents) {
    store(y, exp2_split(splat(value), splat(kLog2E), splat(kUpper), splat(kLower)), AllLanes{});
    CHECK(units(y[0], std::exp(static_cast<long double>(value))) < kMostOfExp);
    CHECK(units(exp2_split(value, kLog2E, kUpper, kLower), std::exp(static_cast<long double>(value))) < 2);
  }
  for (double value : kValues) {
    store(y, exp2(splat(value)), AllLanes{});
    CHECK(units(y[0], std::exp2(static_cast<long double>(value))) < kMostOfExp2);
    store(y, log2(splat(value)), AllLanes{});
    CHECK(units(y[0], std::log2(static_cast<long double>(value))) < kMostOfLog2);
  }
}

// Memory behind the named lanes is not there: the address sanitizer would tell.
static void check_tails() {
  for (int n = 1; n < kLanes; n++) {
    const std::unique_ptr<double[]> from(new double[size_t(n)]), to(new double[size_t(n)]);
    for (int i = 0; i < n; i++) from[size_t(i)] = i + 1;
    const FirstLanes lanes{n};
    const Doubles a = load(from.get(), lanes);
    double each[kLanes];
    store(each, zero_tail(a, lanes, -7.0), AllLanes{});
    for (int i = 0; i < kLanes; i++) CHECK(each[i] == (i < n ? i + 1 : -7));
    store(to.get(), a + a, lanes);
    for (int i = 0; i < n; i++) CHECK(to[size_t(i)] == 2 * (i + 1));
    CHECK(reduce_add(a) == n * (n + 1) / 2);
    CHECK(reduce_max(a) == n);
  }
}

int main() {
  check_arithmetic();
  check_functions();
  check_tails();
  return 0;
}
