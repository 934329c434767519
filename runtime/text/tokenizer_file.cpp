// How a tokenizer is read from its file.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "runtime/file_map.h"
#include "tokenizer.h"

namespace LUMIGEN_NS {

namespace {

constexpr int64_t kFormat = 1;
constexpr size_t kMaxTokens = 10'000'000;

bool read_numbers(Json* json, std::vector<int64_t>* out) {
  bool first = true;
  if (!json->enter('[')) return false;
  while (json->more(']', &first)) {
    int64_t value = 0;
    if (!json->count(&value)) return false;
    out->push_back(value);
  }
  return !json->failed();
}

bool read_lists(Json* json, std::vector<std::vector<int64_t>>* out) {
  bool first = true;
  if (!json->enter('[')) return false;
  while (json->more(']', &first)) {
    out->emplace_back();
    if (!read_numbers(json, &out->back())) return false;
  }
  return !json->failed();
}

bool read_texts(Json* json, std::vector<std::string>* out) {
  bool first = true;
  if (!json->enter('[')) return false;
  while (json->more(']', &first)) {
    out->emplace_back();
    if (!json->string(&out->back())) return false;
  }
  return !json->failed();
}

bool read_flag(Json* json, bool* out) {
  int64_t value = 0;
  if (!json->count(&value)) return false;
  *out = value != 0;
  return true;
}

// Whether all are ids of `count` tokens.
bool are_ids(const std::vector<int64_t>& numbers, size_t count) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](int64_t id) { return id < static_cast<int64_t>(count); });
}

uint64_t pair_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

}  // namespace

Status Tokenizer::open(const char* where, const char* path) {
  FileMap file;
  if (const Status status = file.open(where, path, Access::kRead, "tokenizer")) return status;
  return read(where, path, file.data(), file.bytes());
}

Status Tokenizer::read(const char* where, const char* file, const char* text, size_t bytes) {
  Json json(text, bytes);
  bool first = true, is_known = true;
  int64_t format = 0;
  std::string key, unknown_key;
  json.enter('{');
  while (json.more('}', &first)) {
    if (!json.key(&key)) break;
    if (key == "lumigen_tokenizer") {
      json.count(&format);
    } else if (!field(&json, key)) {
      is_known = json.failed();
      break;
    }
  }
  if (!is_known)
    return fail(kBadWeights, "[%s] %s: its %.40s is not what a tokenizer has. Emit the project again.", where,
                file, key.c_str());
  if (json.failed() || !json.end())
    return fail(kBadWeights, "[%s] %s: at byte %zu %s. It is damaged: emit the project again.", where, file,
                json.position(), json.failed() ? json.error() : "it goes on behind its end");
  if (format != kFormat)
    return fail(kBadWeights,
                "[%s] %s is no tokenizer of format %d. Use the one that belongs to this program.", where,
                file, static_cast<int>(kFormat));
  const char* why = fault();
  if (why == nullptr) why = read_tables();
  if (why != nullptr)
    return fail(kBadWeights, "[%s] %s: %s. It is damaged: emit the project again.", where, file, why);
  index();
  return kOk;
}

// Reads the value of a key; false where the key or its value is not known, or the JSON is at fault.
bool Tokenizer::field(Json* json, const std::string& key) {
  std::string text;
  if (key == "algorithm") {
    by_scores_ = json->string(&text) && text == "scores";
    by_sums_ = text == "unigram";
    return by_scores_ || by_sums_ || text == "merges";
  }
  if (key == "spelling") {
    if (!json->string(&text)) return false;
    if (text == "bytes") spelling_ = Spelling::kBytes;
    if (text == "spaces") spelling_ = Spelling::kSpaces;
    return text == "bytes" || text == "spaces" || text == "plain";
  }
  if (key == "tokens") {
    if (!read_texts(json, &texts_) || texts_.size() > kMaxTokens) return false;
    token_count_ = static_cast<int32_t>(texts_.size());
    return true;
  }
  if (key == "others") return read_texts(json, &texts_) && texts_.size() <= 2 * kMaxTokens;
  if (key == "end_of_word") return json->string(&end_of_word_);
  if (key == "byte_fallback") return read_flag(json, &byte_fallback_);
  if (key == "fuse_unknown") return read_flag(json, &fuses_unknown_);
  if (key == "ignore_merges") return read_flag(json, &ignores_merges_);
  if (key == "strip_space") return read_flag(json, &strips_space_);
  if (key == "sets") return read_lists(json, &set_list_);
  if (key == "patterns") return read_lists(json, &pattern_list_);
  const struct {
    const char* name;
    std::vector<int64_t>* numbers;
  } lists[] = {
      {"ranks", &ranks_},          {"scores", &score_list_},
      {"merges", &merge_list_},    {"byte_ids", &byte_list_},
      {"unknown", &unknown_list_}, {"before", &before_list_},
      {"after", &after_list_},     {"spaces", &space_list_},
      {"words", &word_list_},      {"decompositions", &decomposition_list_},
      {"classes", &class_list_},   {"compositions", &composition_list_},
  };
  for (const auto& list : lists)
    if (key == list.name) return list.numbers->empty() && read_numbers(json, list.numbers);
  bool first = true;
  if (key != "added" && key != "steps") return false;
  if (!json->enter('[')) return false;
  while (json->more(']', &first))
    if (!(key == "added" ? read_added(json) : read_step(json))) return false;
  return !json->failed();
}

