// The contract on tensors without elements: they may have no memory, and share none.
#include <cstdio>
#include <cstring>

#include "contract.h"

using namespace LUMIGEN_NS;

Status LUMIGEN_NS::check_device(const Tensor&, const Port&) { return kOk; }

static int failures = 0;

static void expect(bool right, const char* what) {
  if (right) return;
  std::printf("%s: %s\n", what, last_error());
  failures = 1;
}

int main() {
  const Port port = {"f", "x", 2, 32, 2, "(n - 1, 4)"};
  int64_t shape[] = {0, 4};
  float memory[8] = {};
  Tensor nothing = {nullptr, 1, 0, 2, 2, 32, 1, shape, nullptr, 0};
  expect(check_tensor(&nothing, port) == kOk, "no elements in no memory");
  shape[0] = 2;
  expect(check_tensor(&nothing, port) == kBadArgument && std::strstr(last_error(), "has no data (NULL)"),
         "elements in no memory");
  Tensor all = nothing;
  all.data = nothing.data = memory;
  expect(check_apart(nothing, port, all, port) == kBadArgument, "elements that are shared");
  int64_t none[] = {0, 4};
  nothing.shape = none;
  nothing.data = memory + 1;
  expect(check_apart(nothing, port, all, port) == kOk, "no elements, inside others");
  expect(check_apart(all, port, nothing, port) == kOk, "no elements inside an output");
  return failures;
}
