#include "contract.h"

#include <cstdio>
#include <type_traits>

namespace LUMIGEN_NS {

namespace {

// numpy's name of a dtype.
const char* dtype_name(uint8_t code, uint8_t bits) {
  static const struct {
    uint8_t code, bits;
    const char* name;
  } rows[] = {{0, 8, "int8"},     {0, 16, "int16"},     {0, 32, "int32"},      {0, 64, "int64"},
              {1, 8, "uint8"},    {1, 16, "uint16"},    {1, 32, "uint32"},     {1, 64, "uint64"},
              {2, 16, "float16"}, {2, 32, "float32"},   {2, 64, "float64"},    {4, 16, "bfloat16"},
              {6, 8, "bool"},     {5, 64, "complex64"}, {5, 128, "complex128"}};
  for (const auto& row : rows) {
    if (row.code == code && row.bits == bits) return row.name;
  }
  return "of another dtype";
}

struct Text {
  char chars[160];
};

Text shape_text(const Tensor& t) {
  Text out;
  int length = std::snprintf(out.chars, sizeof out.chars, "(");
  for (int32_t i = 0; i < t.ndim && length < 130; ++i)
    length += std::snprintf(out.chars + length, sizeof out.chars - static_cast<size_t>(length), "%s%lld",
                            i ? ", " : "", static_cast<long long>(t.shape[i]));
  std::snprintf(out.chars + length, sizeof out.chars - static_cast<size_t>(length), t.ndim == 1 ? ",)" : ")");
  return out;
}

Text range_text(const Dim& dim) {
  Text out;
  if (dim.multiple_of == 1)
    std::snprintf(out.chars, sizeof out.chars, "%lld..%lld", static_cast<long long>(dim.lo),
                  static_cast<long long>(dim.hi));
  else
    std::snprintf(out.chars, sizeof out.chars, "%lld..%lld and a multiple of %lld",
                  static_cast<long long>(dim.lo), static_cast<long long>(dim.hi),
                  static_cast<long long>(dim.multiple_of));
  return out;
}

bool allowed(const Dim& dim, int64_t value) {
  return value >= dim.lo && value <= dim.hi && value % dim.multiple_of == 0;
}

bool row_major(const Tensor& t) {
  if (t.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

template <class T>
bool is_inside(T value, int64_t lo, int64_t hi) {
  return static_cast<int64_t>(value) >= lo && static_cast<int64_t>(value) <= hi;
}

// Whether all values are inside, for bounds that a T holds and that are less than half of its range apart:
// then value - lo or hi - value has the highest bit just where it is not, whatever wraps. A vector of values
// is what a run pays, not a branch for each value.
template <class T>
bool all_inside(const T* values, int64_t count, T lo, T hi) {
  using Bits = std::make_unsigned_t<T>;
  constexpr int64_t kEach = 16 / sizeof(T);  // a register of the baseline: a wider one would live in memory
  typedef Bits Vector __attribute__((vector_size(16)));
  const Vector least = static_cast<Bits>(lo) - Vector{}, greatest = static_cast<Bits>(hi) - Vector{};
  Vector below{}, above{};
  int64_t i = 0;
  for (; i + 2 * kEach <= count; i += 2 * kEach) {
    Vector each, next;
    __builtin_memcpy(&each, values + i, sizeof each);
    __builtin_memcpy(&next, values + i + kEach, sizeof next);
    below |= (each - least) | (next - least);
    above |= (greatest - each) | (greatest - next);
  }
  const Vector outside = below | above;
  bool inside = true;
  for (int64_t j = 0; j < kEach; ++j) inside = inside && outside[j] >> (8 * sizeof(T) - 1) == 0;
  for (; i < count; ++i) inside = inside && lo <= values[i] && values[i] <= hi;
  return inside;
}

// Two sweeps: the first is what a run pays; the second finds what to tell.
template <class T>
Status check_range(const Tensor& t, const Port& port, int64_t lo, int64_t hi) {
  const T* values = data_of<const T>(t);
  const int64_t count = static_cast<int64_t>(bytes_of(t) / sizeof(T));
  const T least = static_cast<T>(lo), greatest = static_cast<T>(hi);
  const bool fits = static_cast<int64_t>(least) == lo && static_cast<int64_t>(greatest) == hi;
  constexpr uint64_t kHalf = uint64_t{1} << (8 * sizeof(T) - 1);
  const bool is_near = lo <= hi && static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) < kHalf;
  if (fits && is_near && all_inside(values, count, least, greatest)) return kOk;
  int64_t at = 0;
  while (at < count && is_inside(values[at], lo, hi)) ++at;
  if (at == count) return kOk;
  return fail(kBadArgument,
              "[%s] %s holds %lld at flat index %lld, must be in %lld..%lld. Correct the values.", port.entry,
              port.name, static_cast<long long>(values[at]), static_cast<long long>(at),
              static_cast<long long>(lo), static_cast<long long>(hi));
}

bool is_empty(const Tensor& t) {
  for (int32_t i = 0; i < t.ndim; ++i)
    if (t.shape[i] == 0) return true;
  return false;
}

}  // namespace

uint64_t bytes_of(const Tensor& t) {
  uint64_t bytes = t.bits / 8u;
  for (int32_t i = 0; i < t.ndim; ++i) bytes *= static_cast<uint64_t>(t.shape[i]);
  return bytes;
}

Status check_tensor(const Tensor* t, const Port& port) {
  if (t == nullptr)
    return fail(kBadArgument, "[%s] %s is NULL, must be a tensor. Pass its address.", port.entry, port.name);
  if (t->lanes == 0)
    return fail(kBadDtype, "[%s] %s has 0 lanes, must have 1. Set `lanes`.", port.entry, port.name);
  if (t->code != port.code || t->bits != port.bits || t->lanes != 1)
    return fail(kBadDtype, "[%s] %s is %s, must be %s. Pass %s data; dtypes are never converted.", port.entry,
                port.name, t->lanes == 1 ? dtype_name(t->code, t->bits) : "a vector type",
                dtype_name(port.code, port.bits), dtype_name(port.code, port.bits));
  if (t->ndim != port.rank)
    return fail(kBadShape, "[%s] %s has %d axes, must have %d: %s. Reshape it.", port.entry, port.name,
                static_cast<int>(t->ndim), static_cast<int>(port.rank), port.shape);
  if (t->ndim > 0 && t->shape == nullptr)
    return fail(kBadShape, "[%s] %s has no shape (NULL), must have %d axes: %s. Set `shape`.", port.entry,
                port.name, static_cast<int>(port.rank), port.shape);
  if (t->device_type == 0)
    return fail(
        kBadDevice,
        "[%s] %s has device_type 0, which is no device. Set `device_type` to where its data is: 1 for the "
        "host's memory.",
        port.entry, port.name);
  if (const Status s = check_device(*t, port)) return s;
  if (t->data == nullptr && !is_empty(*t))  // other libraries have no memory for nothing
    return fail(kBadArgument, "[%s] %s has no data (NULL), must have some. Set `data`.", port.entry,
                port.name);
  if (reinterpret_cast<uintptr_t>(data_of<char>(*t)) % (port.bits / 8u) != 0)
    return fail(kBadArgument, "[%s] %s starts at address %p, must start at a multiple of %u bytes. Copy it.",
                port.entry, port.name, static_cast<void*>(data_of<char>(*t)), port.bits / 8u);
  if (!row_major(*t))
    return fail(kBadShape, "[%s] %s of shape %s is not row-major, must be. Copy it to contiguous memory.",
                port.entry, port.name, shape_text(*t).chars);
  return kOk;
}

Status check_dim(const Tensor& t, const Port& port, int32_t axis, const Dim& dim, int64_t value) {
  if (allowed(dim, value)) return kOk;
  return fail(
      kBadShape,
      "[%s] %s has shape %s, must be %s: %s is %lld (axis %d), must be %s. Pass a shape in that range.",
      port.entry, port.name, shape_text(t).chars, port.shape, dim.name, static_cast<long long>(value),
      static_cast<int>(axis), range_text(dim).chars);
}

Status set_extent(int64_t* extent, const Port& port, int32_t axis, Size value, const char* text) {
  *extent = value.value;
  if (value.fits) return kOk;
  return fail(kBadShape, "[%s] axis %d of %s is %s, which is larger than any number. Pass smaller dims.",
              port.entry, static_cast<int>(axis), port.name, text);
}

Status check_extent(const Tensor& t, const Port& port, int32_t axis, Size expected, const char* text) {
  int64_t wanted = 0;
  if (const Status s = set_extent(&wanted, port, axis, expected, text)) return s;
  if (t.shape[axis] == wanted) return kOk;
  return fail(
      kBadShape,
      "[%s] %s has shape %s, must be %s: axis %d is %lld, must be %s%s%lld. Pass a tensor of that shape.",
      port.entry, port.name, shape_text(t).chars, port.shape, static_cast<int>(axis),
      static_cast<long long>(t.shape[axis]), text ? text : "", text ? " = " : "",
      static_cast<long long>(wanted));
}

Status solve_dim(int64_t* value, const Tensor& t, const Port& port, int32_t axis, int64_t scale,
                 int64_t offset, const char* text) {
  int64_t rest = 0;
  if (__builtin_sub_overflow(t.shape[axis], offset, &rest) || rest % scale != 0)
    return fail(
        kBadShape,
        "[%s] %s has shape %s, must be %s: axis %d is %lld, which is no %s. Pass a tensor of that shape.",
        port.entry, port.name, shape_text(t).chars, port.shape, static_cast<int>(axis),
        static_cast<long long>(t.shape[axis]), text);
  *value = rest / scale;
  return kOk;
}

Status check_dim_value(const char* entry, const Dim& dim, int64_t value) {
  if (allowed(dim, value)) return kOk;
  return fail(kBadShape, "[%s] %s is %lld, must be %s. Pass a value in that range.", entry, dim.name,
              static_cast<long long>(value), range_text(dim).chars);
}

Status check_apart(const Tensor& output, const Port& output_port, const Tensor& other,
                   const Port& other_port) {
  if (is_empty(output) || is_empty(other)) return kOk;
  const uintptr_t a = reinterpret_cast<uintptr_t>(data_of<char>(output));
  const uintptr_t b = reinterpret_cast<uintptr_t>(data_of<char>(other));
  if (a + bytes_of(output) <= b || b + bytes_of(other) <= a) return kOk;
  return fail(kBadArgument,
              "[%s] output %s overlaps %s, must share no memory with it. Pass separate buffers.",
              output_port.entry, output_port.name, other_port.name);
}

Status check_values(const Tensor& t, const Port& port, int64_t lo, int64_t hi) {
  if (t.device_type != 1) return kOk;
  if (port.code == 1) return check_range<uint8_t>(t, port, lo, hi);
  switch (port.bits) {
    case 8:
      return check_range<int8_t>(t, port, lo, hi);
    case 32:
      return check_range<int32_t>(t, port, lo, hi);
    default:
      return check_range<int64_t>(t, port, lo, hi);
  }
}

}  // namespace LUMIGEN_NS