bool Tokenizer::read_added(Json* json) {
  Added added;
  std::string key, text;
  bool first = true;
  if (!json->enter('{')) return false;
  while (json->more('}', &first)) {
    int64_t id = 0;
    if (!json->key(&key)) return false;
    if (key == "id") {
      if (!json->count(&id) || id >= token_count_) return false;
      added.id = static_cast<int32_t>(id);
    } else if (key == "text") {
      if (!json->string(&text)) return false;
      added.text = from_utf8(text);
    } else if (key == "special") {
      if (!read_flag(json, &added.special)) return false;
    } else if (key == "strip_left") {
      if (!read_flag(json, &added.strips_left)) return false;
    } else if (key == "strip_right") {
      if (!read_flag(json, &added.strips_right)) return false;
    } else if (key != "single_word" || !read_flag(json, &added.single_word)) {
      return false;
    }
  }
  // One without a text could be anywhere; one without a token is none.
  if (json->failed() || added.text.empty() || token_count_ == 0) return false;
  added_.push_back(std::move(added));
  return true;
}

bool Tokenizer::read_step(Json* json) {
  static const struct {
    const char* name;
    Action action;
  } actions[] = {
      {"replace", Action::kReplace},
      {"replace_pattern", Action::kReplacePattern},
      {"prepend", Action::kPrepend},
      {"prepend_missing", Action::kPrependMissing},
      {"prepend_first", Action::kPrependFirst},
      {"map", Action::kMap},
      {"compose", Action::kCompose},
      {"decompose", Action::kDecompose},
      {"strip_left", Action::kStripLeft},
      {"strip_right", Action::kStripRight},
      {"isolate", Action::kIsolate},
      {"remove", Action::kRemove},
      {"with_previous", Action::kWithPrevious},
      {"with_next", Action::kWithNext},
  };
  Step step{};
  std::string key, text;
  bool first = true, is_known = false;
  if (!json->enter('{')) return false;
  while (json->more('}', &first)) {
    int64_t pattern = 0;
    if (!json->key(&key)) return false;
    if (key == "name") {
      if (!json->string(&text)) return false;
      for (const auto& row : actions) {
        if (text != row.name) continue;
        step.action = row.action;
        is_known = true;
      }
    } else if (key == "from") {
      if (!json->string(&text)) return false;
      step.from = from_utf8(text);
    } else if (key == "to") {
      if (!json->string(&text)) return false;
      step.to = from_utf8(text);
    } else if (key == "pattern") {
      if (!json->count(&pattern)) return false;
      step.pattern = static_cast<size_t>(pattern);
      step.by_clusters = true;
    } else if (key == "table") {
      if (!step.table.empty() || !read_texts(json, &step.table) || step.table.size() % 2 != 0) return false;
    } else if (key != "invert" || !read_flag(json, &step.inverts)) {
      return false;
    }
  }
  if (json->failed() || !is_known) return false;
  if (step.action == Action::kReplace && step.from.empty()) return false;
  steps_.push_back(std::move(step));
  return true;
}

// What is wrong with the parts together; NULL if nothing is.
const char* Tokenizer::fault() const {
  const size_t count = static_cast<size_t>(token_count_);
  if (count == 0) return "it has no tokens";
  if (by_scores_ && ranks_.size() != count) return "it has not one rank for each token";
  if (by_sums_ && (score_list_.size() % 2 != 0 || score_list_.size() > 2 * count))
    return "it has more scores than tokens";
  for (const int64_t half : score_list_)
    if (half > UINT32_MAX) return "a score is none";
  if (merge_list_.size() % 2 != 0 || !are_ids(merge_list_, texts_.size()))
    return "a merge is no pair of texts";
  if (!byte_list_.empty() && byte_list_.size() != 256) return "its bytes are not 256";
  for (const int64_t id : byte_list_)
    if (id > token_count_) return "a byte has a token that there is not";
  if (unknown_list_.size() > 1 || !are_ids(unknown_list_, count))
    return "the token of what is unknown is none";
  if (!are_ids(before_list_, count) || !are_ids(after_list_, count)) return "a token around texts is none";
  for (const Step& step : steps_) {
    const bool asks = step.action == Action::kMap
                          ? step.by_clusters
                          : step.action == Action::kReplacePattern || step.action >= Action::kIsolate;
    if (asks && step.pattern >= pattern_list_.size()) return "a step has no pattern";
  }
  return nullptr;
}

