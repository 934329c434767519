#include "tokenizer.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace LUMIGEN_NS {

// ---- texts to ids -----------------------------------------------------------------------------------------

Ids Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  Ids out;
  const auto around = [&](const std::vector<int64_t>& ids) {
    if (add_special)
      for (const int64_t id : ids) out.push_back(static_cast<int32_t>(id));
  };
  around(before_list_);
  const std::u32string points = from_utf8(text);
  const AddedIndex& among = parse_special ? all_added_ : plain_added_;
  size_t start = 0;  // of what no added token has taken
  for (size_t at = 0; at < points.size();) {
    const Added* found = added_at(among, points, at);
    if (found == nullptr) {
      ++at;
      continue;
    }
    size_t before = at;
    while (found->strips_left && before > start && spaces_.has(points[before - 1])) --before;
    if (before > start) stretch(points.substr(start, before - start), start == 0, parse_special, &out);
    out.push_back(found->id);
    at += found->text.size();
    while (found->strips_right && at < points.size() && spaces_.has(points[at])) ++at;
    start = at;
  }
  if (start < points.size()) stretch(points.substr(start), start == 0, parse_special, &out);
  around(after_list_);
  return out;
}

bool Tokenizer::is_word(const std::u32string& text, size_t at) const {
  return at < text.size() && words_.has(text[at]);  // in front of the text `at` is too large as well
}

// The longest added token that stands here; NULL for none.
const Tokenizer::Added* Tokenizer::added_at(const AddedIndex& among, const std::u32string& text,
                                            size_t at) const {
  const auto same = among.find(text[at]);
  if (same == among.end()) return nullptr;
  for (const size_t i : same->second) {
    const Added& added = added_[i];
    if (text.compare(at, added.text.size(), added.text) != 0) continue;
    const bool is_part = is_word(text, at - 1) || is_word(text, at + added.text.size());
    return added.single_word && is_part ? nullptr : &added;
  }
  return nullptr;
}

// What lies between two added tokens.
void Tokenizer::stretch(std::u32string text, bool is_first, bool with_special, Ids* out) const {
  std::vector<std::u32string> parts = {std::move(text)};
  for (const Step& step : steps_) {
    std::vector<std::u32string> next;
    for (std::u32string& part : parts) {
      if (step.action >= Action::kIsolate)
        cut(step, part, &next);
      else if (is_first || step.action != Action::kPrependFirst)
        next.push_back(changed(step, std::move(part)));
      else
        next.push_back(std::move(part));
    }
    parts = std::move(next);
  }
  for (const std::u32string& part : parts) {
    if (part.empty()) continue;
    if (by_sums_)
      likeliest(spelled(part), with_special, out);
    else
      tokens(part, out);
  }
}

std::u32string Tokenizer::changed(const Step& step, std::u32string text) const {
  const bool has_it = text.compare(0, step.to.size(), step.to) == 0;
  std::u32string out;
  switch (step.action) {
    case Action::kReplace:
      for (size_t at = 0; at < text.size();) {
        const bool is_here = text.compare(at, step.from.size(), step.from) == 0;
        out += is_here ? step.to : text.substr(at, 1);
        at += is_here ? step.from.size() : 1;
      }
      return out;
    case Action::kReplacePattern:
      for (size_t at = 0; at < text.size();) {
        const size_t end = patterns_[step.pattern].match(sets_, text, at);
        out += end != Pattern::kNone ? step.to : text.substr(at, 1);
        at = end != Pattern::kNone ? end : at + 1;
      }
      return out;
    case Action::kPrepend:
      return text.empty() ? text : step.to + text;
    case Action::kPrependMissing:
    case Action::kPrependFirst:
      return has_it || text.empty() ? text : step.to + text;
    case Action::kMap:
      for (size_t at = 0, end; at < text.size(); at = end) {
        end = step.by_clusters ? patterns_[step.pattern].match(sets_, text, at) : Pattern::kNone;
        if (end == Pattern::kNone) end = at + 1;
        out += mapped(step, text.substr(at, end - at));
      }
      return out;
    case Action::kCompose:
    case Action::kDecompose:
      return forms_.normal(text, step.action == Action::kCompose);
    case Action::kStripLeft: {
      size_t begin = 0;
      while (begin < text.size() && spaces_.has(text[begin])) ++begin;
      return text.substr(begin);
    }
    case Action::kStripRight:
      while (!text.empty() && spaces_.has(text.back())) text.pop_back();
      return text;
    default:
      return text;
  }
}

