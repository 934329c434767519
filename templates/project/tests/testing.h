// What the tests share: numbers from a counter, buffers, the comparison with a reference. No dependency.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace testing {

constexpr int kSkipped = 77;  // what CTest takes for a skipped test

// Bits that depend on a stream and a counter alone, so that every machine tests with the same numbers.
inline uint64_t random_bits(uint64_t stream, uint64_t counter) {
  uint64_t x = stream * 0xd1342543de82ef95u + (counter + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// About normal, mean 0, deviation 1: the sum of four 16-bit uniforms.
inline double random_normal(uint64_t stream, uint64_t counter) {
  const uint64_t bits = random_bits(stream, counter);
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>(bits >> (16 * i) & 0xffff);
  return (static_cast<double>(sum) - 2.0 * 65535.0) / 65536.0 * 1.7320508075688772;
}

inline int64_t random_integer(uint64_t stream, uint64_t counter, int64_t lo, int64_t hi) {
  const uint64_t span = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
  const uint64_t bits = random_bits(stream, counter);
  return static_cast<int64_t>(static_cast<uint64_t>(lo) + (span == 0 ? bits : bits % span));
}

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The element types as the model spells them. `tolerance` is of a result relative to its own size and that of
// its neighbours; `decode` and `encode` convert one element.
enum class Type { f32, f64, f16, bf16, i8, u8, i32, i64, boolean };

inline size_t size_of(Type type) {
  switch (type) {
    case Type::f64:
    case Type::i64:
      return 8;
    case Type::f32:
    case Type::i32:
      return 4;
    case Type::f16:
    case Type::bf16:
      return 2;
    default:
      return 1;
  }
}

inline bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16;
}

inline double tolerance(Type type) {
  switch (type) {
    case Type::f64:
      return 1e-11;
    case Type::f32:
      return 5e-5;
    case Type::f16:
      return 4e-3;
    case Type::bf16:
      return 3e-2;
    default:
      return 0;
  }
}

// Of the results of a chain of kernels: their errors are independent, and add up as steps of a random walk
// do.
inline double tolerance(Type type, int64_t kernels) {
  return tolerance(type) * std::sqrt(static_cast<double>(kernels < 1 ? 1 : kernels));
}

inline double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 ? -value : value;
}

inline uint16_t double_to_half(double value) {  // exact for what the generator gives, up to its last bit
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  if (size < std::ldexp(1, -14))
    return static_cast<uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(size, 24))));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // 0.5 .. 1
  const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + mantissa - 1024));
}

