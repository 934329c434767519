#include "host_weights.h"

#include <cstring>

namespace LUMIGEN_NS {

namespace {

bool aligned(const void* p, size_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

}  // namespace

Weights::~Weights() {
  for (const auto& block : owned_) memory_.release(block.first, block.second);
}

Status Weights::own(char** copy, const char* where, const WeightSpec& spec) {
  const size_t bytes = spec.bytes > 0 ? static_cast<size_t>(spec.bytes) : 1;
  owned_.reserve(owned_.size() + 1);
  *copy = memory_.allocate(bytes);
  if (*copy == nullptr)
    return fail(kNoMemory, "[%s] no memory for weight %s, %zu bytes. Free memory.", where, spec.name, bytes);
  owned_.emplace_back(*copy, bytes);
  return kOk;
}

Status Weights::place(const char* where, const WeightTable& table, const Allocator& memory) {
  memory_ = memory;
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    const FoundWeight& row = file_.rows()[static_cast<size_t>(i)];
    if (spec.made) {
      char* place = nullptr;
      if (const Status s = own(&place, where, spec)) return s;
      data_.push_back(place);
      continue;
    }
    const bool pack = spec.panels != nullptr && !row.is_packed;
    const size_t alignment = spec.panels != nullptr ? kAlignment : static_cast<size_t>(spec.item_bytes);
    if (!pack && !row.is_converted() && aligned(row.data, alignment)) {
      data_.push_back(row.data);
      continue;
    }
    char* copy = nullptr;
    if (const Status s = own(&copy, where, spec)) return s;
    const char* source = row.data;
    std::vector<char> converted;
    if (row.is_converted()) {
      const size_t items = row.items();
      converted.resize(pack ? items * static_cast<size_t>(spec.item_bytes) : 0);
      char* out = pack ? converted.data() : copy;
      if (const Status s = convert_floats(where, out, source, items, row.held, spec)) return s;
      source = converted.data();
    }
    if (pack) {
      pack_panels(copy, source, *spec.panels, spec.item_bytes);
    } else if (!row.is_converted()) {
      std::memcpy(copy, source, static_cast<size_t>(spec.bytes));
    }
    data_.push_back(copy);
    packed_bytes_ += spec.bytes;
    file_.done_with(row);
  }
  return kOk;
}

Status Weights::pack_made(const char*, const WeightTable& table) {
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    if (!spec.made || spec.panels == nullptr) continue;
    pack_panels(made<char>(i), get<char>(plain_row(table, spec)), *spec.panels, spec.item_bytes);
  }
  return kOk;
}

}  // namespace LUMIGEN_NS
