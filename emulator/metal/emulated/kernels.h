// The kernels of a program by name, as a library of Metal has them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "threads.h"

namespace emulated {

constexpr size_t kToTheEnd = SIZE_MAX;  // of the buffer, whatever it has from there on

// A tensor whose address is an argument; it may be written unless that points to const.
struct Tensor {
  uint64_t address;
  size_t bytes;
  bool is_written;

  template <class T>
  Tensor(T* at, int64_t elements)
      : address(reinterpret_cast<uintptr_t>(at)),
        bytes(static_cast<size_t>(elements) * sizeof(T)),
        is_written(!std::is_const_v<T>) {}
  template <class T>
  Tensor(T* at) : Tensor(at, 0) {
    bytes = kToTheEnd;
  }
};

// A kernel of one argument struct, which begins with the addresses of its tensors, threadgroup memory, and
// this threadgroup's and this thread's number.
struct Kernel {
  const char* name;
  size_t args_bytes;
  std::vector<Tensor> (*tensors)(const void* args);  // in the struct's order
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

// Behind a kernel's definition: its name, its argument struct `args`, and for each address in that
// {args.x, elements}, or {args.x} for all that its buffer has from there on.
#define EMULATED_KERNEL(name, Args, ...)                                       \
  static const emulated::Registered name##_registered(                         \
      {#name, sizeof(Args),                                                    \
       [](const void* given) {                                                 \
         [[maybe_unused]] const Args& args = *static_cast<const Args*>(given); \
         return std::vector<emulated::Tensor>{__VA_ARGS__};                    \
       },                                                                      \
       [](const void* args, char* shared, uint task, uint thread_number) {     \
         name(*static_cast<const Args*>(args), shared, task, thread_number);   \
       }});
