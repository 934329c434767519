#include "utf8.h"

namespace LUMIGEN_NS {

void Utf8Decoder::push(std::string_view bytes, std::u32string* out) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(bytes[i]);
    if (missing_ > 0) {
      if (byte < low_ || byte > high_) {
        finish(out);
        --i;  // it may begin a character itself
        continue;
      }
      low_ = 0x80, high_ = 0xbf;
      point_ = point_ << 6 | (byte & 0x3f);
      if (--missing_ == 0) out->push_back(point_);
    } else if (byte < 0x80) {
      out->push_back(byte);
    } else if (byte < 0xc2 || byte > 0xf4) {
      out->push_back(kReplacement);
    } else {
      missing_ = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      point_ = byte & (0x3f >> missing_);
      // no longer forms than needed, no halves of UTF-16, nothing above U+10FFFF
      if (byte == 0xe0) low_ = 0xa0;
      if (byte == 0xed) high_ = 0x9f;
      if (byte == 0xf0) low_ = 0x90;
      if (byte == 0xf4) high_ = 0x8f;
    }
  }
}

void Utf8Decoder::finish(std::u32string* out) {
  if (missing_ > 0) out->push_back(kReplacement);
  missing_ = 0;
  low_ = 0x80, high_ = 0xbf;
}

void append_utf8(std::string* out, char32_t point) {
  const auto push = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
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
}

std::string to_utf8(const std::u32string& text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t point : text) append_utf8(&out, point);
  return out;
}

std::u32string from_utf8(std::string_view bytes) {
  std::u32string out;
  out.reserve(bytes.size());
  Utf8Decoder decoder;
  decoder.push(bytes, &out);
  decoder.finish(&out);
  return out;
}

size_t first_ill_formed(std::string_view text) {
  // Only a character that was replaced has another spelling than the one it was read from.
  size_t at = 0;
  for (const char32_t point : from_utf8(text)) {
    std::string spelled;
    append_utf8(&spelled, point);
    if (text.compare(at, spelled.size(), spelled) != 0) return at;
    at += spelled.size();
  }
  return at;
}

}  // namespace LUMIGEN_NS
