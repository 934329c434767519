// tiny: its table of weights and the functions of the C header that belong to no entry.
#include "src/tables.h"

namespace LUMIGEN_NS {

namespace {

const int64_t scale_shape[] = {7};
const int64_t shift_shape[] = {7};
const int64_t proj_weight_shape[] = {20, 7};
const Panels proj_weight_panels = {20, 7, 7, 1, 16, 0, 1};
const int64_t table_shape[] = {10, 7};

const WeightSpec weight_table[] = {
    {"scale", "f32[7]", "F32", 4, 1, scale_shape, nullptr, "scale", "", 28},
    {"shift", "f32[7]", "F32", 4, 1, shift_shape, nullptr, "shift", "", 28},
    {"proj.weight", "f32[20, 7]", "F32", 4, 2, proj_weight_shape, &proj_weight_panels, "proj.weight", "f32[20, 7] panels n=20 k=7 n_stride=7 k_stride=1 width=16", 896},
    {"table", "f32[10, 7]", "F32", 4, 2, table_shape, nullptr, "table", "", 280},
};

}  // namespace

namespace {

const KernelRow* const kernels[] = {
    &k00_affine_7_row,
    &k01_project_20x7_row,
    &k02_sum_20_row,
    &k03_rows_10x7_row,
};

}  // namespace

const ModelTable model_table = {
    LUMIGEN_ARCHITECTURES,
    kernels,
    4,  // kernels
    weight_table,
    weight_count,
    nullptr,  // no weights are embedded
    nullptr,
};

static_assert(sizeof(ModelOptions) == sizeof(tiny_model_options), "the two describe one struct");
static_assert(sizeof(ContextOptions) == sizeof(tiny_context_options), "the two describe one struct");
static_assert(static_cast<int32_t>(kInternal) == static_cast<int32_t>(TINY_INTERNAL), "the two enums agree");

}  // namespace LUMIGEN_NS

using namespace LUMIGEN_NS;

extern "C" int32_t tiny_abi(void) { return TINY_ABI; }

extern "C" const char* tiny_last_error(void) { return last_error(); }

extern "C" tiny_status tiny_model_open(const tiny_model_options* options, tiny_model** out) {
  if (out == nullptr) return fail(kBadArgument, "[model_open] the result pointer is NULL. Pass the address of a handle.");
  *out = nullptr;
  ModelOptions ours = {};
  if (const Status s = read_options(&ours, sizeof ours, options, "model_open")) return s;
  Model* model = nullptr;
  if (const Status s = open_model(&model, model_table, ours)) return s;
  *out = reinterpret_cast<tiny_model*>(model);
  return kOk;
}

extern "C" void tiny_model_close(tiny_model* model) { close_model(reinterpret_cast<Model*>(model)); }

extern "C" tiny_status tiny_context_open(tiny_model* model, const tiny_context_options* options,
    tiny_context** out) {
  if (out == nullptr) return fail(kBadArgument, "[context_open] the result pointer is NULL. Pass the address of a handle.");
  *out = nullptr;
  if (model == nullptr) return fail(kBadArgument, "[context_open] the model is NULL. Open one.");
  ContextOptions ours = {};
  if (const Status s = read_options(&ours, sizeof ours, options, "context_open")) return s;
  Context* context = nullptr;
  if (const Status s = open_context(&context, reinterpret_cast<Model*>(model), ours)) return s;
  *out = reinterpret_cast<tiny_context*>(context);
  return kOk;
}

extern "C" void tiny_context_close(tiny_context* context) {
  close_context(reinterpret_cast<Context*>(context));
}

extern "C" tiny_status tiny_context_cancel(tiny_context* context) {
  return cancel(reinterpret_cast<Context*>(context));
}

extern "C" tiny_status tiny_context_profile(tiny_context* context,
    void (*report)(void* user, const char* kernel, int32_t launch, double seconds), void* user) {
  return profile(reinterpret_cast<Context*>(context), {report, user});
}

extern "C" tiny_status tiny_weights_verify(const char* path) {
  if (path == nullptr) return fail(kBadArgument, "[weights_verify] the path is NULL. Pass a file's path.");
  return verify_weights(path, model_table.weights, model_table.weight_count);
}
