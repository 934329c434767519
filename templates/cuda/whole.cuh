// What a kernel does with the elements of a product of integers of 8 bits: neighbours of a row are vectors of
// i32.
#pragma once

#include "elements.cuh"
#include "integers.cuh"

namespace LUMIGEN_NS {

template <>
struct NeighboursOf<int32_t> {
  using Type = IVec;
};

}  // namespace LUMIGEN_NS