// What a short cluster begins with in the table stands for all of it; in a long one each character is its
// own.
std::u32string Tokenizer::mapped(const Step& step, const std::u32string& cluster) {
  constexpr size_t kShort = 5;  // bytes
  if (to_utf8(cluster).size() <= kShort)
    for (size_t end = 1; end <= cluster.size(); ++end) {
      const auto found = step.values.find(cluster.substr(0, end));
      if (found != step.values.end()) return found->second;
    }
  std::u32string out;
  for (const char32_t point : cluster) {
    const auto found = step.values.find(std::u32string(1, point));
    out += found == step.values.end() ? std::u32string(1, point) : found->second;
  }
  return out;
}

// The parts that a step cuts a text into, none of them empty.
void Tokenizer::cut(const Step& step, const std::u32string& text, std::vector<std::u32string>* out) const {
  const Pattern& pattern = patterns_[step.pattern];
  const size_t first = out->size();
  bool joins = false;  // whether the next piece belongs to the last one
  const auto add = [&](size_t begin, size_t end, bool matched) {
    if (begin == end) return;
    const bool hit = matched != step.inverts;
    if (step.action == Action::kRemove && hit) return;
    bool extends = joins;
    // a match joins what is before it, unless that is a match alone
    if (step.action == Action::kWithPrevious && hit && out->size() > first)
      extends = extends || !pattern.matches_all(sets_, out->back());
    if (out->size() > first && extends)
      out->back().append(text, begin, end - begin);
    else
      out->push_back(text.substr(begin, end - begin));
    joins = step.action == Action::kWithNext && hit;
  };
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = pattern.match(sets_, text, at);
    if (end == Pattern::kNone) {
      ++at;
      continue;
    }
    add(start, at, false);
    add(at, end, true);
    start = at = end;
  }
  add(start, text.size(), false);
}

// ---- a part's tokens
// ---------------------------------------------------------------------------------------

namespace {

// A text on its way to tokens: a piece of the part, linked to its neighbours. Empty: it has become part of
// the one before.
struct Symbol {
  size_t begin, end;
  int32_t id;  // -1: the text is none that anything is joined from
  size_t before, after;
};

struct Join {
  int64_t rank;
  size_t left, end;  // the left symbol, and where the text of both ends
  int32_t id;        // of both together
};

struct Later {
  bool operator()(const Join& a, const Join& b) const {
    return std::tie(a.rank, a.left) > std::tie(b.rank, b.left);
  }
};

}  // namespace

int32_t Tokenizer::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

// A part in the characters that tokens are spelled in.
std::string Tokenizer::spelled(const std::u32string& part) const {
  std::string text = to_utf8(part);
  if (spelling_ != Spelling::kBytes) return text;
  std::string out;
  for (const char byte : text) out += char_of_byte_[static_cast<unsigned char>(byte)];
  return out;
}

// How early two neighbours are joined: the less, the earlier; -1 if never. `both` is the text of both.
int64_t Tokenizer::preference(int32_t left, int32_t right, int32_t both) const {
  if (by_scores_) return both < 0 || both >= token_count_ ? -1 : ranks_[static_cast<size_t>(both)];
  if (left < 0 || right < 0) return -1;
  const auto found = merges_.find(static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right));
  return found == merges_.end() ? -1 : found->second;
}

