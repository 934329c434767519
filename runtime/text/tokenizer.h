// A tokenizer: what its file says, texts as ids and ids as texts. The file is JSON that lumigen wrote
// (docs/design/0016-text-generation.md of lumigen says of what); everything in it is checked when it is read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "normal_form.h"
#include "pattern.h"
#include "runtime/json.h"
#include "runtime/status.h"
#include "runtime/utf8.h"

namespace LUMIGEN_NS {

using Ids = std::vector<int32_t>;

class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Messages begin with `where`.
  Status open(const char* where, const char* path);
  Status read(const char* where, const char* file, const char* text, size_t bytes);

  // How many tokens there are.
  int32_t size() const { return token_count_; }

  // The most bytes of text that one token stands for, unknown text aside.
  size_t longest() const { return longest_; }

  // The ids of a text. With `add_special` those around it; without `parse_special` the texts of special
  // tokens are texts as any other. Ill-formed UTF-8 becomes U+FFFD.
  Ids encode(std::string_view text, bool add_special = true, bool parse_special = true) const;

  // The bytes of one token; none for a special one and for an id that is none.
  std::string piece(int32_t id) const;

  // Whether decoding drops the space that encoding put in front.
  bool strips_space() const { return strips_space_; }

 private:
  enum class Action {
    kReplace,
    kReplacePattern,
    kPrepend,
    kPrependMissing,
    kPrependFirst,
    kMap,
    kCompose,
    kDecompose,
    kStripLeft,
    kStripRight,
    kIsolate,
    kRemove,
    kWithPrevious,
    kWithNext,
  };
  struct Step {
    Action action;
    bool inverts = false, by_clusters = false;  // of the pattern, where it is a map
    size_t pattern = 0;
    std::u32string from, to;
    std::vector<std::string> table;  // keys and values in turn
    std::unordered_map<std::u32string, std::u32string> values;
  };
  struct Added {
    int32_t id = 0;
    std::u32string text;
    bool special = false, strips_left = false, strips_right = false, single_word = false;
  };
  // Added tokens by their first character, the longest first.
  using AddedIndex = std::unordered_map<char32_t, std::vector<size_t>>;

  // reading
  bool field(Json* json, const std::string& key);
  bool read_step(Json* json);
  bool read_added(Json* json);
  const char* fault() const;
  const char* read_tables();
  void index();
  AddedIndex index_of_added(bool with_special) const;

  // encoding
  bool is_word(const std::u32string& text, size_t at) const;
  const Added* added_at(const AddedIndex& among, const std::u32string& text, size_t at) const;
  void stretch(std::u32string text, bool is_first, bool with_special, Ids* out) const;
  void cut(const Step& step, const std::u32string& text, std::vector<std::u32string>* out) const;
  std::u32string changed(const Step& step, std::u32string text) const;
  static std::u32string mapped(const Step& step, const std::u32string& cluster);
  void tokens(const std::u32string& part, Ids* out) const;
  std::string spelled(const std::u32string& part) const;
  void likeliest(const std::string& text, bool with_special, Ids* out) const;
  int32_t find(std::string_view text) const;
  int64_t preference(int32_t left, int32_t right, int32_t both) const;
  void unknown(std::string_view symbol, bool* was_unknown, Ids* out) const;

  bool by_scores_ = false, by_sums_ = false;
  enum class Spelling { kPlain, kBytes, kSpaces } spelling_ = Spelling::kPlain;
  int32_t token_count_ = 0;
  size_t longest_ = 0;
  std::vector<std::string> texts_;  // of the tokens by id, then of what is only on the way to some
  std::vector<int64_t> ranks_;      // of tokens, by scores: the least is joined first
  std::vector<int64_t> merge_list_, score_list_;
  std::vector<int64_t> byte_list_, unknown_list_, before_list_, after_list_;
  std::vector<Added> added_;
  std::vector<Step> steps_;
  std::vector<std::vector<int64_t>> set_list_, pattern_list_;
  std::vector<int64_t> space_list_, word_list_;
  std::vector<int64_t> decomposition_list_, class_list_, composition_list_;
  std::string end_of_word_;
  bool byte_fallback_ = false, fuses_unknown_ = false, ignores_merges_ = false, strips_space_ = false;

  // made of these
  std::unordered_map<std::string_view, int32_t> ids_;
  std::vector<double> scores_;    // of tokens, by sums of scores
  std::vector<int32_t> by_text_;  // those tokens in the order of their texts
  double unknown_score_ = 0;
  std::unordered_map<uint64_t, int64_t> merges_;  // by both ids: which comes first
  std::array<int32_t, 256> byte_ids_{};           // -1: there is none
  std::unordered_map<int32_t, unsigned char> bytes_by_id_;
  std::unordered_map<int32_t, size_t> added_by_id_;
  std::unordered_map<char32_t, unsigned char> byte_of_char_;
  std::array<std::string, 256> char_of_byte_;
  AddedIndex all_added_, plain_added_;
  std::vector<CharacterSet> sets_;
  std::vector<Pattern> patterns_;
  CharacterSet spaces_, words_;
  NormalForms forms_;
};

// Text of ids as they come: `push` gives what is certain, `finish` what is left of an unfinished character.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  std::string push(int32_t id);
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  Utf8Decoder decoder_;
  bool is_first_ = true;
};

}  // namespace LUMIGEN_NS
