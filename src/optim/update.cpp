// ParameterStore: the optimizer's step on this rank's shares, on the device or the host.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/optimizer.hpp"
#include "optim/learning_rate.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// Between the device and the host's memory. Blocks: the memory on the host is used again.
void ParameterStore::move(const TensorView& from, const TensorView& to,
                          std::int64_t& counter) {
  copy_bytes(stream_, from, to);
  stream_.synchronize();
  counter += static_cast<std::int64_t>(to.bytes());
}

void ParameterStore::update_range(const OptimizerConfig& config, const Param& param,
                                  double learning_rate, double gradient_scale,
                                  std::int64_t step, const TensorView& main,
                                  const TensorView& gradient,
                                  const kernels::UpdateStates& states,
                                  const TensorView& weight) {
  Stream stream(main.device());  // the host's, where the state is offloaded
  kernels::update(stream,
                  {.formula = config.rule().formula,
                   .learning_rate = rate_of(config, param, learning_rate, step),
                   .beta1 = config.beta1,
                   .beta2 = config.beta2,
                   .eps = config.eps,
                   .weight_decay = decay_of(config, param),
                   .step = step,
                   .gradient_scale = gradient_scale},
                  main, gradient, states, weight);
}

// Elements [at, at + count) of the unit's share, which belong to one Param.
void ParameterStore::update_piece(const OptimizerConfig& config, double learning_rate,
                                  double gradient_scale, std::int64_t step,
                                  const Unit& unit, const Piece& piece, std::int64_t at,
                                  std::int64_t count) {
  const auto part = [&](const Buffer& shares) {
    return shares.view().empty() ? TensorView() : share_in(shares, unit).rows(at, count);
  };
  const TensorView gradient = gradient_share(unit).rows(at, count);
  const TensorView main = master_share(unit).rows(at, count);
  const TensorView weight =
      owns_master() ? weight_share(unit).rows(at, count) : TensorView();
  if (config_.offload == Offload::none) {
    update_range(config, *piece.param, learning_rate, gradient_scale, step, main,
                 gradient, {part(moment1_), part(moment2_)}, weight);
    return;
  }
  // The gradient comes to the host, the new weight goes back; state never moves.
  const TensorView host_gradient = staged_gradient_.view().rows(0, count);
  move(gradient, host_gradient, traffic_.to_host);
  kernels::fill(stream_, gradient, 0.0);
  const bool away = config_.offload == Offload::weights;
  const TensorView host_weight =
      weight.shape().rank() == 0 || away ? weight : staged_weight_.view().rows(0, count);
  update_range(config, *piece.param, learning_rate, gradient_scale, step, main,
               host_gradient, {part(moment1_), part(moment2_)}, host_weight);
  if (!away) move(host_weight, weight, traffic_.to_device);
}

void ParameterStore::update(const OptimizerConfig& config, double learning_rate,
                            double gradient_scale, std::int64_t step) {
  forget_gathered();
  if (narrow_state()) return update_narrow(config, learning_rate, gradient_scale, step);
  update_matrices(config, learning_rate, gradient_scale, step);
  const std::int64_t most = config_.offload == Offload::none
                                ? layout_.trained_whole_elements
                                : staged_gradient_.view().elements();
  for (std::size_t u = 0; u < layout_.units.size(); ++u) {
    const Unit& unit = layout_.units[u];
    if (unit.frozen) continue;
    for_each_piece(unit, [&](const Piece& piece, Range range, std::int64_t at) {
      if (unit.matrices) return;
      for (std::int64_t done = 0; done < range.count(); done += most) {
        update_piece(config, learning_rate, gradient_scale, step, unit, piece, at + done,
                     std::min(most, range.count() - done));
      }
    });
    // The whole gradient of a unit whose reduction left its sum in the share alone.
    if (config_.sharding == Sharding::optimizer) {
      kernels::fill(stream_, gradients_.view().rows(unit.whole_at, unit.elements), 0.0);
    }
    if (!shares_weights()) {
      unit_handles_[u] =
          unit.shards->all_gather(stream_, weight_share(unit),
                                  weights_.view().rows(unit.whole_at, unit.elements));
    }
  }
  for (auto& handle : unit_handles_) handle.wait();
}

void ParameterStore::update_matrices(const OptimizerConfig& config, double learning_rate,
                                     double gradient_scale, std::int64_t step) {
  matrices_.update(
      stream_, config, {learning_rate, gradient_scale, step},
      [&](const Unit& unit, std::int64_t at, std::int64_t count) -> BoxState {
        return {master_share(unit).rows(at, count), gradient_share(unit).rows(at, count),
                share_in(moment1_, unit).rows(at, count),
                owns_master() ? weight_share(unit).rows(at, count) : TensorView()};
      });
}

void ParameterStore::spoil_gradients() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Unit& unit = layout_.units.front();
  if (sum_scales_.empty())
    return kernels::fill(stream_, gradient_share(unit).rows(0, 1), nan);
  for_each_segment(unit, unit.share(), [&](const Segment& segment, Range) {
    sum_scales_.set(stream_, segment.tensor, static_cast<float>(nan));
  });
}

// Scales too: those of gradients that were not finite are not.
void ParameterStore::clear_gradients() {
  clear(stream_, gradients_.view());
  if (sum_scales_.empty()) return;
  sum_scales_.set_all(stream_, std::vector<float>(tensors_.size(), 1.0f));
}

}  // namespace trireme::optim
