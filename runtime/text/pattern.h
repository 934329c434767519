// Sets of characters, and patterns over them: what the regular expressions of pre-tokenisers were compiled
// to.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace LUMIGEN_NS {

class CharacterSet {
 public:
  // `ranges` are firsts and lasts in turn, in order and apart. False where they are not.
  bool read(const std::vector<int64_t>& ranges);
  bool has(char32_t point) const;

 private:
  std::bitset<128> ascii_;
  std::vector<std::pair<char32_t, char32_t>> ranges_;
};

// A backtracking matcher: of all ways to match it takes the first in the order of the expression's choices,
// as Perl and Python do. Its program is instructions of three numbers:
//   0      matched
//   1 s    a character of set s
//   2 a b  go on at a; should that fail, at b
//   3 a    go on at a
//   4 a m  what stands between here and a, up to its `matched`, without a way back into it; then on at a.
//          m = 0: it must match, 1: it must not, and both take no text; 2: what it matches is taken
//   5      only at the beginning of the text
class Pattern {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // False where the numbers are no program that ends on every text: a place or set that is not there, a loop
  // that takes no character.
  bool read(const std::vector<int64_t>& numbers, size_t set_count);

  // Where the match from `start` on ends; kNone if there is none. An empty match is none.
  size_t match(const std::vector<CharacterSet>& sets, std::u32string_view text, size_t start) const;
  // Whether it matches all of the text.
  bool matches_all(const std::vector<CharacterSet>& sets, std::u32string_view text) const;

 private:
  struct Instruction {
    int32_t op;
    uint32_t a, b;
  };
  struct Goal {
    size_t least_end;  // an end before it does not count
    bool at_end;       // only the text's own end counts
  };
  bool loops() const;
  bool visit(uint32_t at, std::vector<char>* seen) const;
  size_t run(const std::vector<CharacterSet>& sets, std::u32string_view text, uint32_t at, size_t position,
             Goal goal) const;

  std::vector<Instruction> program_;
};

}  // namespace LUMIGEN_NS
