// What a model says when it is opened, then what its calls make of Metal's: for each call buffers, command
// buffers, encoders, dispatches.
#include <Metal/Metal.hpp>
#include <cstdio>
#include <vector>

#include "programs.hpp"

using programs::view;

int main(int, char** argv) {
  programs::ModelOptions options;
  options.weights_path = argv[1];
  options.log = [](void*, int32_t, const char* text) { std::printf("%s\n", text); };
  const programs::Model model(options);
  programs::Context context(model);
  std::vector<float> x(7 * 40, 0.5f), normed(7 * 40), columns(40), most(7);
  for (int call = 0; call < 3; ++call) {
    const emulated::Made before = emulated::made();
    context.norms(view(x, {7, 40}), view(normed, {7, 40}), view(columns, {40}), view(most, {7}));
    const emulated::Made& after = emulated::made();
    std::printf("%lu %lu %lu %lu\n", after.buffers - before.buffers,
                after.command_buffers - before.command_buffers, after.encoders - before.encoders,
                after.dispatches - before.dispatches);
  }
  return 0;
}
