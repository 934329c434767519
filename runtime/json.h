// A strict reader of JSON, in the order in which the text stands: for headers that strangers may have
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace LUMIGEN_NS {

// Every function returns false at the first fault and from then on; `error()` says what it was and where.
// An object is read as
//   bool first = true;
//   if (!json.enter('{')) ...
//   while (json.more('}', &first)) { json.key(&name); ... a value ... }
//   if (json.failed()) ...
class Json {
 public:
  Json(const char* text, size_t bytes) : text_(text), bytes_(bytes) {}

  bool enter(char bracket);
  // Before each member or element: false at the closing bracket, which it consumes, and after a fault.
  bool more(char closing, bool* first);
  bool key(std::string* name);
  bool string(std::string* value);
  // A whole number that is not negative, as a plain run of digits.
  bool count(int64_t* value);
  // Whether the value is null, which it then consumes.
  bool null();
  // Any value, checked and dropped; `depth` bounds how deep it may nest.
  bool skip(int depth = 32);
  // Whether only spaces are left.
  bool end();

  char peek();
  bool failed() const { return error_ != nullptr; }
  const char* error() const { return error_; }
  size_t position() const { return at_; }

 private:
  bool wrong(const char* what);
  void spaces();
  bool take(char c);
  bool escape(std::string* value);
  bool hex(uint32_t* unit);
  bool number();
  bool word(const char* expected);

  const char* text_;
  size_t bytes_;
  size_t at_ = 0;
  const char* error_ = nullptr;
};

}  // namespace LUMIGEN_NS
