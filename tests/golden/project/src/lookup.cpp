// lookup(ids: i64[n + 1]) -> rows: f32[n + 1, 7]; n 2..1000, a multiple of 2
#include "runtime/index.h"
#include "runtime/size.h"
#include "src/tables.h"

namespace LUMIGEN_NS {

namespace {

using Dims = tiny_lookup_dims;

const Dim k_n_dim = {"n", 2, 1000, 2};
const Port k_ids_port = {"lookup", "ids", 0, 64, 1, "(n + 1,)"};
const Port k_rows_port = {"lookup", "rows", 2, 32, 2, "(n + 1, 7)"};

// Where each temporary lies in the arena, in bytes.
struct Arena {
  Size bytes;  // of all of it
};

// Dims may be declared so generously that no int64_t holds the bytes: then `bytes` does not fit.
Arena place([[maybe_unused]] const Dims& dims) {
  Arena arena;
  return arena;
}

Status check_dims([[maybe_unused]] const Dims* dims) {
  if (dims == nullptr) return fail(kBadArgument, "[lookup] the dims are NULL, must be set. Pass their struct.");
  if (const Status s = check_dim_value("lookup", k_n_dim, dims->n)) return s;
  return kOk;
}

// Takes the dims from the inputs, and checks that all that was passed agrees with them.
Status check(Dims& dims, const Tensor* ids, const Tensor* rows) {
  dims = {};
  if (const Status s = check_tensor(ids, k_ids_port)) return s;
  if (const Status s = solve_dim(&dims.n, *ids, k_ids_port, 0, 1, 1, "n + 1")) return s;
  if (const Status s = check_dim(*ids, k_ids_port, 0, k_n_dim, dims.n)) return s;
  if (const Status s = check_tensor(rows, k_rows_port)) return s;
  if (const Status s = check_extent(*rows, k_rows_port, 0, dims.n + 1, "n + 1")) return s;
  if (const Status s = check_extent(*rows, k_rows_port, 1, 7, nullptr)) return s;
  if (const Status s = check_apart(*rows, k_rows_port, *ids, k_ids_port)) return s;
  if (const Status s = check_values(*ids, k_ids_port, 0, 9)) return s;
  return kOk;
}

Status run(Context* context, const Tensor* ids, const Tensor* rows) {
  Dims dims;
  if (const Status s = check(dims, ids, rows)) return s;
  Run call("lookup");
  if (const Status s = call.claim(context)) return s;
  [[maybe_unused]] const Arena arena = place(dims);
  if (const Status s = call.reserve(arena.bytes.value)) return s;
  [[maybe_unused]] const Weights& weights = call.model().weights;
  [[maybe_unused]] const KernelTable& kernels = *kernels_for(call.model().isa);

  // rows = table[ids]
  // model.py:21
  {
    k03_rows_10x7_args args;
    args.ids = data_of<const int64_t>(*ids);
    args.table = weights.get<float>(k_table);
    args.rows = data_of<float>(*rows);
    if (const Status s = call.launch({0, "k03_rows_10x7"}, kernels.k03_rows_10x7, &args, dims.n + 1)) return s;
  }
  return kOk;
}

}  // namespace

}  // namespace LUMIGEN_NS

using namespace LUMIGEN_NS;

extern "C" tiny_status tiny_lookup(tiny_context* context,
    const tiny_tensor* ids,
    const tiny_tensor* rows) {
  Tensor copies[2];
  return run(reinterpret_cast<Context*>(context), borrow(&copies[0], ids), borrow(&copies[1], rows));
}

extern "C" tiny_status tiny_lookup_workspace(const tiny_model* model,
    const tiny_lookup_dims* dims, size_t* bytes) {
  if (model == nullptr || bytes == nullptr)
    return fail(kBadArgument, "[lookup_workspace] the model or the result pointer is NULL. Pass both.");
  const Dims most = {1000};
  if (dims == nullptr) dims = &most;
  if (const Status s = check_dims(dims)) return s;
  const Arena arena = place(*dims);
  *bytes = static_cast<size_t>(arena.bytes.value);
  return kOk;
}

extern "C" tiny_status tiny_lookup_shape(const tiny_lookup_dims* dims,
    int64_t* rows) {
  if (const Status s = check_dims(dims)) return s;
  if (rows == nullptr) return fail(kBadArgument, "[lookup_shape] the array for rows is NULL. Pass one.");
  rows[0] = dims->n + 1;
  rows[1] = 7;
  return kOk;
}
