#include "command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace LUMIGEN_NS {

namespace {

constexpr int kFine = 0, kMistake = 1, kNotParsed = 2, kInterrupted = 130;

const char kUsage[] =
    R"(Usage: %s generate --prompt TEXT [OPTIONS]

Writes what follows the prompt to standard output, as it comes, and a newline at the end; how fast it went to standard
error. It ends with the model's token for the end of a text, after --tokens, at a stop string, or when the model's
cache is full, which it says.

)";
const char kBehindFlags[] =
    R"(  --help, --version

Filters apply in the order penalty, temperature, top-k, top-p, min-p.
Exit codes: 0 fine, 1 a file or value that cannot be, 2 a command line that does not parse, 130 interrupted.

Example: %s generate --prompt "Once upon a time" --tokens 100 --temperature 0.8 --top-p 0.95 --seed 1
)";

struct Options {
  Request request;
  Settings settings;
  std::string tokenizer, prompt_file;
  bool has_prompt = false, wants_help = false, wants_version = false;
};

// What is wrong with a command line; empty: nothing.
using Complaint = std::string;

template <class Number>
Complaint in_range(const std::string& flag, const std::string& text, Number value, Number least, Number most,
                   Number* out) {
  if (!(value >= least && value <= most)) return flag + " cannot be " + text;
  *out = value;
  return "";
}

Complaint read_integer(const std::string& flag, const std::string& text, int64_t most, int64_t* out) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0) return flag + " takes a whole number, not '" + text + "'";
  return in_range<int64_t>(flag, text, value, 0, most, out);
}

Complaint read_number(const std::string& flag, const std::string& text, double least, double most,
                      double* out) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return flag + " takes a number, not '" + text + "'";
  return in_range<double>(flag, text, value, least, most, out);
}

Complaint read_small(const std::string& flag, const std::string& text, int32_t* out) {
  int64_t value = 0;
  const Complaint wrong = read_integer(flag, text, 65536, &value);
  *out = static_cast<int32_t>(value);
  return wrong;
}

Complaint read_seed(const std::string& flag, const std::string& text, uint64_t* out) {
  char* end = nullptr;
  errno = 0;
  *out = std::strtoull(text.c_str(), &end, 10);
  const bool is_number = !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
  return is_number ? "" : flag + " takes a whole number from 0 to 2^64 - 1, not '" + text + "'";
}

Complaint read_file(const std::string& flag, const std::string& text, std::string* out) {
  *out = text;
  return text.empty() ? flag + " takes a file" : "";
}

Complaint only_prompt(Options* out) {
  if (out->has_prompt) return "there are two prompts";
  out->has_prompt = true;
  return "";
}

// A flag that takes a value: how the help shows it, and what reads it, whose range is the one that the help
// names.
using Text = const std::string&;
struct Flag {
  enum class On { kAny, kCpu, kGpu };
  const char *name, *value, *about;
  Complaint (*read)(Text flag, Text text, Options* out);
  On on = On::kAny;

  bool is_of(const Program& program) const {
    return on == On::kAny || (on == On::kGpu) == program.has_device;
  }

  std::string usage() const { return std::string(name) + " " + value; }
};

constexpr double kLarge = 1e30, kSmall = 1e-30;
const Flag kFlags[] = {
    {"--prompt", "TEXT", "what to continue; special tokens in it are found",
     [](Text, Text text, Options* out) {
       out->request.prompt = text;
       return only_prompt(out);
     }},
    {"--prompt-file", "FILE", "the same from a file; - is standard input",
     [](Text flag, Text text, Options* out) {
       const Complaint wrong = only_prompt(out);
       return wrong.empty() ? read_file(flag, text, &out->prompt_file) : wrong;
     }},
    {"--tokens", "N", "new tokens at most, 0 or more (200)",
     [](Text flag, Text text, Options* out) {
       return read_integer(flag, text, INT64_MAX / 2, &out->request.tokens);
     }},
    {"--temperature", "T", "0 or more; 0: always the likeliest token (0)",
     [](Text flag, Text text, Options* out) {
       return read_number(flag, text, 0, kLarge, &out->request.sampling.temperature);
     }},
    {"--top-k", "N", "of the likeliest N alone, 0 or more; 0: of all (0)",
     [](Text flag, Text text, Options* out) {
       return read_integer(flag, text, INT64_MAX, &out->request.sampling.top_k);
     }},
    {"--top-p", "P", "of the fewest that have the share P together, above 0 and to 1 (1)",
     [](Text flag, Text text, Options* out) {
       return read_number(flag, text, kSmall, 1, &out->request.sampling.top_p);
     }},
    {"--min-p", "P", "of those that are P times as likely as the likeliest, 0 to 1 (0)",
     [](Text flag, Text text, Options* out) {
       return read_number(flag, text, 0, 1, &out->request.sampling.min_p);
     }},
    {"--repetition-penalty", "R",
     "above 0; divides logits of tokens in the text, multiplies negative ones (1)",
     [](Text flag, Text text, Options* out) {
       return read_number(flag, text, kSmall, kLarge, &out->request.sampling.repetition_penalty);
     }},
    {"--seed", "N", "0 to 2^64 - 1; of the draws, of which temperature 0 has none: one seed, one text (0)",
     [](Text flag, Text text, Options* out) { return read_seed(flag, text, &out->request.sampling.seed); }},
    {"--stop", "TEXT", "ends before this text; may be given several times",
     [](Text flag, Text text, Options* out) {
       out->request.stops.push_back(text);
       return text.empty() ? flag + " takes a text, not an empty one" : Complaint();
     }},
    {"--device", "N", "which GPU, 0 to 65536 (0)",
     [](Text flag, Text text, Options* out) { return read_small(flag, text, &out->settings.device_id); },
     Flag::On::kGpu},
    {"--threads", "N", "0 to 65536; 0: all cores (0)",
     [](Text flag, Text text, Options* out) { return read_small(flag, text, &out->settings.threads); },
     Flag::On::kCpu},
    {"--weights", "FILE", "weights (those beside the program)",
     [](Text flag, Text text, Options* out) { return read_file(flag, text, &out->settings.weights); }},
    {"--tokenizer", "FILE", "tokenizer (the one beside the program)",
     [](Text flag, Text text, Options* out) { return read_file(flag, text, &out->tokenizer); }},
};

