#include "pattern.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

namespace LUMIGEN_NS {

namespace {

enum : int32_t { kMatched, kSet, kSplit, kJump, kGroup, kBegin, kOps };
enum : uint32_t { kMust, kMustNot, kTake, kModes };
constexpr uint64_t kMaxProgram = 4096;
constexpr size_t kPatience = 1000;  // choices, before it is noted which were met
constexpr size_t kMaxDepth = 8;     // of groups in groups

}  // namespace

bool CharacterSet::read(const std::vector<int64_t>& ranges) {
  if (ranges.size() % 2 != 0) return false;
  int64_t before = -1;
  for (size_t i = 0; i < ranges.size(); i += 2) {
    const int64_t first = ranges[i], last = ranges[i + 1];
    if (first <= before || last < first || last > 0x10ffff) return false;
    ranges_.emplace_back(static_cast<char32_t>(first), static_cast<char32_t>(last));
    for (int64_t c = first; c <= last && c < 128; ++c) ascii_.set(static_cast<size_t>(c));
    before = last;
  }
  return true;
}

bool CharacterSet::has(char32_t point) const {
  if (point < 128) return ascii_.test(point);
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), point,
                                      [](char32_t p, const auto& range) { return p < range.first; });
  return after != ranges_.begin() && point <= std::prev(after)->second;
}

bool Pattern::read(const std::vector<int64_t>& numbers, size_t set_count) {
  const int64_t count = static_cast<int64_t>(numbers.size() / 3);
  if (numbers.size() % 3 != 0 || count == 0 || count > static_cast<int64_t>(kMaxProgram)) return false;
  std::vector<std::pair<int64_t, int64_t>> open = {{0, count}};  // groups: where they begin and end
  for (int64_t i = 0; i < count; ++i) {
    while (i == open.back().second) open.pop_back();
    const auto [begin, end] = open.back();
    const int64_t op = numbers[3 * i], a = numbers[3 * i + 1], b = numbers[3 * i + 2];
    // every way leads to a place of the same group
    const auto is_place = [begin = begin, end = end](int64_t place) { return place >= begin && place < end; };
    if (op >= kOps) return false;
    if (op == kSet && a >= static_cast<int64_t>(set_count)) return false;
    if ((op == kSet || op == kBegin) && !is_place(i + 1)) return false;
    if ((op == kSplit || op == kJump) && !is_place(a)) return false;
    if (op == kSplit && !is_place(b)) return false;
    if (op == kGroup) {
      if (!is_place(a) || a <= i + 1 || b >= kModes || open.size() > kMaxDepth) return false;
      open.emplace_back(i + 1, a);
    }
    // Those of one instruction are places or small numbers; what an instruction does not use is dropped.
    program_.push_back({static_cast<int32_t>(op),
                        static_cast<uint32_t>(op == kMatched || op == kBegin ? 0 : a),
                        static_cast<uint32_t>(op == kSplit || op == kGroup ? b : 0)});
  }
  return !loops();
}

// Whether it could go in a circle without taking a character.
bool Pattern::loops() const {
  std::vector<char> seen(program_.size(), 0);
  for (uint32_t i = 0; i < program_.size(); ++i)
    if (!visit(i, &seen)) return true;
  return false;
}

// Depth first; false at a place that is on the way to itself.
bool Pattern::visit(uint32_t at, std::vector<char>* seen) const {
  enum : char { kNew, kOpen, kDone };
  char& state = (*seen)[at];
  if (state != kNew) return state == kDone;
  state = kOpen;
  const Instruction& step = program_[at];
  bool ends = true;
  if (step.op == kSplit) ends = visit(step.a, seen) && visit(step.b, seen);
  if (step.op == kJump) ends = visit(step.a, seen);
  if (step.op == kGroup) ends = visit(at + 1, seen) && visit(step.a, seen);
  if (step.op == kBegin) ends = visit(at + 1, seen);
  state = kDone;
  return ends;
}

size_t Pattern::match(const std::vector<CharacterSet>& sets, std::u32string_view text, size_t start) const {
  return run(sets, text, 0, start, {start + 1, false});
}

bool Pattern::matches_all(const std::vector<CharacterSet>& sets, std::u32string_view text) const {
  return run(sets, text, 0, 0, {0, true}) != kNone;
}

size_t Pattern::run(const std::vector<CharacterSet>& sets, std::u32string_view text, uint32_t at,
                    size_t position, Goal goal) const {
  std::vector<std::pair<uint32_t, size_t>> choices;  // that are left: place in the program, in the text
  // A choice that is met again has failed before, so that the steps are no more than places times characters.
  std::unordered_set<uint64_t> met;
  size_t count = 0;
  for (;;) {
    const Instruction& step = program_[at];
    bool goes_on = true;
    switch (step.op) {
      case kMatched:
        if (position >= goal.least_end && (!goal.at_end || position == text.size())) return position;
        goes_on = false;
        break;
      case kSet:
        goes_on = position < text.size() && sets[step.a].has(text[position]);
        ++position;
        ++at;
        break;
      case kSplit:
        goes_on = ++count <= kPatience || met.insert(position * kMaxProgram + at).second;
        if (goes_on) choices.emplace_back(step.b, position);
        at = step.a;
        break;
      case kJump:
        at = step.a;
        break;
      case kGroup: {
        const size_t end = run(sets, text, at + 1, position, {0, false});
        goes_on = (end == kNone) == (step.b == kMustNot);
        if (goes_on && step.b == kTake) position = end;
        at = step.a;
        break;
      }
      default:
        goes_on = position == 0;
        ++at;
        break;
    }
    if (goes_on) continue;
    if (choices.empty()) return kNone;
    std::tie(at, position) = choices.back();
    choices.pop_back();
  }
}

}  // namespace LUMIGEN_NS
