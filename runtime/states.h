// What a context keeps from one run to the next: one block of memory with a place for each state. Saved it is
// a safetensors file with a tensor for each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "status.h"

namespace LUMIGEN_NS {

struct Context;

// A row of the model's table of states, which is sorted by name.
struct StateSpec {
  const char* name;
  const char* text;   // dtype and shape for people: f32[8, 2048, 128]
  const char* dtype;  // as safetensors spells it: F32
  int32_t rank;
  const int64_t* shape;
  int64_t bytes;
  int64_t offset;  // in the block
};

struct StateTable {
  const StateSpec* specs;
  int32_t count;
  int64_t bytes;  // of the block
};

// Zeros, as in a context just opened.
Status reset_states(Context* context) noexcept;
// Both are contexts of one model; they stay independent.
Status copy_states(Context* to, Context* from) noexcept;
// The file is whole or not there: what was there before stays until all is written.
Status save_states(Context* context, const char* path) noexcept;
// All states, or none where the file does not have exactly these.
Status load_states(Context* context, const char* path) noexcept;

}  // namespace LUMIGEN_NS
