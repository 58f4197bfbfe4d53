// ParameterStore: error feedback, which returns what rounding took from a gradient.
// SPDX-License-Identifier: Apache-2.0
// What is lost on the wire is added to the next gradient, so that the sum over steps is
// whole. Source: Seide et al., "1-bit stochastic gradient descent", 2014, section 3; of
// both roundings, as Tang et al., "1-bit Adam", 2021.
#include <algorithm>
#include <cmath>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// Losses over shards are of whole units, those over copies of this rank's shares.
void ParameterStore::allocate_feedback(Device device) {
  if (!config_.error_feedback) return;
  require(narrow_traffic(), Status::bad_content,
          "error feedback with gradients on the wire in {}: nothing is rounded; reduce "
          "them in bf16 or FP8",
          name_of(config_.type(TensorClass::gradient_traffic)));
  std::string layout =
      format("{} {}", static_cast<int>(config_.sharding), mesh_.everyone().size());
  for (const Unit& unit : layout_.units)
    layout += format(" {} {} {} {}", unit.name, unit.elements, unit.shards->size(),
                     unit.copies->size());
  const std::string owner =
      format("{}.rank-{}", hash_name(layout), mesh_.everyone().rank());
  const auto allocate = [&](Feedback& feedback, const char* kind, std::int64_t elements,
                            const auto& group_of, const auto& count_of) {
    std::int64_t results = 0;
    bool reduces = false;
    for (const Unit& unit : layout_.units) {
      const std::int64_t ranks = group_of(unit).size();
      feedback.result_at.push_back(results);
      if (unit.frozen) continue;
      results += part_of_sum(count_of(unit), ranks);
      reduces = reduces || ranks > 1;
    }
    if (!reduces) return;
    const auto make = [&](Buffer& buffer, Slab& slab, std::int64_t n, const char* what) {
      buffer = Buffer(device, config_.wide(), {n}, MemoryClass::communication,
                      "error feedback");
      slab = {format("{}.{}.{}", owner, kind, what), {n}, {0}, {0}, {n}};
    };
    make(feedback.sent, feedback.sent_slab, elements, "sent");
    make(feedback.result, feedback.result_slab, results, "result");
  };
  allocate(
      shards_feedback_, "shards",
      config_.sharding == Sharding::none ? 0 : layout_.trained_whole_elements,
      [](const Unit& unit) -> comm::Group& { return *unit.shards; },
      [](const Unit& unit) { return unit.elements; });
  allocate(
      copies_feedback_, "copies", layout_.trained_share_elements,
      [](const Unit& unit) -> comm::Group& { return *unit.copies; },
      [](const Unit& unit) { return unit.share_elements(); });
}

TensorView ParameterStore::sent_loss(const Unit& unit, Range range,
                                     bool everywhere) const {
  if (!everywhere)
    return shards_feedback_.sent.view().rows(unit.whole_at + range.begin, range.count());
  return copies_feedback_.sent.view().rows(
      unit.share_at + range.begin - unit.share().begin, range.count());
}

TensorView ParameterStore::result_loss(const Unit& unit, std::int64_t count,
                                       bool everywhere) const {
  const Feedback& feedback = everywhere ? copies_feedback_ : shards_feedback_;
  const auto u = static_cast<std::size_t>(&unit - layout_.units.data());
  return feedback.result.view().rows(feedback.result_at[u], count);
}

// loss = wide - what its codes stand for, elements [range) of the unit. The loss of a
// tensor whose gradient is not finite stays as it was: that gradient is not used.
void ParameterStore::keep_loss(const Unit& unit, Range range, const TensorView& wide,
                               const TensorView& codes, const Scales& scales,
                               const std::vector<float>& amaxes, const TensorView& loss) {
  for_each_part(unit, range, [&](const Segment& segment, Range part) {
    if (!std::isfinite(amaxes[segment.tensor])) return;
    const std::int64_t at = part.begin - range.begin, count = part.count();
    const TensorView term = wide_room(0, count), kept = loss.rows(at, count);
    decode(stream_, codes.rows(at, count), scales, segment.tensor, term);
    kernels::scale(stream_, term, -1.0);
    kernels::copy(stream_, wide.rows(at, count), kept);
    kernels::accumulate(stream_, term, kept);
  });
}

std::vector<StoredBox> ParameterStore::feedback_boxes() const {
  std::vector<StoredBox> boxes;
  for (const Feedback* feedback : {&shards_feedback_, &copies_feedback_}) {
    if (feedback->bytes() == 0) continue;
    for (const auto& [slab, buffer] : {std::pair(&feedback->sent_slab, &feedback->sent),
                                       {&feedback->result_slab, &feedback->result}})
      boxes.push_back({slab, "optimizer/feedback", Shape{0}, buffer->view(), true});
  }
  return boxes;
}

void ParameterStore::clear_feedback() {
  for (const Feedback* feedback : {&shards_feedback_, &copies_feedback_}) {
    if (feedback->bytes() == 0) continue;
    kernels::fill(stream_, feedback->sent.view(), 0.0);
    kernels::fill(stream_, feedback->result.view(), 0.0);
  }
}

}  // namespace trireme::optim
