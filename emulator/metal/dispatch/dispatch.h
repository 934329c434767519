// Of libdispatch what a library of kernels is handed over in.
#pragma once

#include <cstddef>

struct dispatch_data_s {
  const void* data;
  size_t bytes;
};
using dispatch_data_t = dispatch_data_s*;

inline dispatch_data_t dispatch_data_create(const void* data, size_t bytes, void* /*queue*/,
                                            void* /*destructor*/) {
  return new dispatch_data_s{data, bytes};
}
inline void dispatch_release(dispatch_data_t data) { delete data; }
#define DISPATCH_DATA_DESTRUCTOR_DEFAULT nullptr
