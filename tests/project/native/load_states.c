/* Opens the model `cached` and loads each of the files that it is given into one context: the status and the error. */
#include <stdio.h>

#include "cached.h"

int main(int argc, char **argv) {
  cached_model_options options = {0};
  cached_context_options settings = {0};
  cached_model *model;
  cached_context *context;
  int i;

  options.struct_size = sizeof options;
  settings.struct_size = sizeof settings;
  settings.threads = 1;
  if (cached_model_open(&options, &model) != CACHED_OK) return 1;
  if (cached_context_open(model, &settings, &context) != CACHED_OK) return 1;
  for (i = 1; i < argc; ++i) {
    cached_status status = cached_state_load(context, argv[i]);
    printf("%d %s\n", (int)status, status == CACHED_OK ? "" : cached_last_error());
  }
  cached_context_close(context);
  cached_model_close(model);
  return 0;
}
