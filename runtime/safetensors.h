// The safetensors format: 8 bytes of header length, a JSON header, the data. Everything the header says is
// checked against the size of the whole before anything is believed. What lumigen's Python refuses (names or
// fields that occur twice, tensors with bytes between or behind them, half a UTF-16 character) is refused
// here too; only what stands inside fields that the format does not know is not looked at beyond its JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "status.h"

namespace LUMIGEN_NS {

struct StoredTensor {
  std::string name;
  std::string dtype;  // F32, BF16, ... as the file spells it
  std::vector<int64_t> shape;
  const char* data = nullptr;
  size_t bytes = 0;
};

struct Safetensors {
  std::vector<StoredTensor> tensors;                          // sorted by name
  std::vector<std::pair<std::string, std::string>> metadata;  // sorted by key
  const char* data = nullptr;
  size_t data_bytes = 0;

  const StoredTensor* find(const std::string& name) const;
  const std::string* find_metadata(const std::string& key) const;
};

// Reads the header of `bytes` bytes at `begin`, which must outlive the result. `where` is the function,
// `file` the file and `kind` what it is, as messages say.
Status read_safetensors(Safetensors* out, const char* where, const char* file, const char* begin,
                        size_t bytes, const char* kind = "weights file");

// The 64-bit hash that `lumigen compile --weights` records under the metadata key "lumigen.hash": the sum,
// over the little-endian 64-bit words w[i] of the data, the last one padded with zeros, of mix(w[i] + (i + 1)
// * g), plus mix(length in bytes), modulo 2^64; g = 0x9e3779b97f4a7c15 and mix is the finaliser of
// splitmix64. It finds damage, not forgery.
uint64_t data_hash(const char* data, size_t bytes);

}  // namespace LUMIGEN_NS
