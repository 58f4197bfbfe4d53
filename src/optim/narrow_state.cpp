// ParameterStore: which numbers are narrow, their segments, scales and rooms.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/device_memory.hpp"
#include "base/philox.hpp"
#include "base/split.hpp"
#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {
namespace {

// Elements that are wide at a time.
constexpr std::int64_t most_wide = 1 << 20;

// Of 128 x 128 in a tensor; a vector is a column.
std::int64_t squares_of(const Shape& whole) {
  const std::int64_t columns = whole.rank() == 2 ? whole[1] : 1;
  return divide_up(whole[0], fp8_block) * divide_up(columns, fp8_block);
}

}  // namespace

// What cannot be had is an error here, whatever a deck's rules let through.
void ParameterStore::check_recipe() const {
  for (std::size_t c = 0; c < tensor_classes; ++c) {
    const auto what = static_cast<TensorClass>(c);
    const std::string_view why = cannot_keep(config_.recipe, what);
    require(why.empty(), Status::bad_content, "the recipe {} has {} in {}: {}",
            config_.recipe.name, name_of(what), name_of(config_.type(what)), why);
  }
}

bool StoreConfig::narrow_state() const {
  return is_fp8(type(TensorClass::weight)) || type(TensorClass::master) != wide() ||
         type(TensorClass::gradient_sum) != wide() ||
         (has_moment1() && type(TensorClass::moment1) != wide()) ||
         (has_moment2() && type(TensorClass::moment2) != wide());
}

void ParameterStore::find_segments() {
  segments_.resize(layout_.units.size());
  for (const bool expert : {false, true}) {
    if (expert) {
      dense_tensors_ = tensors_.size();
      dense_weight_scales_ = weight_scales_count_;
    }
    for (std::size_t u = 0; u < layout_.units.size(); ++u) {
      const Unit& unit = layout_.units[u];
      if (unit.expert != expert) continue;
      for (const Piece& piece : unit.pieces) {
        const Shape& shape = piece.param->shape;
        const std::int64_t width = shape.rank() == 2 ? shape[1] : 1;
        for (const Slab& slab : piece.param->slabs) {
          const auto [found, fresh] =
              tensor_index_.try_emplace(slab.tensor, tensors_.size());
          if (fresh) {
            Slab scale{slab.tensor, {1}, {0}, {0}, {1}, Place::invariant, true};
            const std::int64_t scales = scales_squares() ? squares_of(slab.whole) : 1;
            tensors_.push_back({&unit, std::move(scale), weight_scales_count_, scales,
                                hash_name(slab.tensor)});
            weight_scales_count_ += static_cast<std::size_t>(scales);
          }
          const std::int64_t begin = piece.begin + slab.local_begin[0] * width;
          segments_[u].push_back({found->second,
                                  piece.param,
                                  &slab,
                                  {begin, begin + slab.extent[0] * width}});
        }
      }
    }
  }
}

