// The kernels of a program by name, as a library of Metal has them.
#pragma once

#include "threads.h"

namespace emulated {

// A kernel of one argument struct, which begins with addresses, threadgroup memory, and this threadgroup's
// and this thread's number.
struct Kernel {
  const char* name;
  size_t args_bytes, addresses;
  void (*run)(const void* args, char* shared, uint task, uint thread);
};

// Adds it for as long as this object lives. Two of one name would be two functions of one library.
class Registered {
 public:
  explicit Registered(const Kernel& added);
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered();

 private:
  const Kernel added_;
};

const Kernel* find_kernel(const char* name);

}  // namespace emulated

// Behind a kernel's definition: its name, its argument struct, with how many addresses that begins.
#define EMULATED_KERNEL(name, Args, addresses)                                                             \
  static const emulated::Registered name##_registered(                                                     \
      {#name, sizeof(Args), addresses, [](const void* args, char* shared, uint task, uint thread_number) { \
         name(*static_cast<const Args*>(args), shared, task, thread_number);                               \
       }});
