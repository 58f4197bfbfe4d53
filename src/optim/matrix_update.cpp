// MatrixUpdate: Muon. Source: Jordan et al., 2024; with PyTorch's constants.
// SPDX-License-Identifier: Apache-2.0
#include "optim/matrix_update.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "kernels/elementwise.hpp"
#include "kernels/optimizer.hpp"
#include "optim/learning_rate.hpp"

namespace trireme::optim {
namespace {

// Whole matrices that lie here at once, but for one.
constexpr std::int64_t most_bytes = std::int64_t{256} << 20;

// The place of a box in its whole matrix.
TensorView place_of(const TensorView& whole, const ParamBox& box) {
  return whole.rows(box.global_begin[0], box.extent[0])
      .columns(box.global_begin[1], box.extent[1]);
}

}  // namespace

MatrixUpdate::MatrixUpdate(const std::vector<FlatParameter>& flats, comm::Mesh& mesh,
                           Device device, DType state, DType products)
    : tensor_(&mesh.group(comm::Axis::tensor)) {
  find_matrices(flats);
  if (matrices_.empty()) return;
  std::int64_t side = 0, largest_box = 0;
  int ranks = 1;
  for (const Matrix& matrix : matrices_) {
    const Shape& whole = matrix.named->whole;
    largest_ = std::max(largest_, whole.elements());
    side = std::max(side, std::min(whole[0], whole[1]));
    ranks = std::max(ranks, ranks_of(*matrix.flat));
    for (const auto& part : matrix.boxes)
      largest_box = std::max(largest_box, part.box.extent.elements());
  }
  const std::int64_t bytes = largest_ * static_cast<std::int64_t>(size_of(state));
  const std::int64_t most = std::clamp<std::int64_t>(most_bytes / bytes, 1, ranks);
  round_ = std::min(static_cast<std::size_t>(most), matrices_.size());
  wholes_ = Buffer(device, state, {static_cast<std::int64_t>(round_) * largest_},
                   MemoryClass::workspace, "whole matrices");
  direction_ = Buffer(device, state, {std::max<std::int64_t>(largest_box, 1)},
                      MemoryClass::workspace, "directions of matrices");
  memory_ = kernels::OrthogonalizeMemory(device, products, largest_, side);
}

// Every rank lists every matrix of its stage, in the same order, also where it has no
// part of it: collectives follow the list.
void MatrixUpdate::find_matrices(const std::vector<FlatParameter>& flats) {
  for (const bool expert : {false, true}) {
    std::map<std::string, std::size_t> index;
    for (const FlatParameter& flat : flats) {
      if (!flat.matrices || flat.expert != expert) continue;
      for (const ParameterView& view : flat.views) {
        for (const NamedBox& named : view.param->boxes)
          if (index.try_emplace(named.tensor, matrices_.size()).second)
            matrices_.push_back({&named, &flat, {}});
        const Range shard = flat.shard();
        const Range range{std::max(shard.begin, view.begin) - view.begin,
                          std::min(shard.end, view.begin + view.elements) - view.begin};
        if (range.begin >= range.end) continue;
        for (const ParamBox& box : boxes_of(*view.param, range))
          matrices_[index.at(box.named->tensor)].boxes.push_back(
              {box, view.param, view.begin + box.begin - shard.begin});
      }
    }
  }
}

int MatrixUpdate::ranks_of(const FlatParameter& flat) const {
  return tensor_->size() * flat.shard_group->size() * flat.sum_group->size();
}

MatrixUpdate::Owner MatrixUpdate::owner_of(const FlatParameter& flat,
                                           std::size_t i) const {
  const int place = static_cast<int>(i) % ranks_of(flat);
  const int copies = flat.sum_group->size(), shards = flat.shard_group->size();
  return {place / (copies * shards), place / copies % shards, place % copies};
}

// A round is as many matrices as have memory, all dense or all of experts.
std::size_t MatrixUpdate::round_end(std::size_t first) const {
  std::size_t last = first;
  while (last < matrices_.size() && last - first < round_ &&
         matrices_[last].flat->expert == matrices_[first].flat->expert)
    ++last;
  return last;
}

TensorView MatrixUpdate::whole_of(std::size_t i, const Matrix& matrix) const {
  const Shape& whole = matrix.named->whole;
  return wholes_.view()
      .rows(static_cast<std::int64_t>(i) * largest_, whole.elements())
      .reshape(whole);
}

void MatrixUpdate::update(Stream& stream, const OptimizerConfig& config,
                          const StepFactors& factors, const StateOf& state_of) {
  for (std::size_t first = 0; first < matrices_.size();) {
    const std::size_t last = round_end(first);
    collect(stream, config, factors, state_of, first, last);
    share_out(stream, config.muon.steps, first, last);
    apply(stream, config, factors, state_of, first, last);
    first = last;
  }
}

// Momenta of this rank's boxes, and whole matrices of directions: each element comes from
// the one rank that owns it, so that sums over ranks change no bit.
void MatrixUpdate::collect(Stream& stream, const OptimizerConfig& config,
                           const StepFactors& factors, const StateOf& state_of,
                           std::size_t first, std::size_t last) {
  const kernels::Update rule{.formula = kernels::UpdateFormula::direction,
                             .beta1 = config.muon.momentum,
                             .beta2 = config.muon.nesterov ? config.muon.momentum : 1.0,
                             .gradient_scale = factors.gradient_scale};
  const TensorView used =
      wholes_.view().rows(0, static_cast<std::int64_t>(last - first) * largest_);
  kernels::fill(stream, used, 0.0);
  for (std::size_t i = first; i < last; ++i) {
    const TensorView whole = whole_of(i - first, matrices_[i]);
    for (const auto& [box, param, at] : matrices_[i].boxes) {
      const std::int64_t count = box.extent.elements();
      const BoxState state = state_of(*matrices_[i].flat, at, count);
      const TensorView direction = direction_.view().rows(0, count);
      kernels::update(stream, rule, direction, state.gradient, {state.momentum, {}}, {});
      if (box.named->owned)
        kernels::copy(stream, direction.reshape(box.extent), place_of(whole, box));
    }
  }
  tensor_->all_reduce(stream, used).wait();
  matrices_[first].flat->shard_group->all_reduce(stream, used).wait();
}

// Each rank makes its matrices of the round orthogonal; then all have all of them. A
// broadcast runs in groups that the owner is not in, too: what they hand on is
// overwritten by the next.
void MatrixUpdate::share_out(Stream& stream, int steps, std::size_t first,
                             std::size_t last) {
  const FlatParameter& flat = *matrices_[first].flat;
  for (std::size_t i = first; i < last; ++i) {
    const Owner owner = owner_of(flat, i - first);
    if (owner.tensor == tensor_->rank() && owner.shard == flat.shard_group->rank() &&
        owner.copy == flat.sum_group->rank())
      kernels::orthogonalize(stream, whole_of(i - first, matrices_[i]), steps, memory_);
  }
  for (std::size_t i = first; i < last; ++i) {
    const Owner owner = owner_of(flat, i - first);
    const TensorView whole = whole_of(i - first, matrices_[i]);
    flat.sum_group->broadcast(stream, whole, owner.copy).wait();
    flat.shard_group->broadcast(stream, whole, owner.shard).wait();
    tensor_->broadcast(stream, whole, owner.tensor).wait();
  }
}

// w = (1 - lr * weight_decay) w - lr * adjustment * O
void MatrixUpdate::apply(Stream& stream, const OptimizerConfig& config,
                         const StepFactors& factors, const StateOf& state_of,
                         std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const TensorView whole = whole_of(i - first, matrices_[i]);
    for (const auto& [box, param, at] : matrices_[i].boxes) {
      const std::int64_t count = box.extent.elements();
      const BoxState state = state_of(*matrices_[i].flat, at, count);
      const TensorView direction = direction_.view().rows(0, count);
      kernels::copy(stream, place_of(whole, box), direction.reshape(box.extent));
      kernels::update(
          stream,
          {.formula = kernels::UpdateFormula::sgd,
           .learning_rate = rate_of(*param, factors.learning_rate, factors.schedule),
           .weight_decay = decay_of(config, *param),
           .gradient_scale = config.muon.adjustment(whole.dim(0), whole.dim(1))},
          state.master, direction, {}, state.weight);
    }
  }
}

}  // namespace trireme::optim
