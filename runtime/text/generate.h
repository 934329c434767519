// Text that goes on from a prompt, token after token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sampler.h"
#include "tokenizer.h"

namespace LUMIGEN_NS {

// What generation has to know of a model: two entries over one context, which keeps what it has read.
struct TextModel {
  // Reads `count` tokens that stand at `position` and gives the logits of the token behind the last of them;
  // by the entry for several tokens, at most `chunk` of them, or by that for one.
  std::function<Status(const int32_t* ids, int64_t count, int64_t position, std::vector<float>* logits)>
      prefill;
  std::function<Status(int32_t id, int64_t position, std::vector<float>* logits)> decode;
  int64_t chunk = 1;
  int64_t length = 0;         // positions that there are
  std::vector<int32_t> ends;  // tokens that end a text
};

struct Request {
  std::string prompt;
  int64_t tokens = 0;  // new ones at most
  Sampling sampling;
  std::vector<std::string> stops;  // texts that end it, themselves left out
};

struct Outcome {
  enum class Why { kTokens, kEnd, kStop, kFull, kCancelled } why = Why::kTokens;
  int64_t prompt_tokens = 0, new_tokens = 0;
  double prompt_seconds = 0, new_seconds = 0;  // the first token counts to the prompt
};

// `write` is given text that is certain, as it comes; `is_cancelled` is asked before each step. What was
// written stays valid UTF-8 whatever happens. Errors: a prompt without tokens or with more than there are
// positions, a vocabulary that is not the model's, what entries, the sampler and `write` say.
Status generate(const TextModel& model, const Tokenizer& tokenizer, const Request& request,
                const std::function<Status(std::string_view)>& write,
                const std::function<bool()>& is_cancelled, Outcome* outcome);

// Text up to the first of some strings. What may begin one is held back until it is known.
class Stops {
 public:
  explicit Stops(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  // The text that is certain now.
  std::string push(std::string_view text);
  // What was held back.
  std::string finish() { return std::move(held_); }
  bool found() const { return found_; }

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace LUMIGEN_NS
