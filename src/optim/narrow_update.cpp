// ParameterStore: weights in use that are converted, and the optimizer's step on state
// that its kernels do not take: part by part through the wide type.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// used = kept in the type of the modules, for the whole unit.
void ParameterStore::convert_weights(const Unit& unit, const TensorView& kept,
                                     const TensorView& used) {
  if (weight_scales_.empty()) return kernels::copy(stream_, kept, used);
  for_each_segment(unit, {0, unit.elements}, [&](const Segment& segment, Range part) {
    decode(stream_, kept.rows(part.begin, part.count()), weight_scales_, segment.tensor,
           used.rows(part.begin, part.count()));
  });
}

// Weights of FP8 from the master weights of this rank's shares.
void ParameterStore::encode_weights() {
  amaxes_.assign(scaled_classes * tensors_.size(), 0.0f);
  const auto each_part = [&](const auto& body) {
    for (const Unit& unit : layout_.units) {
      const std::int64_t first = unit.share().begin;
      for_each_part(unit, unit.share(), [&](const Segment& segment, Range part) {
        const TensorView wide = wide_room(0, part.count());
        kernels::copy(stream_, master_share(unit).rows(part.begin - first, part.count()),
                      wide);
        body(unit, segment, part, wide);
      });
    }
  };
  each_part([&](const Unit&, const Segment& segment, Range, const TensorView& wide) {
    float& most = amaxes_[scaled_classes * segment.tensor];
    const float amax = amax_of(stream_, wide, amax_one());
    most =
        std::isnan(amax) ? std::numeric_limits<float>::infinity() : std::max(most, amax);
  });
  agree_on_scales();
  std::swap(weight_scales_, next_weight_scales_);
  each_part(
      [&](const Unit& unit, const Segment& segment, Range part, const TensorView& wide) {
        encode(stream_, wide, weight_scales_, segment.tensor,
               weight_share(unit).rows(part.begin - unit.share().begin, part.count()));
      });
}

// A scale belongs to the whole tensor: the largest magnitude over all ranks among which
// it is spread.
void ParameterStore::agree_on_scales() {
  const auto tensors = static_cast<std::int64_t>(tensors_.size());
  const auto classes = static_cast<std::int64_t>(scaled_classes);
  const auto dense = static_cast<std::int64_t>(dense_tensors_);
  const TensorView room = amax_room_.view().rows(0, classes * tensors);
  const bool meta = stream_.device().is_meta();
  const TensorView host(amaxes_.data(), DType::f32, room.shape());
  if (!meta) copy_bytes(stream_, host, room);
  const auto reduce = [&](comm::Group& group, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    group
        .all_reduce(stream_, room.rows(classes * begin, classes * (end - begin)),
                    comm::Reduce::max)
        .wait();
  };
  const auto shards_of = [&](std::int64_t tensor) -> comm::Group& {
    return *tensors_[static_cast<std::size_t>(tensor)].unit->shards;
  };
  if (dense > 0) reduce(shards_of(0), 0, dense);
  if (dense < tensors) reduce(shards_of(dense), dense, tensors);
  reduce(mesh_.group(comm::Axis::tensor), 0, tensors);
  if (meta) return;
  copy_bytes(stream_, room, host);
  stream_.synchronize();
  const auto set = [&](Scaled what, DType type, const Scales& now, Scales& next) {
    if (now.empty()) return;
    std::vector<float> scales(tensors_.size());
    for (std::size_t t = 0; t < scales.size(); ++t) {
      const float amax = amaxes_[scaled_classes * t + static_cast<std::size_t>(what)];
      scales[t] = power_scale(amax, type, now.at(t));
    }
    next.set_all(stream_, std::move(scales));
  };
  set(Scaled::weight, config_.type(TensorClass::weight), weight_scales_,
      next_weight_scales_);
  set(Scaled::moment1, config_.type(TensorClass::moment1), moment1_scales_,
      next_moment1_scales_);
  set(Scaled::moment2, config_.type(TensorClass::moment2), moment2_scales_,
      next_moment2_scales_);
}

