#include "weights.h"

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "memory.h"
#include "safetensors.h"

namespace LUMIGEN_NS {

namespace {

std::string describe(const StoredTensor& tensor) {
  std::string text = tensor.dtype + "[";
  for (size_t i = 0; i < tensor.shape.size() && i < 8; ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + (tensor.shape.size() > 8 ? ", ...]" : "]");
}

Floats floats(const std::string& dtype) {
  if (dtype == "F32") return Floats::kF32;
  if (dtype == "F16") return Floats::kF16;
  return dtype == "BF16" ? Floats::kBF16 : Floats::kNone;
}

Status find(FoundWeight* out, const char* where, const char* file, const Safetensors& stored,
            const WeightSpec& spec) {
  const std::string key = std::string("lumigen.layout.") + spec.packed_name;
  const std::string* record = stored.find_metadata(key);
  if (record != nullptr) {
    if (spec.panels == nullptr || *record != spec.packing)
      return fail(kBadWeights,
                  "[%s] weights file %s holds %s packed as `%.120s`, but this build reads it as `%s`. Pass "
                  "the file that "
                  "was made with this build, or the original one.",
                  where, file, spec.name, record->c_str(), spec.packing);
    const StoredTensor* tensor = stored.find(spec.packed_name);
    if (tensor == nullptr)
      return fail(kBadWeights,
                  "[%s] weights file %s has no tensor %s. Pass the file that belongs to this model.", where,
                  file, spec.packed_name);
    // Packed bytes may be followed by padding, which keeps the next tensor aligned.
    const int64_t have = static_cast<int64_t>(tensor->bytes);
    if (tensor->dtype != "U8" || have < spec.bytes || have - spec.bytes >= static_cast<int64_t>(kAlignment))
      return fail(kBadWeights,
                  "[%s] weights file %s: packed tensor %s is %s, must be %lld bytes. Write the file again.",
                  where, file, spec.packed_name, describe(*tensor).c_str(),
                  static_cast<long long>(spec.bytes));
    *out = {tensor->data, tensor->bytes, true, Floats::kNone};
    return kOk;
  }
  const StoredTensor* tensor = stored.find(spec.name);
  if (tensor == nullptr)
    return fail(kBadWeights,
                "[%s] weights file %s has no tensor %s (%s). Pass the file that belongs to this model.",
                where, file, spec.name, spec.text);
  const std::vector<int64_t>& shape = tensor->shape;
  const Floats held = tensor->dtype != spec.dtype && floats(spec.dtype) != Floats::kNone
                          ? floats(tensor->dtype)
                          : Floats::kNone;
  const bool fits = (held != Floats::kNone || tensor->dtype == spec.dtype) &&
                    shape.size() == static_cast<size_t>(spec.rank) &&
                    std::equal(shape.begin(), shape.end(), spec.shape);
  if (!fits)
    return fail(
        kBadWeights,
        "[%s] weights file %s: tensor %s is %s, must be %s. Pass the file that belongs to this model.", where,
        file, spec.name, describe(*tensor).c_str(), spec.text);
  *out = {tensor->data, tensor->bytes, false, held};
  return kOk;
}

template <class T>
void pack(char* packed, const char* source, const Panels& p) {
  const int64_t inner = p.inner > 0 ? p.inner : p.k;
  const auto at = [&](int64_t n, int64_t k) {
    const int64_t along = k / inner * p.outer_stride + k % inner * p.k_stride;
    T item;
    std::memcpy(&item, source + (p.base + n * p.n_stride + along) * static_cast<int64_t>(sizeof(T)),
                sizeof(T));
    return item;
  };
  T* out = reinterpret_cast<T*>(packed);
  const int64_t side = p.side, whole = 16 * side, depth = side > 1 ? (p.k + whole - 1) / whole * whole : p.k;
  for (int64_t first = 0; first < p.n; first += p.width)
    for (int64_t k = 0; k < depth; k += side)
      for (int64_t n = first; n < first + p.width; ++n)
        for (int64_t i = k; i < k + side; ++i) *out++ = n < p.n && i < p.k ? at(n, i) : T{};
}

// The nearest number of 16 bits, the even one between two; a NaN stays one.
uint16_t to_bf16(float x) {
  uint32_t wide;
  std::memcpy(&wide, &x, sizeof wide);
  if (x != x) return static_cast<uint16_t>(wide >> 16 | 0x40);
  return static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

uint16_t to_f16(float x) {
  uint32_t wide;
  std::memcpy(&wide, &x, sizeof wide);
  const uint32_t sign = wide >> 16 & 0x8000, size = wide & 0x7fffffff;
  if (x != x) return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 rounds up to infinity
  if (size >= 0x38800000)
    return static_cast<uint16_t>(sign | (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13);
  const float shifted = (x < 0 ? -x : x) + 0.5f;  // the last place of 1/2 is that of the denormals
  std::memcpy(&wide, &shifted, sizeof wide);
  return static_cast<uint16_t>(sign | (wide - 0x3f000000));
}

// Every number of 16 bits is one of f32.
float from_bf16(uint16_t item) {
  const uint32_t wide = static_cast<uint32_t>(item) << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

float from_f16(uint16_t item) {
  const uint32_t sign = (item & 0x8000u) << 16, exponent = item & 0x7c00u;
  uint32_t wide = (item & 0x7fffu) << 13;
  if (exponent == 0x7c00u)
    wide += 224u << 23;  // infinities and NaN have the greatest exponent of f32
  else
    wide += exponent != 0 ? 112u << 23 : 113u << 23;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  if (exponent == 0) x -= 6.103515625e-05f;  // a denormal was put on top of 2^-14
  std::memcpy(&wide, &x, sizeof wide);
  wide |= sign;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

}  // namespace

void pack_panels(char* packed, const char* source, const Panels& panels, int32_t item_bytes) {
  switch (item_bytes) {
    case 1:
      return pack<uint8_t>(packed, source, panels);
    case 2:
      return pack<uint16_t>(packed, source, panels);
    case 4:
      return pack<uint32_t>(packed, source, panels);
    default:
      return pack<uint64_t>(packed, source, panels);
  }
}

int32_t plain_row(const WeightTable& table, const WeightSpec& packed) {
  int32_t row = 0;
  while (table.specs[row].panels != nullptr || std::strcmp(table.specs[row].name, packed.name) != 0) ++row;
  return row;
}

Status convert_floats(const char* where, char* out, const char* source, size_t n, Floats held,
                      const WeightSpec& spec) {
  const Floats read = floats(spec.dtype);
  float lost = 0;  // the greatest number that f16 has not
  for (size_t i = 0; i < n; ++i) {
    float x;
    uint16_t item;
    if (held == Floats::kF32) {
      std::memcpy(&x, source + i * sizeof x, sizeof x);
    } else {
      std::memcpy(&item, source + i * sizeof item, sizeof item);
      x = held == Floats::kBF16 ? from_bf16(item) : from_f16(item);
    }
    if (read == Floats::kF32) {
      std::memcpy(out + i * sizeof x, &x, sizeof x);
    } else {
      item = read == Floats::kBF16 ? to_bf16(x) : to_f16(x);
      const float size = x < 0 ? -x : x;
      if (read == Floats::kF16 && size >= 65520 && size <= FLT_MAX) lost = std::max(lost, size);
      std::memcpy(out + i * sizeof item, &item, sizeof item);
    }
  }
  if (lost > 0)
    return fail(
        kBadWeights,
        "[%s] weight %s has %g, but the greatest number of f16, in which this model holds it, is 65504. "
        "Compile the model with --dtype bf16 or --dtype f32, or scale the weight.",
        where, spec.name, static_cast<double>(lost));
  return kOk;
}

Status WeightsFile::open_file(const char* where, const char* path, Access access, const WeightTable& table) {
  if (const Status s = map_.open(where, path, access)) return s;
  return find_rows(where, path, map_.data(), map_.bytes(), table);
}

Status WeightsFile::open_memory(const char* where, const void* data, size_t bytes, const WeightTable& table) {
  return find_rows(where, "in memory", static_cast<const char*>(data), bytes, table);
}

Status WeightsFile::find_rows(const char* where, const char* file, const char* begin, size_t bytes,
                              const WeightTable& table) {
  Safetensors stored;
  if (const Status s = read_safetensors(&stored, where, file, begin, bytes)) return s;
  rows_.resize(static_cast<size_t>(table.count));
  for (int32_t i = 0; i < table.count; ++i) {
    if (table.specs[i].made) continue;
    if (const Status s = find(&rows_[static_cast<size_t>(i)], where, file, stored, table.specs[i])) return s;
  }
  return kOk;
}

void WeightsFile::done_with(const FoundWeight& row) const { map_.release_pages(row.data, row.bytes); }

Status verify_weights(const char* path, const WeightSpec* specs, int32_t count) noexcept try {
  const char* where = "weights_verify";
  FileMap map;
  if (const Status s = map.open(where, path, Access::kMapped)) return s;
  Safetensors stored;
  if (const Status s = read_safetensors(&stored, where, path, map.data(), map.bytes())) return s;
  for (int32_t i = 0; i < count; ++i) {
    FoundWeight row;
    if (specs[i].made) continue;
    if (const Status s = find(&row, where, path, stored, specs[i])) return s;
  }
  if (const std::string* expected = stored.find_metadata("lumigen.hash")) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx",
                  static_cast<unsigned long long>(data_hash(stored.data, stored.data_bytes)));
    if (*expected != text)
      return fail(
          kBadWeights,
          "[%s] weights file %s is damaged: its data hashes to %s, its header says %.32s. Fetch it again.",
          where, path, text, expected->c_str());
  }
  return kOk;
} catch (const std::bad_alloc&) {
  return fail(kNoMemory, "[weights_verify] no memory for the header of %s. Free memory.", path);
} catch (...) {
  return fail(kInternal, "[weights_verify] an unexpected exception.");
}

}  // namespace LUMIGEN_NS
