// OptimizerState: master weights and moments of this rank's shards, and their update.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rounding.hpp"
#include "optim/dynamic_moments.hpp"
#include "optim/gathered_weights.hpp"
#include "optim/gradient_sums.hpp"
#include "optim/host_updates.hpp"
#include "optim/matrix_update.hpp"
#include "optim/optimizer_config.hpp"
#include "optim/state_memory.hpp"
#include "optim/state_scales.hpp"

namespace trireme::optim {

// What is of low precision is updated chunk by chunk in the accumulator's type; other
// state by one sweep over memory, on the device or, offloaded, on the host. What of it
// lies where is StateMemory's.
class OptimizerState {
 public:
  OptimizerState(StoreContext& context, NumberCodec& codec, StateScales& scales,
                 StateMemory& memory, GatheredWeights& weights, Device device);

  // One step. See ParameterStore::update().
  void update(GradientSums& gradients, const OptimizerConfig& config,
              const StepFactors& factors);
  // Weights in use from master weights that were initialized or loaded.
  void refresh_weights();

  // Where the master weights of this rank's shard are kept: the weights themselves,
  // where nothing else is.
  TensorView master_shard(const FlatParameter& flat) const;
  // Boxes of weights and moments.
  std::vector<StateBox> boxes() const;

  std::size_t bytes() const { return memory_.bytes() + dynamic_.bytes(); }
  // Of these, what is on the device wherever the rest lies.
  std::size_t resident_bytes() const {
    return memory_.resident_bytes() + dynamic_.bytes();
  }
  // On the host, on the way to and from the device or a disk.
  std::size_t staging_bytes() const { return host_.bytes() + memory_.window_bytes(); }
  std::size_t workspace_bytes() const {
    return staged_state_.bytes() + matrices_.bytes() + dynamic_.workspace_bytes();
  }

 private:
  // A step under way.
  struct Step {
    GradientSums& gradients;
    const OptimizerConfig& config;
    const StepFactors& factors;
  };
  // Consecutive elements of one Param in this rank's shard, from `begin` of the shard on.
  struct Elements {
    const FlatParameter& flat;
    const Param& param;
    std::int64_t begin = 0, count = 0;
    // These of the memory of the flat parameter's shard.
    TensorView of(const TensorView& shard) const { return shard.rows(begin, count); }
  };
  // What one sweep of the device updates.
  struct Sweep {
    std::vector<kernels::Update> updates;
    std::vector<kernels::UpdateTensors> tensors;
  };
  // Elements of one tensor, of which `part` are those of the flat parameter.
  struct Chunk {
    const FlatParameter& flat;
    const TensorRange& tensor;
    Range part;
    std::int64_t begin() const { return part.begin - flat.shard().begin; }
    std::int64_t count() const { return part.count(); }
    // This chunk of the memory of the flat parameter's shard.
    TensorView of(const TensorView& shard) const { return shard.rows(begin(), count()); }
  };
  // What a stochastic rounding is for.
  enum class RoundedBy : std::uint8_t { master, moment2 };

  void allocate(Device device);
  // Whether its weights lie on the host or a disk; elements of them, within a pass.
  bool offloads_weights(const FlatParameter& flat) const {
    return context_.config.offload == Offload::weights || memory_.has_weights(flat);
  }
  TensorView weight_rows(const FlatParameter& flat, std::int64_t begin,
                         std::int64_t count) const;
  void round_weights(const FlatParameter& flat);
  void encode_weights();

  void update_state(const Step& step);
  void update_matrices(const Step& step);
  void add_elements(const Step& step, const Elements& elements, Sweep& sweep) const;
  TensorView state_of(Kept kept, const Elements& elements) const;  // empty: there is none
  void run(const Step& step, Sweep& sweep);
  void update_offloaded(const Step& step, const Elements& elements);
  TensorView update_on_host(const Step& step, const Elements& elements,
                            const TensorView& gradient, const TensorView& staged);
  static kernels::Update rule_of(const Step& step, const Param& param);
  void apply_rule(const Step& step, const Param& param, const TensorView& master,
                  const TensorView& gradient, const kernels::UpdateStates& states,
                  const TensorView& weight);

  // optim/low_precision_update.cpp
  void update_low_precision(const Step& step);
  template <class Body>
  void update_chunks(const Step& step, const FlatParameter& flat, const Body& finish);
  TensorView staged(Kept what, const TensorView& kept, bool offloaded) const;
  TensorView brought(Kept what, const FlatParameter& flat, const TensorView& kept);
  void give_back(const TensorView& staged, const TensorView& kept);
  TensorView master_of(const Chunk& chunk) const;
  void load(const Step& step, const Chunk& chunk);
  void load_moment(std::size_t state, const Chunk& chunk);
  void store_moment(std::size_t state, const Chunk& chunk, std::int64_t step);
  void note_blocks(const Step& step, const FlatParameter& flat);
  void round_master(const Chunk& chunk, std::int64_t step);
  void round_roots(const Chunk& chunk, std::int64_t step);
  void note_magnitudes(const Chunk& chunk);
  void store(const Chunk& chunk, std::int64_t step);
  kernels::RoundingKey key_of(const Chunk& chunk, RoundedBy use, std::int64_t step) const;

  StoreContext& context_;
  NumberCodec& codec_;
  StateScales& scales_;
  StateMemory& memory_;
  GatheredWeights& weights_;
  HostUpdates host_;     // of offloaded state
  Buffer staged_state_;  // chunks of offloaded state on the device, as it is kept
  MatrixUpdate matrices_;
  DynamicMoments dynamic_;  // beside the codes in memory_
};

}  // namespace trireme::optim
