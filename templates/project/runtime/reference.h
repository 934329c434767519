// What references of kernels share: numbers widened to double, and rounded to narrower types again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace LUMIGEN_NS {

// The value of a half-precision number, given by its bits.
inline double from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double size =
      exponent == 0 ? __builtin_ldexp(mantissa, -24) : __builtin_ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) size = mantissa != 0 ? __builtin_nan("") : __builtin_inf();
  return bits >> 15 ? -size : size;
}

// The value of a bfloat16, given by its bits.
inline double from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// x rounded to single precision.
inline double to_f32(double x) { return static_cast<float>(x); }

// x rounded to a float of `digits` significant bits whose least normal exponent is `lowest` and whose
// greatest finite value is `greatest`: to the nearest, ties to even.
inline double to_float(double x, int digits, int lowest, double greatest) {
  if (x == 0 || x - x != 0) return x;  // zero, infinite or NaN
  const int exponent = __builtin_ilogb(x) < lowest ? lowest : __builtin_ilogb(x);
  const double ulp = __builtin_ldexp(1, exponent - digits + 1);
  const double rounded = __builtin_nearbyint(x / ulp) * ulp;
  return __builtin_fabs(rounded) > greatest ? __builtin_copysign(__builtin_inf(), x) : rounded;
}

inline double to_f16(double x) { return to_float(x, 11, -14, 65504); }

// From single precision, as every conversion to bfloat16 goes.
inline double to_bf16(double x) { return to_float(to_f32(x), 8, -126, 0x1.fep127); }

// A float as an integer: towards zero, the nearest one where it does not fit, 0 for NaN.
template <class T>
int64_t to_integer(double value) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  if (value != value) return 0;
  if (value <= static_cast<double>(least)) return least;
  if (value >= static_cast<double>(most)) return most;
  return static_cast<int64_t>(value);
}

// The remainder with the sign of the divisor; 0 by the integer 0.
inline double modulo(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
inline int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;  // of -1, whose quotient may not fit
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// The place in a row of `count` elements that `rank` places stand before: those of lesser elements, of
// greater ones if it is descending, and of equal ones further ahead. NaN is greater than all numbers.
template <class Row>
double place_of_rank(int64_t rank, int64_t count, bool descending, const Row& row) {
  const auto is_less = [](auto a, auto b) { return a < b || (a <= a && !(b <= b)); };
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  std::nth_element(places.begin(), places.begin() + rank, places.end(), [&](int64_t a, int64_t b) {
    const auto x = row(descending ? b : a), y = row(descending ? a : b);
    return is_less(x, y) || (!is_less(y, x) && a < b);
  });
  return static_cast<double>(places[static_cast<size_t>(rank)]);
}

// An entry of a row of `count` elements by their groups, 0, .., groups - 1: how many are less than `entry`,
// up to `groups`; then the places, what is of no group ahead of the first one or behind the last one.
template <class Row>
double entry_of_groups(int64_t entry, int64_t groups, int64_t count, const Row& row) {
  const auto group = [&](int64_t place) {
    return std::min(std::max(static_cast<int64_t>(row(place)), int64_t{-1}), groups);
  };
  if (entry > groups) return place_of_rank(entry - groups - 1, count, false, group);
  int64_t below = 0;
  for (int64_t place = 0; place < count; ++place) below += group(place) < entry ? 1 : 0;
  return static_cast<double>(below);
}

// The sum of the values of a row of `count` elements that are of a group.
template <class Row, class Value>
double sum_of_group(int64_t group, int64_t count, const Row& row, const Value& value) {
  double sum = 0;
  for (int64_t place = 0; place < count; ++place)
    sum += static_cast<int64_t>(row(place)) == group ? value(place) : 0.0;
  return sum;
}

}  // namespace LUMIGEN_NS
