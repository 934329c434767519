#include "generate.h"

#include <algorithm>
#include <chrono>

namespace LUMIGEN_NS {

std::string Stops::push(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t end = std::string::npos;
  for (const std::string& stop : texts_) end = std::min(end, held_.find(stop));
  found_ = end != std::string::npos;
  if (!found_) {
    end = held_.size();
    for (const std::string& stop : texts_)
      for (size_t n = std::min(stop.size() - 1, held_.size()); n > held_.size() - end; --n)
        if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) end = held_.size() - n;
  }
  std::string certain = held_.substr(0, end);
  held_.erase(0, found_ ? held_.size() : end);
  return certain;
}

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One text on its way.
class Generation {
 public:
  Generation(const TextModel& model, const Tokenizer& tokenizer, const Request& request, Outcome* outcome)
      : model_(model),
        tokenizer_(tokenizer),
        request_(request),
        outcome_(*outcome),
        sampler_(request.sampling, tokenizer.size()),
        stream_(tokenizer),
        stops_(request.stops) {}

  Status read_prompt(const std::function<bool()>& is_cancelled) {
    const double start = seconds();
    const uint64_t most = static_cast<uint64_t>(model_.length) * tokenizer_.longest();
    if (request_.prompt.size() > most)
      return fail(
          kBadArgument,
          "[generate] the prompt has %zu bytes, but the model has a place for %lld tokens, which are at "
          "most %llu bytes. Shorten it, or compile the model for longer texts.",
          request_.prompt.size(), static_cast<long long>(model_.length),
          static_cast<unsigned long long>(most));
    const Ids ids = tokenizer_.encode(request_.prompt);
    const int64_t count = outcome_.prompt_tokens = static_cast<int64_t>(ids.size());
    if (count == 0)
      return fail(kBadArgument, "[generate] the prompt has no tokens. Give it at least one character.");
    if (count > model_.length)
      return fail(
          kBadArgument,
          "[generate] the prompt has %lld tokens, but the model has a place for %lld. Shorten it, or compile "
          "the model for longer texts.",
          static_cast<long long>(count), static_cast<long long>(model_.length));
    for (const int32_t id : ids) {
      sampler_.see(id);
      stream_.push(id);  // so that it knows what the text goes on from
    }
    for (int64_t at = 0; at < count && !is_cancelled(); at += model_.chunk) {
      const int64_t n = std::min(model_.chunk, count - at);
      if (const Status status = model_.prefill(ids.data() + at, n, at, &logits_)) return status;
    }
    outcome_.prompt_seconds = seconds() - start;
    return kOk;
  }

  Status go_on(const std::function<Status(std::string_view)>& write,
               const std::function<bool()>& is_cancelled) {
    const double start = seconds();
    Status status = kOk;
    while (status == kOk && !ended(is_cancelled)) status = step(write);
    outcome_.new_seconds = seconds() - start;
    // what was held back is text as well, also in front of an error
    const std::string rest = stops_.push(stream_.finish()) + stops_.finish();
    const Status written = rest.empty() ? kOk : write(rest);
    return status != kOk ? status : written;
  }

 private:
  using Why = Outcome::Why;

  bool ended(const std::function<bool()>& is_cancelled) {
    if (outcome_.why != Why::kTokens) return true;
    if (is_cancelled()) outcome_.why = Why::kCancelled;
    return outcome_.why != Why::kTokens || outcome_.new_tokens >= request_.tokens;
  }

  // The next token, and the logits behind it if there is to be another.
  Status step(const std::function<Status(std::string_view)>& write) {
    int32_t id = 0;
    if (const Status status = sampler_.next("generate", logits_, outcome_.new_tokens, &id)) return status;
    if (std::find(model_.ends.begin(), model_.ends.end(), id) != model_.ends.end()) {
      outcome_.why = Why::kEnd;
      return kOk;
    }
    const int64_t position = outcome_.prompt_tokens + outcome_.new_tokens;
    ++outcome_.new_tokens;
    sampler_.see(id);
    const std::string text = stops_.push(stream_.push(id));
    if (!text.empty())
      if (const Status status = write(text)) return status;
    if (stops_.found()) {
      outcome_.why = Why::kStop;
    } else if (outcome_.new_tokens < request_.tokens) {
      if (position < model_.length) return model_.decode(id, position, &logits_);
      outcome_.why = Why::kFull;
    }
    return kOk;
  }

  const TextModel& model_;
  const Tokenizer& tokenizer_;
  const Request& request_;
  Outcome& outcome_;
  Sampler sampler_;
  TextStream stream_;
  Stops stops_;
  std::vector<float> logits_;
};

}  // namespace

Status generate(const TextModel& model, const Tokenizer& tokenizer, const Request& request,
                const std::function<Status(std::string_view)>& write,
                const std::function<bool()>& is_cancelled, Outcome* outcome) {
  Generation generation(model, tokenizer, request, outcome);
  if (const Status status = generation.read_prompt(is_cancelled)) return status;
  return generation.go_on(write, is_cancelled);
}

}  // namespace LUMIGEN_NS
