// Text as code points and as UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace LUMIGEN_NS {

constexpr char32_t kReplacement = 0xfffd;

// Bytes to code points as they come. What is no UTF-8 becomes U+FFFD, one for each maximal part that is
// ill-formed (Unicode, 3.9, "substitution of maximal subparts"), as Python and browsers decode it.
class Utf8Decoder {
 public:
  void push(std::string_view bytes, std::u32string* out);
  // What an unfinished character becomes.
  void finish(std::u32string* out);

 private:
  uint32_t point_ = 0;
  int missing_ = 0;                         // bytes of the character that has begun
  unsigned char low_ = 0x80, high_ = 0xbf;  // between which its next byte lies
};

void append_utf8(std::string* out, char32_t point);
std::string to_utf8(const std::u32string& text);
std::u32string from_utf8(std::string_view bytes);

// Where the first byte that is no UTF-8 stands; `text.size()` if there is none.
size_t first_ill_formed(std::string_view text);

}  // namespace LUMIGEN_NS