// Makes what `steps_` need of the numbers; what is wrong with them, or NULL.
const char* Tokenizer::read_tables() {
  sets_.resize(set_list_.size());
  for (size_t i = 0; i < sets_.size(); ++i)
    if (!sets_[i].read(set_list_[i])) return "a set of characters is none";
  patterns_.resize(pattern_list_.size());
  for (size_t i = 0; i < patterns_.size(); ++i)
    if (!patterns_[i].read(pattern_list_[i], sets_.size())) return "a pattern is none";
  if (!spaces_.read(space_list_) || !words_.read(word_list_)) return "a set of characters is none";
  for (size_t i = 0; i + 1 < score_list_.size(); i += 2) {
    const uint64_t bits = pair_of(score_list_[i], score_list_[i + 1]);
    double score = 0;
    std::memcpy(&score, &bits, sizeof score);
    if (!std::isfinite(score)) return "a score is none";
    scores_.push_back(score);
  }
  const bool forms = forms_.read_decompositions(decomposition_list_) && forms_.read_classes(class_list_) &&
                     forms_.read_compositions(composition_list_);
  return forms ? nullptr : "a table of normal forms is none";
}

void Tokenizer::index() {
  ids_.reserve(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    ids_[texts_[i]] = static_cast<int32_t>(i);
    longest_ = std::max(longest_, texts_[i].size());
  }
  merges_.reserve(merge_list_.size() / 2);
  for (size_t i = 0; i < merge_list_.size(); i += 2)
    merges_.emplace(pair_of(merge_list_[i], merge_list_[i + 1]), static_cast<int64_t>(i / 2));
  for (size_t i = 0; i < scores_.size(); ++i)
    if (!texts_[i].empty()) by_text_.push_back(static_cast<int32_t>(i));
  const auto text_of = [&](int32_t id) -> const std::string& { return texts_[static_cast<size_t>(id)]; };
  std::sort(by_text_.begin(), by_text_.end(), [&](int32_t a, int32_t b) {
    return std::tie(text_of(a), b) < std::tie(text_of(b), a);  // of equal ones the last stays
  });
  const auto is_same = [&](int32_t a, int32_t b) { return text_of(a) == text_of(b); };
  by_text_.erase(std::unique(by_text_.begin(), by_text_.end(), is_same), by_text_.end());
  constexpr double kUnknownCost = 10;  // below the least score, as SentencePiece and `tokenizers` have it
  unknown_score_ = (scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end())) - kUnknownCost;
  byte_ids_.fill(-1);
  for (size_t b = 0; b < byte_list_.size(); ++b) {
    byte_ids_[b] = static_cast<int32_t>(byte_list_[b]) - 1;
    if (byte_ids_[b] >= 0) bytes_by_id_[byte_ids_[b]] = static_cast<unsigned char>(b);
  }
  // GPT-2's alphabet: bytes that print stand for themselves, the others for U+0100 and what follows.
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool prints = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
    const char32_t point = prints ? static_cast<char32_t>(b) : next++;
    append_utf8(&char_of_byte_[static_cast<size_t>(b)], point);
    byte_of_char_[point] = static_cast<unsigned char>(b);
  }
  for (size_t i = 0; i < added_.size(); ++i) added_by_id_[added_[i].id] = i;
  for (Step& step : steps_)
    for (size_t i = 0; i + 1 < step.table.size(); i += 2)
      step.values[from_utf8(step.table[i])] = from_utf8(step.table[i + 1]);
  all_added_ = index_of_added(true);
  plain_added_ = index_of_added(false);
}

Tokenizer::AddedIndex Tokenizer::index_of_added(bool with_special) const {
  AddedIndex out;
  for (size_t i = 0; i < added_.size(); ++i) {
    if (added_[i].special && !with_special) continue;
    std::vector<size_t>& same = out[added_[i].text[0]];
    // of two with one text the last counts
    same.erase(std::remove_if(same.begin(), same.end(),
                              [&](size_t other) { return added_[other].text == added_[i].text; }),
               same.end());
    same.push_back(i);
  }
  for (auto& [first, same] : out)
    std::stable_sort(same.begin(), same.end(),
                     [&](size_t a, size_t b) { return added_[a].text.size() > added_[b].text.size(); });
  return out;
}

}  // namespace LUMIGEN_NS
