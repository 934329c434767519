// The C++ interface of `tiny` and, beside it in one program, of a second model.
#include <cstdio>
#include <type_traits>
#include <utility>

#include "other.hpp"
#include "tiny.hpp"

#ifdef WRONG_RANK
void wrong(const tiny::Context& c, std::vector<float>& v) { c.forward(tiny::view(v, {7}), tiny::view(v, {1, 20}), tiny::view(v, {1})); }
#endif
#ifdef WRONG_TYPE
void wrong(const tiny::Context& c, std::vector<double>& v, std::vector<float>& f) {
  c.forward(tiny::view(v, {1, 7}), tiny::view(f, {1, 20}), tiny::view(f, {1}));
}
#endif
#ifdef CONST_OUTPUT
void wrong(const tiny::Context& c, const std::vector<float>& v, std::vector<float>& f) {
  c.forward(tiny::view(v, {1, 7}), tiny::view(v, {1, 20}), tiny::view(f, {1}));
}
#endif

template <class Model, class Context, class Options, class Error>
int use(const char* path, std::vector<float>* y) {
  Options options;
  options.weights_path = path;
  Context context = [&] {
    Model model(options);
    Model moved(std::move(model));
    return Context(moved);  // outlives its model
  }();
  const std::vector<float> x(2 * 7, 0.5f);
  std::vector<float> total(2);
  y->resize(2 * 20);
  int kernels = 0;
  context.profile([](void* count, const char*, std::int32_t, double) { ++*static_cast<int*>(count); }, &kernels);
  context.forward({x.data(), {2, 7}}, {y->data(), {2, 20}}, {total.data(), {2}});
  context.profile(nullptr);
  context.forward({x.data(), {2, 7}}, {y->data(), {2, 20}}, {total.data(), {2}});
  if (kernels != 3) return 3;
  try {
    context.forward({x.data(), {2, 7}}, {y->data(), {2, 19}}, {total.data(), {2}});
    return 1;
  } catch (const Error& error) {
    if (error.status() != 3) return 2;
  }
  return 0;
}

int main(int, char** argv) {
  static_assert(!std::is_copy_constructible<tiny::Model>::value && !std::is_copy_constructible<tiny::Context>::value, "");
  static_assert(std::is_nothrow_move_constructible<tiny::Context>::value, "");
  std::vector<float> a, b;
  int code = use<tiny::Model, tiny::Context, tiny::ModelOptions, tiny::Error>(argv[1], &a);
  code += use<other::Model, other::Context, other::ModelOptions, other::Error>(argv[1], &b);
  if (a != b) code += 10;
  std::vector<float> v(14);
  try {
    tiny::view(v, {3, 7});
    code += 100;
  } catch (const tiny::Error&) {
  }
  tiny::View<float, 0> one = tiny::scalar(v[0]);
  if (one.data != v.data()) code += 1000;
  tiny_context* none = nullptr;
  if (tiny_context_cancel(none) != TINY_BAD_ARGUMENT || std::string(other_last_error()) == tiny_last_error()) code += 10000;
  std::printf("code %d\n", code);
  return code;
}
