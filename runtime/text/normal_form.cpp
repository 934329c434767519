#include "normal_form.h"

#include <algorithm>

namespace LUMIGEN_NS {

namespace {

constexpr int64_t kLast = 0x10ffff;

// Hangul is composed by arithmetic (Unicode, 3.12): a syllable is a leading consonant, a vowel and none or
// one trailing consonant.
constexpr char32_t kSyllable = 0xac00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11a7;
constexpr char32_t kLeadings = 19, kVowels = 21, kTrailings = 28;
constexpr char32_t kSyllables = kLeadings * kVowels * kTrailings;

uint64_t pair_of(char32_t first, char32_t second) { return static_cast<uint64_t>(first) << 32 | second; }

}  // namespace

bool NormalForms::read_decompositions(const std::vector<int64_t>& rows) {
  for (size_t at = 0; at < rows.size();) {
    if (rows.size() - at < 2 || rows[at] > kLast) return false;
    const int64_t count = rows[at + 1];
    if (count > static_cast<int64_t>(rows.size() - at - 2)) return false;
    std::u32string& into = decompositions_[static_cast<char32_t>(rows[at])];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t point = rows[at + 2 + static_cast<size_t>(i)];
      if (point > kLast) return false;
      into.push_back(static_cast<char32_t>(point));
    }
    at += 2 + static_cast<size_t>(count);
  }
  return true;
}

bool NormalForms::read_classes(const std::vector<int64_t>& pairs) {
  if (pairs.size() % 2 != 0) return false;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (pairs[i] > kLast || pairs[i + 1] > 255) return false;
    classes_[static_cast<char32_t>(pairs[i])] = static_cast<int>(pairs[i + 1]);
  }
  return true;
}

bool NormalForms::read_compositions(const std::vector<int64_t>& triples) {
  if (triples.size() % 3 != 0) return false;
  for (size_t i = 0; i < triples.size(); i += 3) {
    if (triples[i] > kLast || triples[i + 1] > kLast || triples[i + 2] > kLast) return false;
    compositions_[pair_of(static_cast<char32_t>(triples[i]), static_cast<char32_t>(triples[i + 1]))] =
        static_cast<char32_t>(triples[i + 2]);
  }
  return true;
}

int NormalForms::class_of(char32_t point) const {
  const auto found = classes_.find(point);
  return found == classes_.end() ? 0 : found->second;
}

void NormalForms::decompose(char32_t point, std::u32string* out) const {
  if (point >= kSyllable && point < kSyllable + kSyllables) {
    const char32_t index = point - kSyllable;
    out->push_back(kLeading + index / (kVowels * kTrailings));
    out->push_back(kVowel + index % (kVowels * kTrailings) / kTrailings);
    if (index % kTrailings != 0) out->push_back(kTrailing + index % kTrailings);
    return;
  }
  const auto found = decompositions_.find(point);
  if (found == decompositions_.end())
    out->push_back(point);
  else
    out->append(found->second);
}

char32_t NormalForms::composed(char32_t first, char32_t second) const {
  if (first >= kLeading && first < kLeading + kLeadings && second >= kVowel && second < kVowel + kVowels)
    return kSyllable + ((first - kLeading) * kVowels + (second - kVowel)) * kTrailings;
  const bool lacks_trailing =
      first >= kSyllable && first < kSyllable + kSyllables && (first - kSyllable) % kTrailings == 0;
  if (lacks_trailing && second > kTrailing && second < kTrailing + kTrailings)
    return first + (second - kTrailing);
  const auto found = compositions_.find(pair_of(first, second));
  return found == compositions_.end() ? 0 : found->second;
}

std::u32string NormalForms::normal(const std::u32string& text, bool composes) const {
  std::u32string out;
  for (const char32_t point : text) decompose(point, &out);
  // marks behind a base stand in the order of their classes
  for (size_t begin = 0; begin < out.size();) {
    size_t end = begin;
    while (end < out.size() && class_of(out[end]) != 0) ++end;
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(begin),
                     out.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](char32_t a, char32_t b) { return class_of(a) < class_of(b); });
    begin = end + 1;
  }
  if (!composes) return out;
  std::u32string joined;
  size_t base = std::u32string::npos;  // the last character of class 0
  int last_class = -1;                 // of what follows it
  for (const char32_t point : out) {
    const int its_class = class_of(point);
    // one that another of its class, or a base, stands in front of is blocked
    const char32_t whole =
        base != std::u32string::npos && last_class < its_class ? composed(joined[base], point) : 0;
    if (whole != 0) {
      joined[base] = whole;
      continue;
    }
    joined.push_back(point);
    last_class = its_class;
    if (its_class == 0) {
      base = joined.size() - 1;
      last_class = -1;
    }
  }
  return joined;
}

}  // namespace LUMIGEN_NS
