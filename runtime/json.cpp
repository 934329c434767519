#include "json.h"

#include <cstring>

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
  while (at_ < bytes_) {
    const char c = text_[at_++];
    if (c == '"') return true;
    if (static_cast<unsigned char>(c) < 0x20) return wrong("a string holds a control character");
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      if (!escape(value)) return false;
    } else if (byte < 0x80) {
      value->push_back(c);
    } else if (!multibyte(byte, value)) {
      return wrong("a string is no UTF-8");
    }
  }
  return wrong("a string does not end");
}

// The rest of a UTF-8 character, in its shortest form and none of the halves that UTF-16 uses.
bool Json::multibyte(unsigned char lead, std::string* value) {
  const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || bytes_ - at_ < more) return false;
  const unsigned char next = static_cast<unsigned char>(text_[at_]);
  if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f)) return false;
  if ((lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f)) return false;
  value->push_back(static_cast<char>(lead));
  for (size_t i = 0; i < more; ++i) {
    const char c = text_[at_++];
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) return false;
    value->push_back(c);
  }
  return true;
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
  const auto push = [&](uint32_t byte) { value->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    push(point);
  } else if (point < 0x800) {
    push(0xc0 | point >> 6);
    push(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    push(0xe0 | point >> 12);
    push(0x80 | (point >> 6 & 0x3f));
    push(0x80 | (point & 0x3f));
  } else {
    push(0xf0 | point >> 18);
    push(0x80 | (point >> 12 & 0x3f));
    push(0x80 | (point >> 6 & 0x3f));
    push(0x80 | (point & 0x3f));
  }
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

bool Json::end() {
  spaces();
  return at_ == bytes_ || wrong("something follows the end");
}

}  // namespace LUMIGEN_NS
