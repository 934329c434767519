#include "unified_weights.h"

#include <cstring>

namespace LUMIGEN_NS {

namespace {

constexpr size_t kRowAlignment = 256;  // of a copied weight: whole lines of the cache
constexpr size_t kRead = 4;            // elements that a thread reads at once

// Whether kernels can read a row where the file has it.
bool fits(const FoundWeight& row, const WeightSpec& spec) {
  const size_t alignment = kRead * static_cast<size_t>(spec.item_bytes);
  return !row.is_converted() && reinterpret_cast<uintptr_t>(row.data) % alignment == 0;
}

size_t room(const WeightSpec& spec) {
  return (static_cast<size_t>(spec.bytes) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

}  // namespace

Status Weights::place(const char* where, const WeightTable& table, MTL::Device* device) {
  const FileMap& map = file_.map();
  // A file that is larger than a buffer of this GPU may be is copied, too.
  const bool is_mapped = map.is_mapped() && mapped_.wrap(device, map.data(), map.bytes());
  const auto stays = [&](int32_t i) {
    return is_mapped && !table.specs[i].made && fits(file_.rows()[static_cast<size_t>(i)], table.specs[i]);
  };
  size_t total = 0;
  for (int32_t i = 0; i < table.count; ++i) total += stays(i) ? 0 : room(table.specs[i]);
  if (!copied_.make(device, total))
    return fail(kNoMemory, "[%s] no memory for the weights, %zu bytes. Free memory.", where, total);
  char* next = copied_.data();
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    if (spec.made) {
      data_.push_back(next);
      next += room(spec);
      continue;
    }
    const FoundWeight& row = file_.rows()[static_cast<size_t>(i)];
    data_.push_back(stays(i) ? const_cast<char*>(row.data) : next);
    if (stays(i)) continue;
    if (row.is_converted()) {
      if (const Status s = convert_floats(where, next, row.data, row.items(), row.held, spec)) return s;
    } else if (spec.bytes > 0) {
      std::memcpy(next, row.data, static_cast<size_t>(spec.bytes));
    }
    file_.done_with(row);
    next += room(spec);
  }
  return kOk;
}

}  // namespace LUMIGEN_NS
