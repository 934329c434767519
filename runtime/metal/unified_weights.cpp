#include "unified_weights.h"

#include <cstring>

namespace LUMIGEN_NS {

namespace {

constexpr size_t kRowAlignment = 256;  // of a weight: whole lines of the cache

}  // namespace

Status Weights::place(const char* where, const WeightsFile& file, const WeightTable& table,
                      MTL::Device* device) {
  size_t total = 0;
  for (int32_t i = 0; i < table.count; ++i) {
    starts_.push_back(total);
    total += (static_cast<size_t>(table.specs[i].bytes) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  }
  if (!memory_.make(device, total))
    return fail(kNoMemory, "[%s] no memory for the weights, %zu bytes. Free memory.", where, total);
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    if (spec.made) continue;
    const FoundWeight& row = file.rows()[static_cast<size_t>(i)];
    char* const to = memory_.data() + starts_[static_cast<size_t>(i)];
    if (row.is_converted()) {
      if (const Status s = convert_floats(where, to, row.data, row.items(), row.held, spec)) return s;
    } else if (spec.bytes > 0) {
      std::memcpy(to, row.data, static_cast<size_t>(spec.bytes));
    }
    file.done_with(row);
  }
  return kOk;
}

Status Weights::pack_made(const char*, const WeightTable& table) {
  for (int32_t i = 0; i < table.count; ++i) {
    const WeightSpec& spec = table.specs[i];
    if (!spec.made || spec.panels == nullptr) continue;
    const int32_t plain = static_cast<int32_t>(&plain_row(table, spec) - table.specs);
    pack_panels(made<char>(i), get<char>(plain), *spec.panels, spec.item_bytes);
  }
  return kOk;
}

}  // namespace LUMIGEN_NS
