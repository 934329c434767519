// The program around a model that continues texts: `NAME generate --prompt ...`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "generate.h"

namespace LUMIGEN_NS {

struct Settings {
  std::string weights;    // a path; empty: those in the program
  int32_t threads = 0;    // of a CPU; 0: all cores
  int32_t device_id = 0;  // which GPU
};

struct Program {
  const char* name;
  const char* version;
  bool has_device;      // a GPU
  bool needs_weights;   // in a file: they are not in the program
  int32_t vocabulary;   // the tokens that it was made for
  const char* weights;  // how many, of which types, in how many bits and bytes
  const char* states;   // what a context keeps from one token to the next: bytes
  std::function<Status(const Settings&, TextModel*)> open;
};

// All of the program. Text goes to standard output, all else to standard error. Returns the exit code: 0
// fine, 1 a file or value that cannot be, 2 a command line that does not parse, 130 interrupted.
int run_program(const Program& program, int argc, char** argv);

}  // namespace LUMIGEN_NS