// Neighbours are joined in the order of preference, of equals the leftmost.
void Tokenizer::tokens(const std::u32string& part, Ids* out) const {
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::string text;
  std::vector<Symbol> symbols;
  const auto add = [&](std::string_view spelled) {
    const size_t index = symbols.size();
    symbols.push_back({text.size(), text.size() + spelled.size(), -1, index - 1, index + 1});
    text += spelled;
  };
  if (spelling_ == Spelling::kBytes) {
    for (const char byte : to_utf8(part)) add(char_of_byte_[static_cast<unsigned char>(byte)]);
  } else {
    for (const char32_t point : part) {
      std::string spelled;
      append_utf8(&spelled, point);
      add(spelled);
    }
  }
  if (ignores_merges_) {
    const int32_t whole = find(text);
    if (whole >= 0 && whole < token_count_) {
      out->push_back(whole);
      return;
    }
  }
  text += end_of_word_;
  symbols.back().end = text.size();
  const std::string_view all = text;
  for (Symbol& s : symbols) s.id = find(all.substr(s.begin, s.end - s.begin));

  std::priority_queue<Join, std::vector<Join>, Later> queue;
  const auto offer = [&](size_t left, size_t right) {
    if (left == kNone || right >= symbols.size()) return;
    const Symbol &a = symbols[left], &b = symbols[right];
    if (!by_scores_ && (a.id < 0 || b.id < 0)) return;
    const int32_t both = by_scores_ ? find(all.substr(a.begin, b.end - a.begin)) : -1;
    const int64_t rank = preference(a.id, b.id, both);
    if (rank >= 0) queue.push({rank, left, b.end, both});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(i, i + 1);
  while (!queue.empty()) {
    const Join join = queue.top();
    queue.pop();
    Symbol& left = symbols[join.left];
    const bool is_gone = left.begin == left.end || left.after >= symbols.size();
    if (is_gone || symbols[left.after].end != join.end) continue;  // one of the two has changed since
    Symbol& right = symbols[left.after];
    left.end = right.end;
    left.id = by_scores_ ? join.id : find(all.substr(left.begin, left.end - left.begin));
    left.after = right.after;
    right.begin = right.end;
    if (left.after < symbols.size()) symbols[left.after].before = join.left;
    offer(left.before, join.left);
    offer(join.left, left.after);
  }
  bool was_unknown = false;
  for (const Symbol& s : symbols) {
    if (s.begin == s.end) continue;
    if (s.id >= 0 && s.id < token_count_) {
      out->push_back(s.id);
      was_unknown = false;
    } else {
      unknown(all.substr(s.begin, s.end - s.begin), &was_unknown, out);
    }
  }
}

// The tokens whose scores have the greatest sum; what no token covers becomes what is unknown, a character at
// a time. Special ones are left out of it unless `with_special`.
void Tokenizer::likeliest(const std::string& text, bool with_special, Ids* out) const {
  struct Way {  // the best one to a place in the text
    double score = 0;
    size_t begin = static_cast<size_t>(-1);  // of its last token
    int32_t id = -1;
  };
  std::vector<Way> ways(text.size() + 1);
  const auto is_left_out = [&](int32_t id) {
    const auto found = added_by_id_.find(id);
    return !with_special && found != added_by_id_.end() && added_[found->second].special;
  };
  for (size_t begin = 0, next; begin < text.size(); begin = next) {
    next = begin + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    const double so_far = ways[begin].score;
    bool is_covered = false;
    const auto offer = [&](size_t end, double score, int32_t id) {
      Way& way = ways[end];
      is_covered = is_covered || end == next;
      const bool is_first = way.begin == static_cast<size_t>(-1);
      if (is_first || so_far + score > way.score) way = {so_far + score, begin, id};
    };
    // [low, high): the tokens that begin with the text from `begin` to `end`
    auto low = by_text_.begin(), high = by_text_.end();
    for (size_t end = begin; end < text.size() && low != high; ++end) {
      const size_t place = end - begin;
      const unsigned char wanted = static_cast<unsigned char>(text[end]);
      const auto byte_of = [&](int32_t id) {  // -1 behind its end, where the shortest ones are
        const std::string& token = texts_[static_cast<size_t>(id)];
        return place < token.size() ? static_cast<int>(static_cast<unsigned char>(token[place])) : -1;
      };
      low = std::partition_point(low, high, [&](int32_t id) { return byte_of(id) < wanted; });
      high = std::partition_point(low, high, [&](int32_t id) { return byte_of(id) <= wanted; });
      if (low != high && texts_[static_cast<size_t>(*low)].size() == place + 1 && !is_left_out(*low))
        offer(end + 1, scores_[static_cast<size_t>(*low)], *low);
    }
    if (!is_covered) offer(next, unknown_score_, -1);
  }
  std::vector<std::pair<size_t, size_t>> cut;  // the ends of tokens, the last one first
  for (size_t end = text.size(); end > 0; end = ways[end].begin) cut.emplace_back(ways[end].begin, end);
  bool was_unknown = false;
  for (auto it = cut.rbegin(); it != cut.rend(); ++it) {
    const int32_t id = ways[it->second].id;
    if (id < 0) {
      unknown(std::string_view(text).substr(it->first, it->second - it->first), &was_unknown, out);
      continue;
    }
    out->push_back(id);
    was_unknown = false;
  }
}

// What is no token becomes its bytes' tokens, or the one for what is unknown.
void Tokenizer::unknown(std::string_view symbol, bool* was_unknown, Ids* out) const {
  const bool has_bytes = byte_fallback_ && std::all_of(symbol.begin(), symbol.end(), [&](char c) {
                           return byte_ids_[static_cast<unsigned char>(c)] >= 0;
                         });
  if (has_bytes) {
    for (const char c : symbol) out->push_back(byte_ids_[static_cast<unsigned char>(c)]);
    *was_unknown = false;
  } else if (!unknown_list_.empty() && !(*was_unknown && fuses_unknown_)) {
    out->push_back(static_cast<int32_t>(unknown_list_[0]));
    *was_unknown = true;
  }
}

// ---- ids to texts -----------------------------------------------------------------------------------------

namespace {

std::string replaced(const std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_here = text.compare(at, from.size(), from) == 0;
    out += is_here ? to : std::string_view(text).substr(at, 1);
    at += is_here ? from.size() : 1;
  }
  return out;
}

}  // namespace

