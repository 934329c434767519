// What a launch hands its kernel: each tensor is copied to memory of its own, wherever in a buffer it lies,
// so that what reaches from one to its neighbour is stopped. Those that share bytes stay together.
#pragma once

#include <Metal/Metal.hpp>
#include <memory>
#include <vector>

#include "kernels.h"
#include "memory.h"

namespace emulated {

class Arguments {
 public:
  // Stops where a tensor does not lie in a buffer that the encoder uses.
  Arguments(const MTL::Command& command, Edge edge);

  // The argument struct, with addresses of the copies.
  const char* data() const { return args_.data(); }
  // Copies what was written to where it belongs; stops where that is past the ends of a tensor.
  void put_back() const;

 private:
  struct Span {
    const MTL::Buffer* buffer;
    size_t begin, end;            // in it
    bool is_written;              // by this kernel, or may be
    std::vector<size_t> tensors;  // their numbers
    std::unique_ptr<Guarded> copy;
  };

  void place(const std::vector<Tensor>& tensors);
  void copy(Span* span, const std::vector<Tensor>& tensors, Edge edge);

  const MTL::Command& command_;
  Guarded args_;
  std::vector<Span> spans_;
};

}  // namespace emulated
