// A fiber: a function with a stack of its own, which runs until it gives control back.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulated {

class Fiber {
 public:
  Fiber();  // a stack, with a mebibyte behind it that nothing may touch
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // From now on `resume` runs this function, which must not return before it has given control back for good.
  void start(void (*function)());
  void resume();
  // From inside: back to who resumed it.
  void give_back();
  // Whether this is of its stack, or of what is behind that.
  bool has_on_stack(const void* at) const;
  bool is_behind_stack(const void* at) const;

 private:
  char* stack_;
#if defined(__x86_64__)
  void *own_ = nullptr, *callers_ = nullptr;
#else
  ucontext_t own_, callers_;
#endif
};

}  // namespace emulated