inline uint16_t double_to_bfloat(double value) {
  const uint32_t bits = float_to_bits(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline double decode(Type type, const char* element) {
  const auto as = [&](auto zero) {
    std::memcpy(&zero, element, sizeof zero);
    return zero;
  };
  switch (type) {
    case Type::f32:
      return static_cast<double>(as(0.0f));
    case Type::f64:
      return as(0.0);
    case Type::f16:
      return half_to_double(as(uint16_t{0}));
    case Type::bf16:
      return static_cast<double>(bits_to_float(static_cast<uint32_t>(as(uint16_t{0})) << 16));
    case Type::i8:
      return as(int8_t{0});
    case Type::i32:
      return as(int32_t{0});
    case Type::i64:
      return static_cast<double>(as(int64_t{0}));
    default:
      return as(uint8_t{0});
  }
}

// Fills `count` elements: floats about normal with deviation `scale`, integers in lo .. hi.
inline void fill(char* out, Type type, int64_t count, uint64_t stream, int64_t lo, int64_t hi,
                 double scale = 1) {
  const auto each = [&](auto zero, auto value_at) {
    for (int64_t i = 0; i < count; ++i) {
      zero = static_cast<decltype(zero)>(value_at(static_cast<uint64_t>(i)));
      std::memcpy(out + i * static_cast<int64_t>(sizeof zero), &zero, sizeof zero);
    }
  };
  const auto normal = [&](uint64_t i) { return random_normal(stream, i) * scale; };
  const auto integer = [&](uint64_t i) { return random_integer(stream, i, lo, hi); };
  switch (type) {
    case Type::f32:
      return each(0.0f, normal);
    case Type::f64:
      return each(0.0, normal);
    case Type::f16:
      return each(uint16_t{0}, [&](uint64_t i) { return double_to_half(normal(i)); });
    case Type::bf16:
      return each(uint16_t{0}, [&](uint64_t i) { return double_to_bfloat(normal(i)); });
    case Type::i8:
      return each(int8_t{0}, integer);
    case Type::i32:
      return each(int32_t{0}, integer);
    case Type::i64:
      return each(int64_t{0}, integer);
    default:
      return each(uint8_t{0}, integer);
  }
}

// Memory aligned to 64 bytes with room after it that nobody may write.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes) : bytes_(bytes), memory_(bytes + 64 + kGuard, static_cast<char>(0x5a)) {}
  // The copy's memory may lie otherwise, and so may its first aligned place.
  Buffer(const Buffer& other) : Buffer(other.bytes_) {
    std::memcpy(data(), const_cast<Buffer&>(other).data(), guarded_bytes());
  }
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;
  char* data() {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - at % 64) % 64;
  }
  size_t bytes() const { return bytes_; }
  size_t guarded_bytes() const { return bytes_ + kGuard; }
  bool guard_is_whole() {
    for (size_t i = 0; i < kGuard; ++i) {
      if (data()[bytes_ + i] != 0x5a) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  size_t bytes_ = 0;
  std::vector<char> memory_;
};

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// `LUMIGEN_TEST_MEGABYTES` caps the memory of one case; larger dims are then reduced, and the test says so.
inline int64_t memory_cap() {
  const char* text = std::getenv("LUMIGEN_TEST_MEGABYTES");
  const int64_t megabytes = text != nullptr ? std::atoll(text) : 512;
  return (megabytes > 0 ? megabytes : 512) << 20;
}

struct DimRange {
  const char* name;
  int64_t lo, hi, multiple_of;
};

// The dims at their least, usual and greatest values; the rows of `values` are the dims.
inline std::string dims_text(const std::vector<DimRange>& dims, const std::vector<int64_t>& values) {
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::string(dims[i].name) + "=" + std::to_string(values[i]);
  return text.empty() ? "no dims" : text;
}

// Halves the largest dim until `bytes_at(values)` fits the cap. False if nothing is left to halve.
template <class Bytes>
bool reduce_to_cap(std::vector<int64_t>* values, const std::vector<DimRange>& dims, Bytes bytes_at) {
  while (bytes_at(*values) > memory_cap()) {
    size_t largest = dims.size();
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t half = (*values)[i] / 2 / dims[i].multiple_of * dims[i].multiple_of;
      if (half >= dims[i].lo && half > 0 && (largest == dims.size() || (*values)[i] > (*values)[largest]))
        largest = i;
    }
    if (largest == dims.size()) return false;
    (*values)[largest] = (*values)[largest] / 2 / dims[largest].multiple_of * dims[largest].multiple_of;
  }
  return true;
}

// Which elements of a buffer are compared: both ends, and some in between.
inline std::vector<int64_t> sample(int64_t count, int64_t ends = 40, int64_t inner = 200) {
  std::vector<int64_t> out;
  if (count <= 2 * ends + inner) {
    for (int64_t i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  for (int64_t i = 0; i < ends; ++i) out.push_back(i);
  for (int64_t i = 0; i < inner; ++i)
    out.push_back(random_integer(7, static_cast<uint64_t>(i), ends, count - ends - 1));
  for (int64_t i = count - ends; i < count; ++i) out.push_back(i);
  return out;
}

// Which elements of a kernel's output are stored.
inline std::vector<int64_t> few(int64_t count) { return sample(count, 8, 32); }

// What an entry or a kernel gives at some dims, computed elsewhere in double precision: for each output the
// elements of `sample`, of a kernel those of `few`, or nothing where a rounding error may give another
// integer.
struct Vector {
  std::vector<int64_t> dims;
  std::vector<std::vector<double>> outputs;
};

// Numbers of some elements by their place in a buffer.
struct Stored {
  const std::vector<int64_t>& elements;
  const std::vector<double>& numbers;
  double operator()(int64_t element) const {
    return numbers[static_cast<size_t>(std::find(elements.begin(), elements.end(), element) -
                                       elements.begin())];
  }
};

// The elements of a buffer as numbers.
struct Decoded {
  Type type;
  const char* data;
  double operator()(int64_t element) const {
    return decode(type, data + element * static_cast<int64_t>(size_of(type)));
  }
};

// How a buffer compares with what it should hold.
struct Comparison {
  int64_t compared = 0;
  int64_t worst = -1;      // element
  double worst_ratio = 0;  // of its error to what is allowed
  double got = 0, expected = 0;
  bool ok() const { return worst_ratio <= 1; }
};

// Compares `result(element)` with `reference(element)`. Errors are measured against the element and the
// typical size of the others, since a sum of many terms may cancel. Stops after some seconds, but not
// before 16 elements.
template <class Result, class Reference>
Comparison compare(const std::vector<int64_t>& elements, double allowed, Result result, Reference reference) {
  Comparison out;
  std::vector<int64_t> at;
  std::vector<double> expected;
  const double start = seconds();
  double squares = 0;
  int64_t finite = 0;
  // A fixed stride through them visits all parts of the buffer, should the time run out.
  const size_t total = elements.size();
  for (size_t first = 0; first < 16 && first < total; ++first) {
    for (size_t i = first; i < total; i += 16) {
      if (seconds() - start > 5 && at.size() >= 16) break;
      at.push_back(elements[i]);
      expected.push_back(reference(elements[i]));
      if (std::isfinite(expected.back())) {
        squares += expected.back() * expected.back();
        ++finite;
      }
    }
  }
  const double typical = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  out.compared = static_cast<int64_t>(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const double got = result(at[i]);
    const double want = expected[i];
    double ratio = 0;
    if (std::isnan(want) || std::isnan(got)) {
      ratio = std::isnan(want) == std::isnan(got) ? 0 : INFINITY;
    } else if (got != want) {
      const double scale = allowed * (std::fabs(want) + typical);
      ratio = std::isinf(want) || scale == 0 ? INFINITY : std::fabs(got - want) / scale;
    }
    if (out.worst < 0 || ratio > out.worst_ratio) {
      out.worst = at[i];
      out.worst_ratio = ratio;
      out.got = got;
      out.expected = want;
    }
  }
  return out;
}

}  // namespace testing
