// ParameterStore: the optimizer's step on low-precision state.
// SPDX-License-Identifier: Apache-2.0
// Kernels do not take it, so each part goes through the accumulator's type.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/rounding.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// A scale belongs to the whole tensor: the largest magnitude over all ranks among which
// it is spread.
void ParameterStore::agree_on_scales() {
  const auto classes = static_cast<std::int64_t>(scaled_classes);
  const TensorView room =
      amax_room_.view().rows(0, classes * static_cast<std::int64_t>(tensors_.size()));
  const bool meta = stream_.device().is_meta();
  const TensorView host(amaxes_.data(), DType::f32, room.shape());
  if (!meta) copy_bytes(stream_, host, room);
  max_over_holders(room, classes * static_cast<std::int64_t>(dense_tensors_));
  if (scales_squares())
    max_over_holders(square_amaxes_.view(),
                     static_cast<std::int64_t>(dense_weight_scales_));
  if (meta) return;
  copy_bytes(stream_, room, host);
  stream_.synchronize();
  const auto set = [&](Scaled what, DType type, const Scales& now, Scales& next) {
    if (now.empty()) return;
    std::vector<float> scales(tensors_.size());
    for (std::size_t t = 0; t < scales.size(); ++t) {
      const float amax = amaxes_[scaled_classes * t + static_cast<std::size_t>(what)];
      scales[t] = what == Scaled::weight ? scale_or_nan(amax, type)
                                         : power_scale(amax, type, now.at(t));
    }
    next.set_all(stream_, std::move(scales));
  };
  if (scales_squares()) {
    set_square_scales();
  } else {
    set(Scaled::weight, config_.type(TensorClass::weight), weight_scales_,
        next_weight_scales_);
  }
  set(Scaled::moment1, config_.type(TensorClass::moment1), moment1_scales_,
      next_moment1_scales_);
  set(Scaled::moment2, config_.type(TensorClass::moment2), moment2_scales_,
      next_moment2_scales_);
}

TensorView ParameterStore::room_for(int i, const TensorView& kept, bool away) const {
  if (!away) return kept;
  const std::int64_t room = staged_state_.view().elements() / wide_rooms;
  return memory_as(staged_state_.view().rows(i * room, room), kept.dtype(),
                   kept.elements());
}

TensorView ParameterStore::brought(int i, const TensorView& kept) {
  const TensorView room = room_for(i, kept, config_.offload != Offload::none);
  if (room.raw() != kept.raw()) move(kept, room, traffic_.to_device);
  return room;
}

void ParameterStore::give_back(const TensorView& room, const TensorView& kept) {
  if (room.raw() != kept.raw()) move(room, kept, traffic_.to_host);
}

// Master weights, gradient and moments of a part of this rank's share, in rooms 0 to 3.
void ParameterStore::load_part(const Unit& unit, std::size_t tensor, Range part) {
  const std::int64_t at = part.begin - unit.share().begin, count = part.count();
  kernels::copy(stream_, brought(0, master_share(unit).rows(at, count)),
                wide_room(0, count));
  decode(stream_, gradient_share(unit).rows(at, count), sum_scales_, tensor,
         wide_room(1, count));
  if (!moment1_.view().empty())
    decode(stream_, brought(1, share_in(moment1_, unit).rows(at, count)), moment1_scales_,
           tensor, wide_room(2, count));
  if (!moment2_.view().empty())
    decode(stream_, brought(2, share_in(moment2_, unit).rows(at, count)), moment2_scales_,
           tensor, wide_room(3, count));
  if (keeps_roots()) kernels::square(stream_, wide_room(3, count));
}

// Room 0, the new master weights, as they will be kept: the same bits in both passes.
void ParameterStore::round_part(const Segment& segment, Range part, std::int64_t step) {
  const TensorView master = wide_room(0, part.count());
  const DType type = config_.type(TensorClass::master);
  if (type == config_.wide()) return;
  if (config_.recipe.stochastic)
    kernels::round_stochastic(stream_, master, run_of(segment, part), type, 1.0f,
                              key_of(segment, RoundedBy::master, step));
  const TensorView rounded = memory_as(wide_room(1, part.count()), type, part.count());
  kernels::copy(stream_, master, rounded);
  kernels::copy(stream_, rounded, master);
}

