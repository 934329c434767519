// The input contract: what every entry checks before it touches anything. Messages name the tensor, what was
// expected and what came.
#pragma once

#include <cstdint>

#include "size.h"
#include "status.h"

namespace LUMIGEN_NS {

// DLPack's DLTensor, and so the C header's.
struct Tensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

// An input or output of an entry.
struct Port {
  const char* entry;
  const char* name;
  uint8_t code, bits;  // DLPack's
  int32_t rank;
  const char* shape;  // for people: (batch, 784)
};

struct Dim {
  const char* name;
  int64_t lo, hi, multiple_of;
};

// Where the elements start.
template <class T>
T* data_of(const Tensor& t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data) + t.byte_offset);
}

// How many bytes the elements have.
uint64_t bytes_of(const Tensor& t);

// On a device whose memory the target takes; each has its own.
Status check_device(const Tensor& t, const Port& port);

// There, of the right dtype and rank, on such a device, aligned to an element, row-major.
Status check_tensor(const Tensor* t, const Port& port);

// The value of a dim as `axis` of a tensor gives it.
Status check_dim(const Tensor& t, const Port& port, int32_t axis, const Dim& dim, int64_t value);

// An axis that must be `expected`; `text` says why, as `batch` or `2*batch`, or is null for a constant.
Status check_extent(const Tensor& t, const Port& port, int32_t axis, Size expected, const char* text);

// What an axis is at dims that a caller chose; fails if no int64_t holds it.
Status set_extent(int64_t* extent, const Port& port, int32_t axis, Size value, const char* text);

// The value of the dim of which an axis is `scale * dim + offset`; fails if no whole number fits.
Status solve_dim(int64_t* value, const Tensor& t, const Port& port, int32_t axis, int64_t scale,
                 int64_t offset, const char* text);

// A dim that a caller passes as a number.
Status check_dim_value(const char* entry, const Dim& dim, int64_t value);

// An output shares no byte with an input or with another output.
Status check_apart(const Tensor& output, const Port& output_port, const Tensor& other,
                   const Port& other_port);

// Every element of an integer tensor is in lo .. hi; of one in the host's memory, since others are not read
// here.
Status check_values(const Tensor& t, const Port& port, int64_t lo, int64_t hi);

}  // namespace LUMIGEN_NS
