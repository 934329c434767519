// Which token comes next: the likeliest, or one drawn with the odds that filters leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/status.h"

namespace LUMIGEN_NS {

// The filters are those of Hugging Face's `transformers`, applied in its order: repetition penalty,
// temperature, top-k, top-p, min-p. The defaults leave all tokens in.
struct Sampling {
  double repetition_penalty =
      1.0;                   // logits of tokens in the text: divided by it if positive, else multiplied
  double temperature = 0.0;  // logits are divided by it; 0: the likeliest token, the first of equals
  int64_t top_k = 0;         // only so many, the likeliest, of equals the first; 0: all
  double top_p = 1.0;        // the fewest that have this share together, the likeliest first
  double min_p = 0.0;        // only those that have this share of the likeliest one's
  uint64_t seed = 0;
};

// Four words of 32 bits that depend on a key and a counter alone: Philox4x32-10 (Salmon, Moraes, Dror, Shaw:
// Parallel random numbers: as easy as 1, 2, 3; SC 2011).
void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

class Sampler {
 public:
  // Of `vocabulary` tokens.
  Sampler(const Sampling& sampling, int32_t vocabulary);

  // A token of the text so far.
  void see(int32_t id);

  // The next token by the logits of all, of which there may be more than tokens: those are never taken.
  // `number` counts the tokens drawn; draws depend on it and the seed alone. Errors, which begin with
  // `where`: a logit that is NaN or infinite, no token that could come.
  Status next(const char* where, const std::vector<float>& logits, int64_t number, int32_t* id);

 private:
  struct Candidate {
    double logit;
    int32_t id;
  };
  // Order of likelihood, of equals the first.
  struct LessLikely {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
    }
  };
  int32_t drawn(const Candidate& likeliest, int64_t number);
  void keep_top_k();
  void keep_top_p();
  double uniform(int64_t number) const;

  Sampling sampling_;
  std::vector<char> seen_;  // by id
  std::vector<Candidate> candidates_;
};

}  // namespace LUMIGEN_NS
