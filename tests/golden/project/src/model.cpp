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

#ifdef LUMIGEN_HAS_BASELINE
namespace isa_baseline {
extern const KernelTable kernel_table;
}
#endif
#ifdef LUMIGEN_HAS_AVX2
namespace isa_avx2 {
extern const KernelTable kernel_table;
}
#endif
#ifdef LUMIGEN_HAS_AVX512
namespace isa_avx512 {
extern const KernelTable kernel_table;
}
#endif

const KernelTable* kernels_for(Isa isa) {
  switch (isa) {
#ifdef LUMIGEN_HAS_BASELINE
    case kBaseline:
      return &isa_baseline::kernel_table;
#endif
#ifdef LUMIGEN_HAS_AVX2
    case kAvx2:
      return &isa_avx2::kernel_table;
#endif
#ifdef LUMIGEN_HAS_AVX512
    case kAvx512:
      return &isa_avx512::kernel_table;
#endif
    default:
      return nullptr;
  }
}

namespace {

// A bit for each instruction set above; constant, so that a model can be opened before main.
constexpr uint32_t compiled = 0
#ifdef LUMIGEN_HAS_BASELINE
                              | 1u << kBaseline
#endif
#ifdef LUMIGEN_HAS_AVX2
                              | 1u << kAvx2
#endif
#ifdef LUMIGEN_HAS_AVX512
                              | 1u << kAvx512
#endif
    ;

}  // namespace

const ModelTable model_table = {
    "TINY_ISA",
    compiled,
    weight_table,
    weight_count,
    80,  // of scratch for each thread
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
