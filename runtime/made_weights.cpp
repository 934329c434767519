#include "handle.h"
#include "model.h"

namespace LUMIGEN_NS {

Status make_weights(Model* model, const WeightTable& table) {
  if (model->table->make_weights == nullptr) return kOk;
  Context* context = nullptr;
  if (const Status s = open_context(&context, model, {})) return s;
  const Status made = model->table->make_weights(context);
  close_context(context);
  return made ? made : model->weights.pack_made("model_open", table);
}

}  // namespace LUMIGEN_NS
