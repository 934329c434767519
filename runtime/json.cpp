#include "json.h"

#include <cstring>

#include "utf8.h"

namespace LUMIGEN_NS {

bool Json::wrong(const char* what) {
  if (error_ == nullptr) error_ = what;
  return false;
}

void Json::spaces() {
  while (at_ < bytes_ &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

char Json::peek() {
  spaces();
  return at_ < bytes_ && !failed() ? text_[at_] : '\0';
}

bool Json::take(char c) {
  if (failed() || peek() != c) return false;
  ++at_;
  return true;
}

bool Json::enter(char bracket) {
  if (take(bracket)) return true;
  return wrong(bracket == '{' ? "an object is expected" : "an array is expected");
}

bool Json::more(char closing, bool* first) {
  if (failed()) return false;
  if (take(closing)) return false;
  if (!*first && !take(',')) return wrong("a comma or a closing bracket is expected");
  *first = false;
  return true;
}

bool Json::key(std::string* name) {
  if (!string(name)) return false;
  return take(':') || wrong("a colon is expected");
}

bool Json::string(std::string* value) {
  value->clear();
  if (!take('"')) return wrong("a string is expected");
  bool plain = true;
  while (at_ < bytes_) {
    const char c = text_[at_++];
    if (c == '"') return plain || first_ill_formed(*value) == value->size() || wrong("a string is no UTF-8");
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20) return wrong("a string holds a control character");
    if (c == '\\') {
      if (!escape(value)) return false;
    } else {
      plain = plain && byte < 0x80;
      value->push_back(c);
    }
  }
  return wrong("a string does not end");
}

bool Json::escape(std::string* value) {
  if (at_ >= bytes_) return wrong("a string does not end");
  const char c = text_[at_++];
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  if (const char* found = c != '\0' ? std::strchr(from, c) : nullptr) {
    value->push_back(to[found - from]);
    return true;
  }
  uint32_t point = 0;
  if (c != 'u' || !hex(&point)) return wrong("a string holds an unknown escape");
  if (point >= 0xd800 && point < 0xdc00) {  // the first half of a character beyond 16 bits
    uint32_t low = 0;
    if (at_ + 2 > bytes_ || text_[at_] != '\\' || text_[at_ + 1] != 'u')
      return wrong("half a character is missing");
    at_ += 2;
    if (!hex(&low) || low < 0xdc00 || low >= 0xe000) return wrong("half a character is missing");
    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
  } else if (point >= 0xdc00 && point < 0xe000) {
    return wrong("half a character is missing");
  }
  append_utf8(value, point);
  return true;
}

bool Json::hex(uint32_t* unit) {
  *unit = 0;
  for (int i = 0; i < 4; ++i) {
    if (at_ >= bytes_) return false;
    const char c = text_[at_++];
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A') + 10;
    } else {
      return false;
    }
    *unit = *unit << 4 | digit;
  }
  return true;
}

bool Json::count(int64_t* value) {
  const char first = peek();
  if (first < '0' || first > '9') return wrong("a whole number is expected");
  int64_t total = 0;
  const size_t begin = at_;
  while (at_ < bytes_ && text_[at_] >= '0' && text_[at_] <= '9') {
    const int digit = text_[at_++] - '0';
    if (total > (INT64_MAX - digit) / 10) return wrong("a number is too large");
    total = total * 10 + digit;
  }
  if (first == '0' && at_ - begin > 1) return wrong("a number starts with 0");
  if (at_ < bytes_ && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
    return wrong("a whole number is expected");
  *value = total;
  return true;
}

bool Json::number() {
  const auto digits = [&] {
    const size_t begin = at_;
    while (at_ < bytes_ && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  };
  if (text_[at_] == '-') ++at_;
  if (!digits()) return wrong("a value is expected");
  if (at_ < bytes_ && text_[at_] == '.') {
    ++at_;
    if (!digits()) return wrong("a number does not end");
  }
  if (at_ < bytes_ && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < bytes_ && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (!digits()) return wrong("a number does not end");
  }
  return true;
}

bool Json::word(const char* expected) {
  const size_t length = std::strlen(expected);
  if (bytes_ - at_ < length || std::memcmp(text_ + at_, expected, length) != 0)
    return wrong("a value is expected");
  at_ += length;
  return true;
}

bool Json::skip(int depth) {
  if (depth == 0) return wrong("it nests too deep");
  std::string text;
  bool first = true;
  switch (peek()) {
    case '\0':
      return wrong("a value is expected");
    case '"':
      return string(&text);
    case '{':
      enter('{');
      while (more('}', &first)) {
        if (!key(&text) || !skip(depth - 1)) return false;
      }
      return !failed();
    case '[':
      enter('[');
      while (more(']', &first)) {
        if (!skip(depth - 1)) return false;
      }
      return !failed();
    case 't':
      return word("true");
    case 'f':
      return word("false");
    case 'n':
      return word("null");
    default:
      return number();
  }
}

bool Json::null() { return peek() == 'n' && word("null"); }

bool Json::end() {
  spaces();
  return at_ == bytes_ || wrong("something follows the end");
}

}  // namespace LUMIGEN_NS
