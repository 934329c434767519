// forward(x: f32[batch, 7]) -> y: f32[batch, 20], total: f32[batch]; batch 1..64
#include "runtime/index.h"
#include "runtime/size.h"
#include "src/tables.h"

namespace LUMIGEN_NS {

namespace {

using Dims = tiny_forward_dims;

const Dim k_batch_dim = {"batch", 1, 64, 1};
const Port k_x_port = {"forward", "x", 2, 32, 2, "(batch, 7)"};
const Port k_y_port = {"forward", "y", 2, 32, 2, "(batch, 20)"};
const Port k_total_port = {"forward", "total", 2, 32, 1, "(batch,)"};

// Where each temporary lies in the arena, in bytes.
struct Arena {
  Size unused;
  Size h;
  Size bytes;  // of all of it
};

// Dims may be declared so generously that no int64_t holds the bytes: then `bytes` does not fit.
Arena place([[maybe_unused]] const Dims& dims) {
  Arena arena;
  arena.unused = 0;
  const Size unused_end = arena.unused + align64(100);
  arena.h = unused_end;
  arena.bytes = index_max(arena.bytes, arena.h + align64(28 * Size(dims.batch)));
  return arena;
}

Status check_arena(const Arena& arena, const Dims& dims) {
  if (arena.bytes.fits) return kOk;
  return fail(kNoMemory, "[forward] the workspace for batch=%lld is larger than any memory. Pass smaller dims.", static_cast<long long>(dims.batch));
}

Status check_dims([[maybe_unused]] const Dims* dims) {
  if (dims == nullptr) return fail(kBadArgument, "[forward] the dims are NULL, must be set. Pass their struct.");
  if (const Status s = check_dim_value("forward", k_batch_dim, dims->batch)) return s;
  return kOk;
}

// Takes the dims from the inputs, and checks that all that was passed agrees with them.
Status check(Dims& dims, const Tensor* x, const Tensor* y, const Tensor* total) {
  dims = {};
  if (const Status s = check_tensor(x, k_x_port)) return s;
  dims.batch = x->shape[0];
  if (const Status s = check_dim(*x, k_x_port, 0, k_batch_dim, dims.batch)) return s;
  if (const Status s = check_extent(*x, k_x_port, 1, 7, nullptr)) return s;
  if (const Status s = check_tensor(y, k_y_port)) return s;
  if (const Status s = check_extent(*y, k_y_port, 0, dims.batch, "batch")) return s;
  if (const Status s = check_extent(*y, k_y_port, 1, 20, nullptr)) return s;
  if (const Status s = check_tensor(total, k_total_port)) return s;
  if (const Status s = check_extent(*total, k_total_port, 0, dims.batch, "batch")) return s;
  if (const Status s = check_apart(*y, k_y_port, *x, k_x_port)) return s;
  if (const Status s = check_apart(*y, k_y_port, *total, k_total_port)) return s;
  if (const Status s = check_apart(*total, k_total_port, *x, k_x_port)) return s;
  return kOk;
}

Status run(Context* context, const Tensor* x, const Tensor* y, const Tensor* total) {
  Dims dims;
  if (const Status s = check(dims, x, y, total)) return s;
  Run call("forward");
  if (const Status s = call.claim(context)) return s;
  [[maybe_unused]] const Arena arena = place(dims);
  if (const Status s = check_arena(arena, dims)) return s;
  if (const Status s = call.reserve(arena.bytes.value)) return s;
  // What the caller has in the host's memory gets a place in the device's.
  Tensor copies[] = {*x, *y, *total};
  const Port* const ports[] = {&k_x_port, &k_y_port, &k_total_port};
  if (const Status s = call.begin(&dims, sizeof dims, copies, ports, 1, 3)) return s;
  x = &copies[0];
  y = &copies[1];
  total = &copies[2];
  [[maybe_unused]] const Weights& weights = call.model().weights;

  // h = x * scale + shift
  // model.py:12
  {
    k00_affine_7_args args;
    args.x = data_of<const float>(*x);
    args.scale = weights.get<float>(k_scale);
    args.shift = weights.get<float>(k_shift);
    args.h = call.slot<float>(arena.h.value);
    args.batch = dims.batch;
    if (const Status s = call.launch({0, "k00_affine_7"}, k00_affine_7_row, &args, dims.batch)) return s;
  }

  // y = h @ weight.T
  // model.py:13 (proj)
  {
    k01_project_20x7_args args;
    args.h = call.slot<float>(arena.h.value);
    args.w = weights.get<float>(k_proj_weight);
    args.y = data_of<float>(*y);
    if (const Status s = call.launch({1, "k01_project_20x7"}, k01_project_20x7_row, &args, dims.batch)) return s;
  }

  // total = y.sum(-1)
  // model.py:14
  {
    k02_sum_20_args args;
    args.y = data_of<float>(*y);
    args.total = data_of<float>(*total);
    if (const Status s = call.launch({2, "k02_sum_20"}, k02_sum_20_row, &args, dims.batch)) return s;
  }

  return call.finish();
}

}  // namespace

}  // namespace LUMIGEN_NS

using namespace LUMIGEN_NS;

extern "C" tiny_status tiny_forward(tiny_context* context,
    const tiny_tensor* x,
    const tiny_tensor* y,
    const tiny_tensor* total) {
  Tensor copies[3];
  return run(reinterpret_cast<Context*>(context), borrow(&copies[0], x), borrow(&copies[1], y), borrow(&copies[2], total));
}

extern "C" tiny_status tiny_forward_workspace(const tiny_model* model,
    const tiny_forward_dims* dims, size_t* bytes) {
  if (model == nullptr || bytes == nullptr)
    return fail(kBadArgument, "[forward_workspace] the model or the result pointer is NULL. Pass both.");
  const Dims most = {64};
  if (dims == nullptr) dims = &most;
  if (const Status s = check_dims(dims)) return s;
  const Arena arena = place(*dims);
  if (const Status s = check_arena(arena, *dims)) return s;
  *bytes = static_cast<size_t>(arena.bytes.value);
  return kOk;
}

extern "C" tiny_status tiny_forward_shape(const tiny_forward_dims* dims,
    int64_t* y,
    int64_t* total) {
  if (const Status s = check_dims(dims)) return s;
  if (y == nullptr) return fail(kBadArgument, "[forward_shape] the array for y is NULL. Pass one.");
  y[0] = dims->batch;
  y[1] = 20;
  if (total == nullptr) return fail(kBadArgument, "[forward_shape] the array for total is NULL. Pass one.");
  total[0] = dims->batch;
  return kOk;
}
