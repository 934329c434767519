#include "arguments.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace emulated {

namespace {

using Used = std::pair<const MTL::Buffer*, MTL::UInteger>;  // and how

// The buffer in which a tensor begins; one without elements may lie at an end.
Used buffer_of(const MTL::Command& c, size_t number, const Tensor& t) {
  for (const auto& [b, usage] : c.used) {
    const uint64_t at = t.address - b->gpuAddress();
    if (at < b->length() || (at == b->length() && t.bytes == 0)) return {b, usage};
  }
  stop("the arguments of %s have an address at byte %zu that is in no buffer which the encoder uses",
       c.kernel->name, 8 * number);
}

}  // namespace

Arguments::Arguments(const MTL::Command& command, Edge edge)
    : command_(command), args_(command.args.size(), edge) {
  std::memcpy(args_.data(), command.args.data(), command.args.size());
  const std::vector<Tensor> tensors = command.kernel->tensors(command.args.data());
  place(tensors);
  for (Span& s : spans_) copy(&s, tensors, edge);
  args_.let_write(false);
}

void Arguments::place(const std::vector<Tensor>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors[a].address < tensors[b].address; });
  for (const size_t i : order) {
    const Tensor& t = tensors[i];
    if (t.address == 0) continue;
    const auto [buffer, usage] = buffer_of(command_, i, t);
    const size_t begin = t.address - buffer->gpuAddress(), rest = buffer->length() - begin;
    const size_t bytes = t.bytes == kToTheEnd ? rest : t.bytes;
    if (bytes > rest)
      stop("argument %zu of %s has %zu bytes, but only %zu are left of its buffer", i, command_.kernel->name,
           bytes, rest);
    if (spans_.empty() || spans_.back().buffer != buffer || begin >= spans_.back().end)
      spans_.push_back({buffer, begin, begin, false, {}, nullptr});
    Span& s = spans_.back();
    s.end = std::max(s.end, begin + bytes);
    s.is_written |= t.is_written && (usage & MTL::ResourceUsageWrite) != 0;
    s.tensors.push_back(i);
  }
}

void Arguments::copy(Span* span, const std::vector<Tensor>& tensors, Edge edge) {
  const uint64_t begin = span->buffer->gpuAddress() + span->begin;
  span->copy = std::make_unique<Guarded>(span->end - span->begin, edge, begin % 16);
  std::memcpy(span->copy->data(), static_cast<char*>(span->buffer->contents()) + span->begin,
              span->copy->bytes());
  for (const size_t i : span->tensors) {
    const char* const at = span->copy->data() + (tensors[i].address - begin);
    std::memcpy(args_.data() + i * sizeof at, &at, sizeof at);
  }
  span->copy->let_write(span->is_written);
}

void Arguments::put_back() const {
  for (const Span& s : spans_) {
    if (!s.copy->is_whole())
      stop("kernel %s: something was written past the ends of a tensor of %zu bytes", command_.kernel->name,
           s.copy->bytes());
    if (s.is_written)
      std::memcpy(static_cast<char*>(s.buffer->contents()) + s.begin, s.copy->data(), s.copy->bytes());
  }
}

}  // namespace emulated
