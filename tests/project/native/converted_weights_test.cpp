// Opens a file with a tensor `w` of floats as F32, F16 or BF16, in rows and in panels, and writes the bytes; or says
// why it is refused.
#include <cstdio>
#include <string>

#include "host_weights.h"

int main(int count, char** arguments) {
  using namespace rt;
  if (count != 5) return 2;
  const int64_t n = std::stoll(arguments[2]), k = std::stoll(arguments[3]);
  const int64_t shape[] = {n, k};
  const char* dtype = arguments[4];
  const int32_t item = dtype[1] == '3' ? 4 : 2;
  const bool pairs = dtype[0] == 'B';
  const Panels panels{n, k, k, 1, 16, 0, pairs ? 2 : 1};
  const int64_t panel_bytes = (n + 15) / 16 * 16 * (pairs ? (k + 31) / 32 * 32 : k) * item;
  const WeightSpec specs[] = {
      {"w", "w", dtype, item, 2, shape, nullptr, "w", "", n * k * item},
      {"w", "w", dtype, item, 2, shape, &panels, "w_panels", "panels", panel_bytes},
  };
  if (verify_weights(arguments[1], specs, 2)) return 1;
  Weights weights;
  const WeightTable table = {specs, 2, nullptr, nullptr};
  const Status opened = weights.file()->open_file("test", arguments[1], Access::kMapped, table);
  if (opened || weights.place("test", table, Allocator{})) {
    std::fputs(last_error(), stderr);
    return 1;
  }
  for (int i = 0; i < 2; ++i)
    std::fwrite(weights.get<char>(i), 1, static_cast<size_t>(specs[i].bytes), stdout);
  return 0;
}