const Flag* find_flag(const Program& program, const std::string& name) {
  for (const Flag& flag : kFlags)
    if (name == flag.name && flag.is_of(program)) return &flag;
  return nullptr;
}

void print_help(const Program& program) {
  std::printf(kUsage, program.name);
  for (const Flag& flag : kFlags)
    if (flag.is_of(program)) std::printf("  %-25s %s\n", flag.usage().c_str(), flag.about);
  std::printf(kBehindFlags, program.name);
}

Complaint parse(const Program& program, int argc, char** argv, Options* out) {
  out->request.tokens = 200;
  bool has_command = false;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      out->wants_help = true;
    } else if (flag == "--version") {
      out->wants_version = true;
    } else if (flag.compare(0, 2, "--") != 0) {
      if (has_command || flag != "generate")
        return "there is no command '" + flag + "'; a text stands behind --prompt";
      has_command = true;
    } else {
      const size_t equals = flag.find('=');
      const std::string name = flag.substr(0, equals);
      const Flag* const known = find_flag(program, name);
      if (known == nullptr) return "there is no " + name;
      if (equals == std::string::npos && i + 1 == argc) return flag + " lacks its value";
      const std::string value = equals == std::string::npos ? argv[++i] : flag.substr(equals + 1);
      const Complaint wrong = known->read(name, value, out);
      if (!wrong.empty()) return wrong + ". " + known->usage() + ": " + known->about;
    }
  }
  if (out->wants_help || out->wants_version) return "";
  if (!has_command) return "the command is missing: generate";
  return out->has_prompt ? "" : "--prompt or --prompt-file is missing";
}

// A file that belongs to the program: where `lumigen compile` or the installation leaves it, or a build.
std::string beside(const Program& program, const std::string& file) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return "";
  const std::string path(self, static_cast<size_t>(length));
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string name = program.name;
  for (const std::string& place :
       {std::string("weights/"), "share/" + name + "/", std::string("../../weights/")}) {
    const std::string found = folder + "/../" + place + file;
    if (access(found.c_str(), R_OK) == 0) return found;
  }
  return "";
}

constexpr size_t kMaxPrompt = size_t{1} << 26;  // bytes; a stream may have no end

Status read_prompt_file(const std::string& path, std::string* out) {
  const bool is_input = path == "-";
  std::FILE* file = is_input ? stdin : std::fopen(path.c_str(), "rb");
  char buffer[65536];
  size_t count = 0;
  while (file != nullptr && out->size() <= kMaxPrompt &&
         (count = std::fread(buffer, 1, sizeof buffer, file)) > 0)
    out->append(buffer, count);
  const bool is_read = file != nullptr && !std::ferror(file);
  const int why = errno;
  if (file != nullptr && !is_input) std::fclose(file);
  if (out->size() > kMaxPrompt)
    return fail(kBadArgument, "[generate] the prompt's file %s has more than %zu bytes. Pass a shorter one.",
                path.c_str(), kMaxPrompt);
  if (is_read) return kOk;
  return fail(kBadArgument, "[generate] the prompt's file %s cannot be read: %s. Name another file.",
              path.c_str(), std::strerror(why));
}

