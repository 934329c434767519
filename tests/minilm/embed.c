/* Embeddings of the numbers in a file, by the emitted header alone.
 *
 *   embed INPUT OUTPUT BATCH SEQUENCE THREADS
 *
 * INPUT holds the ids, then the mask, as int64; OUTPUT gets the embeddings as float. */
#include <minilm.h>
#include <stdio.h>
#include <stdlib.h>

static minilm_tensor tensor(void *data, uint8_t code, uint8_t bits, int64_t *shape) {
  minilm_tensor t = {0};
  t.data = data;
  t.device_type = 1;
  t.ndim = 2;
  t.code = code;
  t.bits = bits;
  t.lanes = 1;
  t.shape = shape;
  return t;
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, minilm_last_error());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  minilm_embed_dims dims;
  dims.batch = atoll(argv[3]);
  dims.sequence = atoll(argv[4]);
  const size_t count = (size_t)(dims.batch * dims.sequence);
  int64_t in_shape[2] = {dims.batch, dims.sequence}, out_shape[2];
  if (minilm_abi() != MINILM_ABI || minilm_embed_shape(&dims, out_shape) != MINILM_OK) return failed("shape");
  const size_t results = (size_t)(out_shape[0] * out_shape[1]);
  int64_t *ids = malloc(2 * count * sizeof *ids);
  float *embedding = malloc(results * sizeof *embedding);
  FILE *file = fopen(argv[1], "rb");
  if (!ids || !embedding || !file || fread(ids, sizeof *ids, 2 * count, file) != 2 * count) return 2;
  fclose(file);

  minilm_model_options model_options = {0};
  model_options.struct_size = sizeof model_options;
  model_options.weights_path = WEIGHTS;
  minilm_model *model = NULL;
  if (minilm_model_open(&model_options, &model) != MINILM_OK) return failed("model");
  minilm_context_options context_options = {0};
  context_options.struct_size = sizeof context_options;
  context_options.threads = atoi(argv[5]);
  minilm_context *context = NULL;
  if (minilm_context_open(model, &context_options, &context) != MINILM_OK) return failed("context");
  minilm_model_close(model); /* the context keeps it */

  const minilm_tensor input_ids = tensor(ids, 0, 64, in_shape);
  const minilm_tensor attention_mask = tensor(ids + count, 0, 64, in_shape);
  const minilm_tensor output = tensor(embedding, 2, 32, out_shape);
  if (minilm_embed(context, &input_ids, &attention_mask, &output) != MINILM_OK) return failed("embed");
  minilm_context_close(context);

  file = fopen(argv[2], "wb");
  if (!file || fwrite(embedding, sizeof *embedding, results, file) != results || fclose(file) != 0) return 2;
  free(ids);
  free(embedding);
  return 0;
}
