#include "safetensors.h"

#include <algorithm>
#include <cstring>

#include "json.h"

namespace LUMIGEN_NS {

namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // as the format's own library has it

struct Reader {
  const char* where;
  const char* file;
  const char* kind;  // of file, in messages
  Safetensors* out;

  Status wrong(const char* what) const {
    return fail(kBadWeights, "[%s] %s %s: %s. Compare it with its original.", where, kind, file, what);
  }
  Status wrong(const std::string& tensor, const char* what) const {
    return fail(kBadWeights, "[%s] %s %s: tensor %.200s %s. Compare it with its original.", where, kind, file,
                tensor.c_str(), what);
  }
  Status other(const char* format) const {
    return fail(
        kBadWeights,
        "[%s] %s %s: it is %s, and must be a safetensors file. Save its tensors as one, with save_file of "
        "the Python package safetensors.",
        where, kind, file, format);
  }
  Status malformed(const Json& json) const {
    return fail(kBadWeights,
                "[%s] %s %s: the header is no valid JSON: %s, at byte %zu. Compare it with its original.",
                where, kind, file, json.error(), json.position());
  }

  Status metadata(Json& json) const;
  Status tensor(Json& json, const std::string& name) const;
  Status coverage() const;
};

int item_bits(const std::string& dtype) {
  static const struct {
    const char* name;
    int bits;
  } rows[] = {{"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F64", 64},    {"F32", 32},
              {"F16", 16},        {"BF16", 16},   {"I64", 64},    {"I32", 32},    {"I16", 16},
              {"I8", 8},          {"U64", 64},    {"U32", 32},    {"U16", 16},    {"U8", 8},
              {"BOOL", 8},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
              {"F8_E5M2FNUZ", 8}, {"C64", 64}};
  for (const auto& row : rows) {
    if (dtype == row.name) return row.bits;
  }
  return 0;
}

// What a file is whose first bytes are no length of a header; nullptr where they do not tell.
const char* other_format(const char* begin) {
  if (std::memcmp(begin, "GGUF", 4) == 0) return "a GGUF file";
  if (std::memcmp(begin, "PK\x03\x04", 4) == 0) return "a zip archive, as torch.save and numpy.savez write";
  return nullptr;
}

Status Reader::metadata(Json& json) const {
  if (json.null()) return kOk;
  bool first = true;
  json.enter('{');
  while (json.more('}', &first)) {
    std::pair<std::string, std::string> entry;
    if (!json.key(&entry.first) || !json.string(&entry.second)) break;
    out->metadata.push_back(std::move(entry));
  }
  if (json.failed()) return malformed(json);
  std::sort(out->metadata.begin(), out->metadata.end());
  for (size_t i = 1; i < out->metadata.size(); ++i) {
    if (out->metadata[i - 1].first == out->metadata[i].first) return wrong("its metadata has a key twice");
  }
  return kOk;
}

Status Reader::tensor(Json& json, const std::string& name) const {
  StoredTensor tensor;
  tensor.name = name;
  int64_t begin = -1, end = -1;
  bool first = true, has_shape = false;
  std::string field;
  std::vector<std::string> fields;
  json.enter('{');
  while (json.more('}', &first)) {
    bool inner = true;
    if (!json.key(&field)) break;
    if (std::find(fields.begin(), fields.end(), field) != fields.end())
      return wrong(name, "has a field twice");
    if (fields.size() == 16) return wrong(name, "has more than 16 fields");
    fields.push_back(field);
    if (field == "dtype") {
      json.string(&tensor.dtype);
    } else if (field == "shape") {
      has_shape = true;
      json.enter('[');
      while (json.more(']', &inner)) {
        int64_t extent = 0;
        if (!json.count(&extent)) break;
        if (tensor.shape.size() == 64) return wrong(name, "has more than 64 axes");
        tensor.shape.push_back(extent);
      }
    } else if (field == "data_offsets") {
      int64_t offsets[2] = {-1, -1};
      size_t count = 0;
      json.enter('[');
      while (json.more(']', &inner)) {
        if (count == 2) return wrong(name, "has more than two data_offsets");
        if (!json.count(&offsets[count++])) break;
      }
      begin = offsets[0];
      end = offsets[1];
    } else {
      json.skip();
    }
    if (json.failed()) break;
  }
  if (json.failed()) return malformed(json);
  if (tensor.dtype.empty() || !has_shape || begin < 0 || end < 0)
    return wrong(name, "lacks dtype, shape or data_offsets");
  const int bits = item_bits(tensor.dtype);
  if (bits == 0) return wrong(name, "has a dtype that the format does not know");
  if (begin > end || static_cast<uint64_t>(end) > out->data_bytes)
    return wrong(name, "reaches past the end of the file, which may have been cut off");
  uint64_t count = 1;
  for (const int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      return wrong(name, "is larger than any file");
  }
  const uint64_t bytes = static_cast<uint64_t>(end - begin);
  uint64_t all_bits = 0;
  if (__builtin_mul_overflow(count, static_cast<uint64_t>(bits), &all_bits) || all_bits != 8 * bytes)
    return wrong(name, "has data_offsets that do not fit its shape");
  tensor.data = out->data + begin;
  tensor.bytes = static_cast<size_t>(bytes);
  out->tensors.push_back(std::move(tensor));
  return kOk;
}

// Tensors follow one another without overlap, gap or rest, as the format demands.
Status Reader::coverage() const {
  std::vector<const StoredTensor*> order;
  order.reserve(out->tensors.size());
  for (const StoredTensor& tensor : out->tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return a->data != b->data ? a->data < b->data : a->bytes < b->bytes;
  });
  const char* end = out->data;
  for (const StoredTensor* tensor : order) {
    if (tensor->data < end) return wrong(tensor->name, "shares bytes with another tensor");
    if (tensor->data > end) return wrong(tensor->name, "follows bytes that belong to no tensor");
    end += tensor->bytes;
  }
  if (end != out->data + out->data_bytes) return wrong("the bytes at its end belong to no tensor");
  return kOk;
}

uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

const StoredTensor* Safetensors::find(const std::string& name) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const StoredTensor& t, const std::string& n) { return t.name < n; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

const std::string* Safetensors::find_metadata(const std::string& key) const {
  const auto at = std::lower_bound(metadata.begin(), metadata.end(), key,
                                   [](const auto& entry, const std::string& k) { return entry.first < k; });
  return at != metadata.end() && at->first == key ? &at->second : nullptr;
}

Status read_safetensors(Safetensors* out, const char* where, const char* file, const char* begin,
                        size_t bytes, const char* kind) {
  const Reader reader{where, file, kind, out};
  if (bytes < 8) return reader.wrong("it is shorter than any safetensors file");
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<unsigned char>(begin[i]);
  const char* format = other_format(begin);
  if (format != nullptr && header > std::min<uint64_t>(bytes - 8, kMaxHeader)) return reader.other(format);
  if (header > bytes - 8)
    return reader.wrong("its header reaches past the end; it is cut off or no safetensors file");
  if (header > kMaxHeader) return reader.wrong("its header is larger than 100 MB");
  const size_t data_at = 8 + static_cast<size_t>(header);
  out->data = begin + data_at;
  out->data_bytes = bytes - data_at;

  Json json(begin + 8, static_cast<size_t>(header));
  if (header == 0 || begin[8] != '{') return reader.wrong("its header does not start with an object");
  bool first = true;
  bool has_metadata = false;
  std::string name;
  json.enter('{');
  while (json.more('}', &first)) {
    if (!json.key(&name)) break;
    if (name == "__metadata__") {
      if (has_metadata) return reader.wrong("its header has __metadata__ twice");
      has_metadata = true;
    }
    if (const Status s = name == "__metadata__" ? reader.metadata(json) : reader.tensor(json, name)) return s;
  }
  if (json.failed() || !json.end()) return reader.malformed(json);
  std::sort(out->tensors.begin(), out->tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  for (size_t i = 1; i < out->tensors.size(); ++i) {
    if (out->tensors[i - 1].name == out->tensors[i].name)
      return reader.wrong(out->tensors[i].name, "occurs twice");
  }
  return reader.coverage();
}

uint64_t data_hash(const char* data, size_t bytes) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
  uint64_t sum = mix(bytes);
  uint64_t step = golden;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8, step += golden) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    sum += mix(word + step);
  }
  if (i < bytes) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, bytes - i);
    sum += mix(word + step);
  }
  return sum;
}

}  // namespace LUMIGEN_NS
