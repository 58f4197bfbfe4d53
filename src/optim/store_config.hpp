// What the store of a rank's weights is told: types, sharding, offloading, buckets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/recipe.hpp"
#include "optim/optimizer_config.hpp"
#include "optim/update_rules.hpp"

namespace trireme::optim {

// What the ranks of a shard group share out instead of repeating; each includes those
// before it. Source: Rajbhandari et al., 2020 (ZeRO-1, 2, 3).
enum class Sharding : std::uint8_t { none, optimizer, gradients, weights };

// What lies in the host's memory instead of the memory of the device that computes;
// weights: with the optimizer's state; disk: that state lies in a file; disk_weights: in
// that file lie the weights, too.
enum class Offload : std::uint8_t { none, optimizer, weights, disk, disk_weights };

// Something lies in a file; sharded weights do not lie on the device.
constexpr bool is_on_disk(Offload offload) {
  return offload == Offload::disk || offload == Offload::disk_weights;
}
constexpr bool moves_weights(Offload offload) {
  return offload == Offload::weights || offload == Offload::disk_weights;
}

struct StoreConfig {
  Recipe recipe = recipe_named("fp32");
  const UpdateRule* rule = &update_rule("adamw", 0.9);
  std::int64_t bucket_bytes = 25 << 20;  // of gradients that one all-reduce sums
  bool training = true;                  // false: weights only
  // Gradients are summed without rounding, over microbatches and replicas: their order
  // changes no bit. See optim/exact_sums.hpp. With Sharding::none and plain numbers
  // alone.
  bool exact_sums = false;
  // Sums are not cleared before a step, nor what modules open: first contributions take
  // the place of what is there. Modules add by nn::contribute, and nothing is recorded.
  bool overwrites = false;
  Sharding sharding = Sharding::none;
  std::int64_t wrap_parameters = 0;     // see WrapPolicy
  std::vector<std::string> wrap_names;  // the same
  int prefetch = 1;                     // modules whose weights are gathered ahead
  int gathered_units = 0;  // most buckets gathered at once; 0: one module's and prefetch
  Offload offload = Offload::none;
  // Of the optimizer's state, with disk_weights of weights too; whole flat parameters.
  double offload_fraction = 1;
  std::string offload_directory;  // of the disk's file; see base/node_folder.hpp
  std::uint64_t seed = 0;         // of stochastic rounding
  // What rounding takes from gradients on the wire is added to the next ones.
  bool error_feedback = false;
  bool reports = false;  // there is memory for a StoredReport
  OuterConfig outer;     // of copies that take steps by themselves
  // What is frozen has no master weights, in whatever type weights are kept.
  bool frozen_as_kept = false;

  DType type(TensorClass what) const { return recipe[what].type; }
  // What modules compute in, and hand over gradients' contributions in.
  DType module_type() const { return type(TensorClass::activation); }
  // What gradients are added up, and weights updated, in.
  DType accumulator() const { return accumulator_of(module_type()); }
  // In what modules are given weights. FP8 codes are made of weights as they are kept, as
  // Transformer Engine casts the parameter itself: modules then convert what else they
  // multiply with. FP8 weights are decoded, which in bf16 loses nothing.
  DType bound_type() const {
    const DType kept = type(TensorClass::weight);
    return recipe.fp8() && !is_fp8(kept) ? kept : module_type();
  }
  // First moments, or a momentum; second moments.
  bool has_moment1() const { return rule->states() > 0; }
  bool has_moment2() const { return rule->states() > 1; }

  bool offloads() const { return offload != Offload::none; }
  bool shards_weights() const { return sharding == Sharding::weights; }
  bool shards_gradients() const { return sharding >= Sharding::gradients; }
  // Modules are given copies of the weights in another type than that they are kept in.
  bool converts_weights() const { return type(TensorClass::weight) != bound_type(); }
  bool fetches_weights() const { return shards_weights() || converts_weights(); }
  // FP8 weights have a scale for each 128 x 128 block.
  bool scales_blocks() const {
    return recipe[TensorClass::weight].scaling == Scaling::blocks;
  }
  // The optimizer's kernels cannot take the state as it is kept.
  bool low_precision_state() const;
  // An update is kernels of the device alone, which may read its factor there: no numbers
  // that the host scales, no matrices, no state of the host.
  bool updates_by_device() const {
    return !low_precision_state() && !low_precision_gradients() && !offloads() &&
           rule->kind == UpdateKind::elementwise;
  }
  // Gradients are kept in another type than modules hand them over in.
  bool low_precision_gradients() const {
    return type(TensorClass::gradient) != accumulator() || low_precision_sums();
  }
  bool low_precision_sums() const {
    return type(TensorClass::gradient_sum) != accumulator();
  }
  bool low_precision_traffic() const {
    return type(TensorClass::gradient_traffic) != accumulator();
  }
  // Something of the above passes through the accumulator's type.
  bool low_precision() const {
    return low_precision_state() || low_precision_gradients() || low_precision_traffic();
  }
  // Gradients are added to in memory that a module opens and closes.
  bool opens_gradients() const {
    return shards_gradients() || low_precision_gradients() || exact_sums;
  }
  // A microbatch's gradients have memory beside the sums', as large as theirs.
  bool keeps_microbatch() const {
    return !shards_gradients() && low_precision_gradients() &&
           type(TensorClass::gradient) != type(TensorClass::gradient_sum);
  }
  // Moments are codes of the dynamic type, see optim/dynamic_moments.hpp.
  bool dynamic_moments() const {
    return recipe[TensorClass::moment1].scaling == Scaling::dynamic && has_moment1();
  }
  // Second moments are kept as square roots, where FP8 has the range of all gradients.
  bool keeps_roots() const { return has_moment2() && is_fp8(type(TensorClass::moment2)); }
};

// Throws Error(bad_content) naming what the store cannot keep as the recipe says,
// whatever a deck's rules let through.
void check_recipe(const StoreConfig& config);

}  // namespace trireme::optim