std::string Tokenizer::piece(int32_t id) const {
  if (id < 0 || id >= token_count_) return "";
  const std::string& text = texts_[static_cast<size_t>(id)];
  const auto added = added_by_id_.find(id);
  if (added != added_by_id_.end()) return added_[added->second].special ? "" : text;
  if (spelling_ == Spelling::kBytes) {
    std::string bytes;
    for (const char32_t point : from_utf8(text)) {
      const auto found = byte_of_char_.find(point);
      if (found == byte_of_char_.end()) return text;
      bytes.push_back(static_cast<char>(found->second));
    }
    return bytes;
  }
  if (spelling_ == Spelling::kSpaces) {
    const auto byte = bytes_by_id_.find(id);
    if (byte != bytes_by_id_.end()) return std::string(1, static_cast<char>(byte->second));
    return replaced(text, "\xe2\x96\x81", " ");  // U+2581
  }
  return end_of_word_.empty() ? text : replaced(text, end_of_word_, " ");
}

std::string TextStream::push(int32_t id) {
  std::string bytes = tokenizer_->piece(id);
  if (bytes.empty()) return bytes;
  if (is_first_ && tokenizer_->strips_space() && bytes[0] == ' ') bytes.erase(0, 1);
  is_first_ = false;
  std::u32string points;
  decoder_.push(bytes, &points);
  return to_utf8(points);
}

std::string TextStream::finish() {
  std::u32string points;
  decoder_.finish(&points);
  return to_utf8(points);
}

}  // namespace LUMIGEN_NS