void ParameterStore::note_amaxes(const Segment& segment, Range part) {
  const std::int64_t count = part.count();
  if (!weight_scales_.empty()) note_weight_amax(segment, part, wide_room(0, count));
  const auto note = [&](Scaled what, const Scales& scales, int room) {
    if (scales.empty()) return;
    float& most =
        amaxes_[scaled_classes * segment.tensor + static_cast<std::size_t>(what)];
    most = std::max(most, finite_amax_of(stream_, wide_room(room, count), amax_one()));
  };
  note(Scaled::moment1, moment1_scales_, 2);
  if (keeps_roots()) kernels::square_root(stream_, wide_room(3, count), 0.0f);
  note(Scaled::moment2, moment2_scales_, 3);
}

void ParameterStore::store_part(const Unit& unit, const Segment& segment, Range part,
                                std::int64_t step) {
  const std::int64_t at = part.begin - unit.share().begin, count = part.count();
  const bool away = config_.offload != Offload::none;
  const auto store = [&](int i, const TensorView& kept, bool elsewhere,
                         const auto& write) {
    const TensorView room = room_for(i, kept, elsewhere);
    write(room);
    give_back(room, kept);
  };
  const TensorView master = wide_room(0, count);
  store(0, master_share(unit).rows(at, count), away,
        [&](const TensorView& room) { kernels::copy(stream_, master, room); });
  if (owns_master())
    store(3, weight_share(unit).rows(at, count), config_.offload == Offload::weights,
          [&](const TensorView& room) {
            encode_weight(segment, part, master, next_weight_scales_, room);
          });
  if (moment1_.view().empty()) return;
  store(1, share_in(moment1_, unit).rows(at, count), away, [&](const TensorView& room) {
    encode_as(TensorClass::moment1, wide_room(2, count), next_moment1_scales_,
              segment.tensor, room);
  });
  if (moment2_.view().empty()) return;
  if (keeps_roots()) round_roots(segment, part, step);
  store(2, share_in(moment2_, unit).rows(at, count), away, [&](const TensorView& room) {
    encode_as(TensorClass::moment2, wide_room(3, count), next_moment2_scales_,
              segment.tensor, room);
  });
}

// Room 3, second moments, as their roots will be kept. None becomes 0 that was not: the
// first moment would be divided by epsilon.
void ParameterStore::round_roots(const Segment& segment, Range part, std::int64_t step) {
  const TensorView second = wide_room(3, part.count());
  const DType type = config_.type(TensorClass::moment2);
  const float scale = next_moment2_scales_.at(segment.tensor);
  kernels::square_root(stream_, second, scale * kernels::fp8_decode(1, fp8_format(type)));
  kernels::round_stochastic(stream_, second, run_of(segment, part), type, scale,
                            key_of(segment, RoundedBy::moment2, step));
}

// Where there are scales the update is made twice: once for the largest magnitudes, which
// give the scales, and once to be kept.
void ParameterStore::update_narrow(const OptimizerConfig& config, double learning_rate,
                                   double gradient_scale, std::int64_t step) {
  const auto update_unit = [&](const Unit& unit, const auto& finish) {
    for_each_part(unit, unit.share(), [&](const Segment& segment, Range part) {
      const std::int64_t count = part.count();
      load_part(unit, segment.tensor, part);
      const auto state = [&](const Buffer& kept, int room) {
        return kept.view().empty() ? TensorView() : wide_room(room, count);
      };
      update_range(config, *segment.param, learning_rate, gradient_scale, step,
                   wide_room(0, count), wide_room(1, count),
                   {state(moment1_, 2), state(moment2_, 3)}, TensorView());
      round_part(segment, part, step);
      finish(segment, part);
    });
  };
  if (!weight_scales_.empty() || !moment1_scales_.empty() || !moment2_scales_.empty()) {
    start_amaxes();
    for (const Unit& unit : layout_.units) {
      if (unit.frozen) continue;
      update_unit(
          unit, [&](const Segment& segment, Range part) { note_amaxes(segment, part); });
    }
    agree_on_scales();
  }
  for (std::size_t u = 0; u < layout_.units.size(); ++u) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    update_unit(unit, [&](const Segment& segment, Range part) {
      store_part(unit, segment, part, step);
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
