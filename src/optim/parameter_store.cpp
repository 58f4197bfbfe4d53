// ParameterStore: layout, initial weights, updates and boxes.
// SPDX-License-Identifier: Apache-2.0
#include "optim/parameter_store.hpp"

#include <cmath>

#include "base/philox.hpp"
#include "base/split.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/random.hpp"

namespace trireme::optim {
namespace {

// Params start on multiples of 64 bytes of the smallest dtype in use.
constexpr std::int64_t alignment_elements = 32;

}  // namespace

ParameterStore::ParameterStore(std::vector<Param*> params, const StoreConfig& config,
                               comm::Mesh& mesh, Device device)
    : params_(std::move(params)), config_(config), mesh_(mesh), stream_(device) {
  lay_out();
  allocate(device);
  if (!config_.training) return;
  cut_buckets();
  find_partial_tensors();
}

void ParameterStore::lay_out() {
  entries_.resize(params_.size());
  for (std::size_t i = 0; i < params_.size(); ++i) {
    index_[params_[i]] = i;
    entries_[i].begin = elements_;
    entries_[i].elements = params_[i]->shape.elements();
    elements_ += divide_up(entries_[i].elements, alignment_elements) * alignment_elements;
  }
}

void ParameterStore::allocate(Device device) {
  const auto flat = [&](DType dtype, MemoryClass use, const char* label) {
    return Buffer(device, dtype, {elements_}, use, label);
  };
  weights_ = flat(config_.compute, MemoryClass::weights, "weights");
  if (config_.training) {
    gradients_ = flat(config_.accumulate, MemoryClass::gradients, "gradients");
    if (config_.compute != config_.accumulate) {
      master_ = flat(config_.accumulate, MemoryClass::optimizer, "master weights");
    }
    moment1_ = flat(config_.accumulate, MemoryClass::optimizer, "first moments");
    if (config_.optimizer == OptimizerKind::adamw) {
      moment2_ = flat(config_.accumulate, MemoryClass::optimizer, "second moments");
    }
  }
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Entry& e = entries_[i];
    params_[i]->value =
        weights_.view().rows(e.begin, e.elements).reshape(params_[i]->shape);
    if (!config_.training) continue;
    params_[i]->gradient =
        gradients_.view().rows(e.begin, e.elements).reshape(params_[i]->shape);
  }
}

TensorView ParameterStore::box(const TensorView& flat, const Param& param,
                               const Slab& slab) const {
  const Entry& e = entries_[index_of(param)];
  TensorView view = flat.rows(e.begin, e.elements).reshape(param.shape);
  view = view.rows(slab.local_begin[0], slab.extent[0]);
  if (param.shape.rank() == 2) view = view.columns(slab.local_begin[1], slab.extent[1]);
  return view;
}

std::size_t ParameterStore::index_of(const Param& param) const {
  const auto found = index_.find(&param);
  require(found != index_.end(), "'{}' is not in this store", param.name);
  return found->second;
}

void ParameterStore::initialize(std::uint64_t seed) {
  const TensorView flat = master();
  for (const Param* param : params_) {
    for (const Slab& slab : param->slabs) {
      const TensorView x = box(flat, *param, slab);
      switch (param->initializer.kind) {
        case Initializer::Kind::zeros: kernels::fill(stream_, x, 0.0); break;
        case Initializer::Kind::ones: kernels::fill(stream_, x, 1.0); break;
        case Initializer::Kind::normal:
          kernels::fill_normal(stream_, x, slab.whole, slab.global_begin, seed,
                               hash_name(slab.tensor),
                               param->initializer.standard_deviation);
      }
    }
  }
  refresh_weights();
}

void ParameterStore::refresh_weights() {
  if (!master_.view().empty()) kernels::copy(stream_, master_.view(), weights_.view());
}

void ParameterStore::update(const OptimizerConfig& config, double learning_rate,
                            double gradient_scale, std::int64_t step) {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Entry& e = entries_[i];
    const auto part = [&](const Buffer& buffer) {
      return buffer.view().empty() ? TensorView()
                                   : buffer.view().rows(e.begin, e.elements);
    };
    const TensorView weight = master_.view().empty() ? TensorView() : part(weights_);
    const TensorView main = master_.view().empty() ? part(weights_) : part(master_);
    const double decay = params_[i]->decay ? config.weight_decay : 0.0;
    if (config.kind == OptimizerKind::adamw) {
      const kernels::AdamW rule{learning_rate, config.beta1, config.beta2,  config.eps,
                                decay,         step,         gradient_scale};
      kernels::adamw(stream_, rule, main, part(gradients_), part(moment1_),
                     part(moment2_), weight);
    } else {
      const kernels::Sgd rule{learning_rate, config.beta1, decay, gradient_scale};
      kernels::sgd(stream_, rule, main, part(gradients_), part(moment1_), weight);
    }
  }
}

void ParameterStore::clear_gradients() { kernels::fill(stream_, gradients_.view(), 0.0); }

void ParameterStore::append_boxes(const char* section, const TensorView& flat,
                                  std::vector<StoredBox>& boxes) const {
  // Writing is shared out over the ranks that hold the same weights, box by box.
  const auto& replicas = mesh_.replicas();
  std::int64_t owned = 0;
  for (const Param* param : params_) {
    for (const Slab& slab : param->slabs) {
      const bool mine = slab.owned && owned % replicas.size() == replicas.rank();
      if (slab.owned) ++owned;
      boxes.push_back({&slab, section, box(flat, *param, slab), mine});
    }
  }
}

std::vector<StoredBox> ParameterStore::state_boxes() const {
  std::vector<StoredBox> boxes;
  append_boxes("model", master(), boxes);
  if (!moment1_.view().empty()) append_boxes("optimizer/moment1", moment1_.view(), boxes);
  if (!moment2_.view().empty()) append_boxes("optimizer/moment2", moment2_.view(), boxes);
  return boxes;
}

std::vector<StoredBox> ParameterStore::gradient_boxes() const {
  std::vector<StoredBox> boxes;
  append_boxes("gradient", gradients_.view(), boxes);
  return boxes;
}

std::int64_t ParameterStore::local_elements() const {
  std::int64_t sum = 0;
  for (const Entry& e : entries_) sum += e.elements;
  return sum;
}

}  // namespace trireme::optim
