// Prints what testing.h fills buffers with, as hexadecimal bytes, and the elements that it compares.
#include "tests/testing.h"

using namespace testing;

int main() {
  const Type types[] = {Type::f32, Type::f16, Type::bf16, Type::f64, Type::i8, Type::u8, Type::i32, Type::i64, Type::boolean};
  for (const Type type : types) {
    for (const int64_t count : {7, 40000}) {
      for (const double scale : {1.0, 0.05}) {
        std::vector<char> out(static_cast<size_t>(count) * size_of(type));
        fill(out.data(), type, count, 100, type == Type::i64 ? INT64_MIN : 0, type == Type::i64 ? INT64_MAX : 1, scale);
        for (const char c : out) std::printf("%02x", static_cast<unsigned char>(c));
        std::printf("\n");
      }
    }
  }
  for (const int64_t count : {0, 5, 48, 49, 280, 281, 100000}) {
    for (const auto& elements : {sample(count), few(count)}) {
      for (const int64_t element : elements) std::printf("%lld ", static_cast<long long>(element));
      std::printf("\n");
    }
  }
}