void ParameterStore::allocate_narrow(Device device) {
  std::int64_t largest = 0, ranks = 1;
  for (const Unit& unit : layout_.units) {
    largest = std::max(largest, unit.elements);
    ranks = std::max<std::int64_t>({ranks, unit.shards->size(), unit.copies->size()});
  }
  const auto scales = [&](TensorClass what, const char* label) {
    return Scales(device, config_.type(what), tensors_.size(), label);
  };
  const bool narrow = narrow_state() || narrow_gradients() || narrow_traffic();
  if (is_fp8(config_.type(TensorClass::weight))) {
    const DType type = config_.type(TensorClass::weight);
    weight_scales_ = Scales(device, type, weight_scales_count_, "scales of weights");
    next_weight_scales_ =
        Scales(device, type, weight_scales_count_, "next scales of weights");
  }
  if (!narrow) return;
  if (config_.reports && config_.training) report_ = StoredReport(device);
  if (scales_squares())
    square_amaxes_ =
        Buffer(device, DType::f32, {static_cast<std::int64_t>(weight_scales_count_)},
               MemoryClass::workspace, "largest magnitudes of weights");
  wide_ = Buffer(device, config_.wide(), {wide_rooms * std::min(most_wide, largest)},
                 MemoryClass::workspace, "state in the type of the arithmetic");
  amax_room_ = Buffer(device, DType::f32,
                      {static_cast<std::int64_t>(scaled_classes * tensors_.size()) + 1},
                      MemoryClass::workspace, "largest magnitudes");
  if (!config_.training) return;
  if (config_.offload != Offload::none && narrow_state())
    staged_state_ = Buffer(device, DType::u8, {static_cast<std::int64_t>(wide_.bytes())},
                           MemoryClass::workspace, "offloaded state");
  if (config_.has_moment1()) {
    moment1_scales_ = scales(TensorClass::moment1, "scales of first moments");
    next_moment1_scales_ = scales(TensorClass::moment1, "next scales of first moments");
  }
  if (config_.has_moment2()) {
    moment2_scales_ = scales(TensorClass::moment2, "scales of second moments");
    next_moment2_scales_ = scales(TensorClass::moment2, "next scales of second moments");
  }
  sum_scales_ = scales(TensorClass::gradient_sum, "scales of gradient sums");
  microbatch_scales_ = scales(TensorClass::gradient, "scales of gradients");
  sent_scales_ = scales(TensorClass::gradient_traffic, "scales of sent gradients");
  result_scales_ = scales(TensorClass::gradient_traffic, "scales of received gradients");
  if (config_.type(TensorClass::gradient_sum) != config_.wide())
    wide_sum_ = Buffer(device, config_.wide(), {largest}, MemoryClass::workspace,
                       "gradient of a unit");
  const bool rounds = narrow_gradients() && !has_microbatch();
  if (!narrow_traffic() && !rounds) return;
  const std::size_t size = std::max(size_of(config_.type(TensorClass::gradient_traffic)),
                                    size_of(config_.type(TensorClass::gradient)));
  const std::int64_t room = largest + alignment_elements * ranks;
  sent_ = Buffer(device, DType::u8, {2 * room * static_cast<std::int64_t>(size)},
                 MemoryClass::workspace, "gradient of a unit as it is sent");
}

std::size_t ParameterStore::workspace_bytes() const {
  std::size_t bytes = wide_.bytes() + wide_sum_.bytes() + sent_.bytes() +
                      amax_room_.bytes() + dump_.bytes() + square_amaxes_.bytes() +
                      staged_state_.bytes() + report_.bytes() + matrices_.bytes();
  for (const Scales* scales :
       {&weight_scales_, &moment1_scales_, &moment2_scales_, &next_weight_scales_,
        &next_moment1_scales_, &next_moment2_scales_, &sum_scales_, &microbatch_scales_,
        &sent_scales_, &result_scales_})
    bytes += scales->bytes();
  return bytes;
}

TensorView ParameterStore::wide_room(int i, std::int64_t elements) const {
  return wide_.view().rows(i * part_elements(), elements);
}

TensorView ParameterStore::sent_room(int i, DType type, std::int64_t elements) const {
  const TensorView half =
      sent_.view().rows(i * (sent_.view().elements() / 2), sent_.view().elements() / 2);
  return memory_as(half, type, elements);
}

TensorView ParameterStore::amax_one() const {
  return amax_room_.view().rows(amax_room_.view().elements() - 1, 1);
}

// Every rank has every scale of its stage: one of them writes it.
void ParameterStore::append_scale_boxes(std::string_view section, const Scales& scales,
                                        std::vector<StoredBox>& boxes) const {
  if (scales.empty()) return;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const Unit& unit = *tensors_[t].unit;
    if (unit.frozen) continue;
    const bool writes = unit.shards->rank() == 0 && unit.copies->rank() == 0 &&
                        mesh_.group(comm::Axis::tensor).rank() == 0 &&
                        (!unit.shared_by_ends || mesh_.ends().rank() == 0);
    boxes.push_back({&tensors_[t].scale, section, Shape{0}, scales.view(t), writes});
  }
}

}  // namespace trireme::optim
