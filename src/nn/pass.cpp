// Pass and the delivery of weight gradients.
// SPDX-License-Identifier: Apache-2.0
#include "nn/pass.hpp"

#include "kernels/elementwise.hpp"

namespace trireme::nn {

void DeferredGradients::run(Stream& stream, WeightAccess& weights) {
  int open = -1;
  for (const Work& work : works_) {
    if (work.module != open) {
      if (open >= 0) weights.close_gradients(open);
      open = work.module;
      weights.open_gradients(open);
    }
    work.add(stream);
    weights.ready(*work.param);
  }
  if (open >= 0) weights.close_gradients(open);
  works_.clear();
}

void WeightGradients::open(int module) {
  module_ = module;
  if (later_ == nullptr) weights_.open_gradients(module);
}

void WeightGradients::close() {
  if (later_ == nullptr) weights_.close_gradients(module_);
  module_ = -1;
}

TensorView Pass::fused_target(Param& param, DType dtype) {
  if (!param.frozen && !weight_gradients.deferred()) {
    contribute(stream, param, [](Stream&) {});
    return param.gradient;
  }
  const TensorView target = kept().take(dtype, param.shape, "fused gradient");
  kernels::fill(stream, target, 0.0);
  return target;
}

void Pass::add_fused(Param& param, const TensorView& target) {
  const bool apart = weight_gradients.deferred();
  weight_gradients.post(stream, param, [&param, target, apart](Stream& on) {
    if (apart) kernels::accumulate(on, target, param.gradient);
  });
}

}  // namespace trireme::nn
