#include "sampler.h"

#include <algorithm>
#include <cmath>

namespace LUMIGEN_NS {

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  constexpr uint64_t kMultiply0 = 0xd2511f53, kMultiply1 = 0xcd9e8d57;
  constexpr uint32_t kStep0 = 0x9e3779b9, kStep1 = 0xbb67ae85;
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiply0 * c0, p1 = kMultiply1 * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kStep0;
    k1 += kStep1;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

Sampler::Sampler(const Sampling& sampling, int32_t vocabulary)
    : sampling_(sampling), seen_(static_cast<size_t>(vocabulary), 0) {
  candidates_.reserve(seen_.size());
}

void Sampler::see(int32_t id) {
  if (id >= 0 && static_cast<size_t>(id) < seen_.size()) seen_[static_cast<size_t>(id)] = 1;
}

Status Sampler::next(const char* where, const std::vector<float>& logits, int64_t number, int32_t* id) {
  const bool draws = sampling_.temperature > 0;
  Candidate likeliest{-HUGE_VAL, -1};
  candidates_.clear();
  for (size_t i = 0; i < seen_.size() && i < logits.size(); ++i) {
    double logit = logits[i];
    if (!(logit < HUGE_VAL))
      return fail(
          kInternal,
          "[%s] the logit of token %zu is %s, after %lld new tokens. Look at the weights; in 16 bits a "
          "number may have been too large.",
          where, i, std::isnan(logit) ? "NaN" : "infinite", static_cast<long long>(number));
    if (seen_[i])
      logit = logit > 0 ? logit / sampling_.repetition_penalty : logit * sampling_.repetition_penalty;
    if (logit == -HUGE_VAL) continue;
    const Candidate candidate{logit, static_cast<int32_t>(i)};
    if (likeliest.id < 0 || logit > likeliest.logit) likeliest = candidate;
    if (draws) candidates_.push_back(candidate);
  }
  if (likeliest.id < 0)
    return fail(kInternal, "[%s] all logits are -inf after %lld new tokens. Look at the weights.", where,
                static_cast<long long>(number));
  *id = draws ? drawn(likeliest, number) : likeliest.id;
  return kOk;
}

int32_t Sampler::drawn(const Candidate& likeliest, int64_t number) {
  // From here on the likeliest has 0, so that shares are those of its own.
  for (Candidate& c : candidates_) c.logit = (c.logit - likeliest.logit) / sampling_.temperature;
  const auto share = [](const Candidate& c) { return std::exp(c.logit); };
  keep_top_k();
  keep_top_p();
  const auto is_out = [&](const Candidate& c) { return share(c) < sampling_.min_p; };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), is_out), candidates_.end());
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double total = 0;
  for (const Candidate& c : candidates_) total += share(c);
  double left = uniform(number) * total;
  for (const Candidate& c : candidates_) {
    left -= share(c);
    if (left < 0) return c.id;
  }
  return candidates_.back().id;  // a sum was rounded
}

void Sampler::keep_top_k() {
  if (sampling_.top_k <= 0 || static_cast<size_t>(sampling_.top_k) >= candidates_.size()) return;
  const auto end = candidates_.begin() + sampling_.top_k;
  std::nth_element(candidates_.begin(), end, candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return LessLikely()(b, a); });
  candidates_.erase(end, candidates_.end());
}

void Sampler::keep_top_p() {
  if (sampling_.top_p >= 1) return;
  double total = 0;
  for (const Candidate& c : candidates_) total += std::exp(c.logit);
  // A heap: few are taken off the top of many.
  std::make_heap(candidates_.begin(), candidates_.end(), LessLikely());
  auto end = candidates_.end();
  double kept = 0;
  do {
    std::pop_heap(candidates_.begin(), end--, LessLikely());
    kept += std::exp(end->logit);
  } while (kept < sampling_.top_p * total && end != candidates_.begin());
  candidates_.erase(candidates_.begin(), end);
}

// In [0, 1), of 53 bits.
double Sampler::uniform(int64_t number) const {
  const uint64_t n = static_cast<uint64_t>(number);
  const uint32_t counter[4] = {static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), 0, 0};
  const uint32_t key[2] = {static_cast<uint32_t>(sampling_.seed),
                           static_cast<uint32_t>(sampling_.seed >> 32)};
  uint32_t words[4];
  philox(counter, key, words);
  const uint64_t bits = static_cast<uint64_t>(words[0]) << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace LUMIGEN_NS