// Master weights, gradient and moments of a part of this rank's share, in rooms 0 to 3.
void ParameterStore::load_part(const Unit& unit, std::size_t tensor, Range part) {
  const std::int64_t at = part.begin - unit.share().begin, count = part.count();
  kernels::copy(stream_, master_share(unit).rows(at, count), wide_room(0, count));
  decode(stream_, gradient_share(unit).rows(at, count), sum_scales_, tensor,
         wide_room(1, count));
  decode(stream_, share_in(moment1_, unit).rows(at, count), moment1_scales_, tensor,
         wide_room(2, count));
  if (!moment2_.view().empty())
    decode(stream_, share_in(moment2_, unit).rows(at, count), moment2_scales_, tensor,
           wide_room(3, count));
}

void ParameterStore::note_amaxes(std::size_t tensor, std::int64_t count) {
  const auto note = [&](Scaled what, const Scales& scales, int room) {
    if (scales.empty()) return;
    float& most = amaxes_[scaled_classes * tensor + static_cast<std::size_t>(what)];
    const float amax = amax_of(stream_, wide_room(room, count), amax_one());
    most =
        std::isnan(amax) ? std::numeric_limits<float>::infinity() : std::max(most, amax);
  };
  if (!weight_scales_.empty()) {  // weights in use follow the master weights as kept
    const TensorView master = wide_room(0, count);
    const TensorView rounded =
        memory_as(wide_room(1, count), config_.type(TensorClass::master), count);
    kernels::copy(stream_, master, rounded);
    kernels::copy(stream_, rounded, master);
  }
  note(Scaled::weight, weight_scales_, 0);
  note(Scaled::moment1, moment1_scales_, 2);
  note(Scaled::moment2, moment2_scales_, 3);
}

void ParameterStore::store_part(const Unit& unit, std::size_t tensor, Range part) {
  const std::int64_t at = part.begin - unit.share().begin, count = part.count();
  const TensorView master = wide_room(0, count);
  const TensorView kept = master_share(unit).rows(at, count);
  kernels::copy(stream_, master, kept);
  if (owns_master()) {
    kernels::copy(stream_, kept, master);
    encode(stream_, master, next_weight_scales_, tensor,
           weight_share(unit).rows(at, count));
  }
  encode(stream_, wide_room(2, count), next_moment1_scales_, tensor,
         share_in(moment1_, unit).rows(at, count));
  if (!moment2_.view().empty())
    encode(stream_, wide_room(3, count), next_moment2_scales_, tensor,
           share_in(moment2_, unit).rows(at, count));
}

// Where there are scales the update is made twice: once for the largest magnitudes, which
// give the scales, and once to be kept.
void ParameterStore::update_narrow(const OptimizerConfig& config, double learning_rate,
                                   double gradient_scale, std::int64_t step) {
  const auto update_unit = [&](const Unit& unit, const auto& finish) {
    for_each_part(unit, unit.share(), [&](const Segment& segment, Range part) {
      const std::int64_t count = part.count();
      load_part(unit, segment.tensor, part);
      update_range(config, *segment.param, learning_rate, gradient_scale, step,
                   wide_room(0, count), wide_room(1, count), wide_room(2, count),
                   moment2_.view().empty() ? TensorView() : wide_room(3, count),
                   TensorView());
      finish(segment, part);
    });
  };
  if (!weight_scales_.empty() || !moment1_scales_.empty() || !moment2_scales_.empty()) {
    amaxes_.assign(scaled_classes * tensors_.size(), 0.0f);
    for (const Unit& unit : layout_.units) {
      if (unit.frozen) continue;
      update_unit(unit, [&](const Segment& segment, Range part) {
        note_amaxes(segment.tensor, part.count());
      });
    }
    agree_on_scales();
  }
  for (std::size_t u = 0; u < layout_.units.size(); ++u) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    update_unit(unit, [&](const Segment& segment, Range part) {
      store_part(unit, segment.tensor, part);
    });
    if (shares_weights()) continue;
    unit_handles_[u] = unit.shards->all_gather(
        stream_, weight_share(unit), weights_.view().rows(unit.whole_at, unit.elements));
  }
  for (auto& handle : unit_handles_) handle.wait();
  std::swap(weight_scales_, next_weight_scales_);
  std::swap(moment1_scales_, next_moment1_scales_);
  std::swap(moment2_scales_, next_moment2_scales_);
  clear_gradients();
}

}  // namespace trireme::optim
