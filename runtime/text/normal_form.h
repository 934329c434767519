// Unicode's normal forms, by tables that come with a tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace LUMIGEN_NS {

class NormalForms {
 public:
  // Rows of a character, how many it becomes, and these. False where a row is cut off or holds no character.
  bool read_decompositions(const std::vector<int64_t>& rows);
  // Pairs of a character and its canonical combining class.
  bool read_classes(const std::vector<int64_t>& pairs);
  // Triples: two characters and the one that they compose.
  bool read_compositions(const std::vector<int64_t>& triples);

  // NFD or, by the tables of compatibility, NFKD; with `composes` NFC or NFKC.
  std::u32string normal(const std::u32string& text, bool composes) const;

 private:
  void decompose(char32_t point, std::u32string* out) const;
  int class_of(char32_t point) const;
  char32_t composed(char32_t first, char32_t second) const;

  std::unordered_map<char32_t, std::u32string> decompositions_;
  std::unordered_map<char32_t, int> classes_;
  std::unordered_map<uint64_t, char32_t> compositions_;
};

}  // namespace LUMIGEN_NS
