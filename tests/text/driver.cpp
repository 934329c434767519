// The runtime of programs that continue texts, for tests: each command reads rows and prints rows. Texts are
// in hex.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/text/generate.h"

using namespace LUMIGEN_NS;

namespace {

bool read_row(std::string* out) {
  out->clear();
  int c = 0;
  while ((c = std::getchar()) != EOF && c != '\n') out->push_back(static_cast<char>(c));
  return c != EOF || !out->empty();
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16)));
  return out;
}

void print_hex(std::string_view text) {
  for (const char c : text) std::printf("%02x", static_cast<unsigned char>(c));
}

// Rows "<flags> <text>" to "<ids>|<their text>"; flags: 1 adds special tokens, 2 finds them in the text.
int encode(const Tokenizer& tokenizer) {
  std::string row;
  while (read_row(&row)) {
    const int flags = row[0] - '0';
    const Ids ids = tokenizer.encode(from_hex(row.substr(2)), flags & 1, flags & 2);
    TextStream stream(tokenizer);
    std::string decoded;
    for (const int32_t id : ids) {
      std::printf("%d ", static_cast<int>(id));
      const std::string more = stream.push(id);
      if (first_ill_formed(more) != more.size()) std::printf("half a character ");
      decoded += more;
    }
    std::printf("|");
    print_hex(decoded + stream.finish());
    std::printf("\n");
  }
  return 0;
}

// The pieces of a text, one a row, between the stop strings given as arguments.
int stop(int count, char** texts) {
  std::vector<std::string> stops;
  for (int i = 0; i < count; ++i) stops.push_back(from_hex(texts[i]));
  Stops filter(stops);
  std::string row;
  while (read_row(&row)) {
    print_hex(filter.push(from_hex(row)));
    std::printf("\n");
  }
  print_hex(filter.finish());
  std::printf(" %d\n", filter.found());
  return 0;
}

Sampling sampling_of(char** numbers) {
  Sampling out;
  out.repetition_penalty = std::atof(numbers[0]);
  out.temperature = std::atof(numbers[1]);
  out.top_k = std::atoll(numbers[2]);
  out.top_p = std::atof(numbers[3]);
  out.min_p = std::atof(numbers[4]);
  out.seed = std::strtoull(numbers[5], nullptr, 10);
  return out;
}

// `draws` tokens by the logits in the first row, where those in the second are in the text already.
int sample(char** numbers, int64_t draws) {
  std::string row;
  std::vector<float> logits;
  read_row(&row);
  for (char* at = std::strtok(row.data(), " "); at; at = std::strtok(nullptr, " "))
    logits.push_back(std::strtof(at, nullptr));
  Sampler sampler(sampling_of(numbers), static_cast<int32_t>(logits.size()));
  read_row(&row);
  for (char* at = std::strtok(row.data(), " "); at; at = std::strtok(nullptr, " "))
    sampler.see(std::atoi(at));
  for (int64_t i = 0; i < draws; ++i) {
    int32_t id = 0;
    if (sampler.next("test", logits, i, &id)) return std::printf("%s\n", last_error()), 0;
    std::printf("%d ", static_cast<int>(id));
  }
  std::printf("\n");
  return 0;
}

// A model that says the tokens in the first row, -1 for logits that are no numbers, whatever it is asked.
// Arguments: prompt, new tokens, chunk, positions, token that ends, stop strings. Prints the calls, the text,
// how it ended.
int go_on(const Tokenizer& tokenizer, int count, char** args) {
  std::string row;
  std::vector<int32_t> script;
  read_row(&row);
  for (char* at = std::strtok(row.data(), " "); at; at = std::strtok(nullptr, " "))
    script.push_back(std::atoi(at));
  size_t next = 0;
  const auto answer = [&](std::vector<float>* logits) {
    logits->assign(static_cast<size_t>(tokenizer.size()), 0.0f);
    if (next == script.size()) return fail(kDeviceFailed, "[decode] the script is at its end.");
    const int32_t id = script[next++];
    (*logits)[static_cast<size_t>(id < 0 ? 7 : id)] = id < 0 ? std::strtof("nan", nullptr) : 1.0f;
    return kOk;
  };
  TextModel model;
  int64_t read = 0;
  model.prefill = [&](const int32_t*, int64_t n, int64_t position, std::vector<float>* logits) {
    std::printf("prefill %lld at %lld\n", static_cast<long long>(n), static_cast<long long>(position));
    next = 0;
    read = position + n;
    return answer(logits);
  };
  model.decode = [&](int32_t id, int64_t position, std::vector<float>* logits) {
    if (position != read++ || position >= model.length) std::printf("at the wrong position\n");
    if (id != script[next - 1]) std::printf("the wrong token\n");
    return answer(logits);
  };
  model.chunk = std::atoll(args[2]);
  model.length = std::atoll(args[3]);
  model.ends = {static_cast<int32_t>(std::atoi(args[4]))};
  Request request;
  request.prompt = from_hex(args[0]);
  request.tokens = std::atoll(args[1]);
  for (int i = 5; i < count; ++i) request.stops.push_back(from_hex(args[i]));
  Outcome outcome;
  std::string text;
  const auto write = [&](std::string_view more) { return text += more, kOk; };
  const Status status = generate(model, tokenizer, request, write, [] { return false; }, &outcome);
  print_hex(text);
  std::printf("\n%lld %lld %d %s\n", static_cast<long long>(outcome.prompt_tokens),
              static_cast<long long>(outcome.new_tokens), static_cast<int>(outcome.why),
              status ? last_error() : "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argv[1];
  if (command == "stop") return stop(argc - 2, argv + 2);
  if (command == "sample") return sample(argv + 2, std::atoll(argv[8]));
  if (command == "philox") {
    uint32_t given[6], out[4];
    for (int i = 0; i < 6; ++i) given[i] = static_cast<uint32_t>(std::strtoul(argv[2 + i], nullptr, 16));
    philox(given, given + 4, out);
    return std::printf("%08x %08x %08x %08x\n", out[0], out[1], out[2], out[3]), 0;
  }
  Tokenizer tokenizer;
  if (tokenizer.open("test", argv[2])) return std::printf("refused: %s\n", last_error()), 0;
  return command == "encode" ? encode(tokenizer) : go_on(tokenizer, argc - 3, argv + 3);
}