Status check_text(const char* what, const std::string& text) {
  const size_t at = first_ill_formed(text);
  if (at == text.size()) return kOk;
  return fail(kBadArgument, "[generate] %s is no UTF-8: its byte %zu is 0x%02x. Convert it to UTF-8.", what,
              at, static_cast<unsigned char>(text[at]));
}

Status write_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kOk;
  return fail(kInternal, "[generate] standard output cannot be written: %s. Make room, or write elsewhere.",
              std::strerror(errno));
}

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C ends the text behind the token that is being made; a second one ends the program.
void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

Status open(const Program& program, Options* options, TextModel* model, Tokenizer* tokenizer) {
  const std::string name = program.name;
  if (options->settings.weights.empty() && program.needs_weights)
    options->settings.weights = beside(program, name + ".safetensors");
  if (options->settings.weights.empty() && program.needs_weights)
    return fail(kBadArgument, "[generate] there are no weights beside this program. Pass --weights FILE.");
  if (options->tokenizer.empty()) options->tokenizer = beside(program, name + ".tokenizer");
  if (options->tokenizer.empty())
    return fail(kBadArgument, "[generate] there is no tokenizer beside this program. Pass --tokenizer FILE.");
  if (const Status status = tokenizer->open("generate", options->tokenizer.c_str())) return status;
  if (tokenizer->size() != program.vocabulary)
    return fail(kBadWeights,
                "[generate] %s has %d tokens, but the model was compiled for %d. Pass its own tokenizer.",
                options->tokenizer.c_str(), static_cast<int>(tokenizer->size()),
                static_cast<int>(program.vocabulary));
  return program.open(options->settings, model);
}

// A single token has no rate: of what is generated, the first is what the prompt gives.
void report_line(const char* what, int64_t tokens, double seconds, const char* why) {
  const bool is_short = seconds < 1;
  std::fprintf(stderr, "%s: %lld token%s in %.2f %s", what, static_cast<long long>(tokens),
               tokens == 1 ? "" : "s", is_short ? seconds * 1e3 : seconds, is_short ? "ms" : "s");
  if (tokens > 1)
    std::fprintf(stderr, ", %.0f tokens per second", static_cast<double>(tokens) / std::max(seconds, 1e-9));
  std::fprintf(stderr, "%s\n", why);
}

void report(const Program& program, const Outcome& outcome) {
  const char* why = "";
  if (outcome.why == Outcome::Why::kEnd) why = ", then the text ended";
  if (outcome.why == Outcome::Why::kStop) why = ", then came a stop string";
  if (outcome.why == Outcome::Why::kFull) why = ", then the model's cache was full";
  if (outcome.why == Outcome::Why::kCancelled) why = ", then it was interrupted";
  std::fprintf(stderr, "weights: %s\ncaches: %s\n", program.weights, program.states);
  report_line("prompt", outcome.prompt_tokens, outcome.prompt_seconds, "");
  report_line("generated", outcome.new_tokens, outcome.new_seconds, why);
}

Status run(const Program& program, Options* options, Outcome* outcome) {
  Request& request = options->request;
  if (!options->prompt_file.empty())
    if (const Status status = read_prompt_file(options->prompt_file, &request.prompt)) return status;
  if (const Status status = check_text("the prompt", request.prompt)) return status;
  for (const std::string& stop : request.stops)
    if (const Status status = check_text("a stop string", stop)) return status;
  TextModel model;
  Tokenizer tokenizer;
  if (const Status status = open(program, options, &model, &tokenizer)) return status;
  catch_interrupts();
  bool has_written = false;
  const auto write = [&](std::string_view text) {
    has_written = true;
    return write_text(text);
  };
  const Status status = generate(model, tokenizer, request, write, [] { return interrupted != 0; }, outcome);
  if (status != kOk && !has_written) return status;
  // an error keeps its text
  const Status ended =
      status == kOk ? write_text("\n") : (std::fputc('\n', stdout), std::fflush(stdout), kOk);
  return status != kOk ? status : ended;
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) try {
  Options options;
  const Complaint wrong = parse(program, argc, argv, &options);
  if (!wrong.empty()) {
    std::fprintf(stderr, "[%s] %s. See %s generate --help.\n", program.name, wrong.c_str(), program.name);
    return kNotParsed;
  }
  if (options.wants_help) {
    print_help(program);
    return kFine;
  }
  if (options.wants_version) {
    std::printf("%s %s\n", program.name, program.version);
    return kFine;
  }
  Outcome outcome;
  if (run(program, &options, &outcome) != kOk) {
    std::fprintf(stderr, "%s\n", last_error());
    return kMistake;
  }
  report(program, outcome);
  return outcome.why == Outcome::Why::kCancelled ? kInterrupted : kFine;
} catch (const std::bad_alloc&) {
  std::fputs("[generate] no memory. Free memory, or pass a shorter prompt.\n", stderr);
  return kMistake;
}

}  // namespace LUMIGEN_NS
