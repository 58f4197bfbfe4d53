// ParameterStore: the memory of all weights of a rank, and how replicas share it out.
// SPDX-License-Identifier: Apache-2.0
// With the weights it holds gradients, master copies and moments, and it reduces the
// gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "base/recipe.hpp"
#include "base/weight_access.hpp"
#include "comm/mesh.hpp"
#include "kernels/rounding.hpp"
#include "optim/matrix_update.hpp"
#include "optim/optimizer_config.hpp"
#include "optim/stored_numbers.hpp"
#include "optim/stored_report.hpp"
#include "optim/unit.hpp"

namespace trireme::optim {

// What the ranks of a shard group share out instead of repeating; each includes those
// before it (Rajbhandari et al., 2020: ZeRO-1, 2, 3).
enum class Sharding : std::uint8_t { none, optimizer, gradients, weights };

// What lives in the host's memory, away from the device that computes; weights: with the
// optimizer's state.
enum class Offload : std::uint8_t { none, optimizer, weights };

struct StoreConfig {
  Recipe recipe = recipe_named("fp32");
  const UpdateRule* rule = &update_rule("adamw", 0.9);
  std::int64_t bucket_bytes = 25
                              << 20;  // of gradients, reduced together (Sharding::none)
  bool training = true;               // false: weights only
  Sharding sharding = Sharding::none;
  std::int64_t wrap_parameters = 0;  // see make_units()
  int prefetch = 1;                  // modules fetched ahead
  int gathered_units = 0;  // most bundles gathered at once; 0: one module and prefetch
  Offload offload = Offload::none;
  std::uint64_t seed = 0;  // of roundings by chance
  // What rounding takes from gradients on the wire is added to the next ones.
  bool error_feedback = false;
  bool reports = false;  // room for report()

  DType type(TensorClass what) const { return recipe[what].type; }
  // What modules compute in, and in what they hand over gradients.
  DType module_type() const { return type(TensorClass::activation); }
  DType wide() const { return accumulator_of(module_type()); }
  // In what modules are given weights. FP8 codes are made of weights as they are kept, as
  // Transformer Engine casts the parameter itself: modules then convert what else they
  // multiply with. FP8 weights are decoded, which in bf16 loses nothing.
  DType bound_type() const {
    const DType kept = type(TensorClass::weight);
    return recipe.fp8() && !is_fp8(kept) ? kept : module_type();
  }
  // The optimizer's kernels do not take the state as it is.
  bool narrow_state() const;
  // First moments, or a momentum; second moments.
  bool has_moment1() const { return rule->states() > 0; }
  bool has_moment2() const { return rule->states() > 1; }
};

// A tensor's box in the store, for checkpoints and dumps.
struct StoredBox {
  const Slab* slab = nullptr;
  std::string_view section;  // "model", "optimizer/moment1", "optimizer/moment2",
                             // "gradient"; codes and numbers of FP8 and fp16 with
                             // their scales, [1] each: "optimizer/moment1_scale", ...
  Shape global_begin;        // of the box in the tensor; its extent is data.shape()
  TensorView data;           // dense
  bool write = false;        // this rank writes it: owned, and dealt out over the copies
};

// Bytes that crossed between the device and the host's memory for offloading.
struct OffloadTraffic {
  std::int64_t to_host = 0, to_device = 0;
};

class ParameterStore final : public WeightAccess {
 public:
  // Allocates everything on `device` and binds the Params, as far as they are whole at
  // rest. `modules` in the order of forward, the same list on every replica. The shard
  // groups are the mesh's; Sharding::none needs mesh.folding().shard = 1.
  ParameterStore(const std::vector<ParamModule>& modules, const StoreConfig& config,
                 comm::Mesh& mesh, Device device);

  // Every weight as a pure function of (seed, tensor name, global index). No rank holds
  // more than its share.
  void initialize(std::uint64_t seed);
  // Brings the weights in use up to date with the master weights, after they were loaded.
  void refresh_weights();

  // Weights are gathered when they are needed, and ahead of that; a released module stays
  // until its room is needed (Sharding::weights).
  void fetch(int module, Direction direction) override;
  void release(int module) override;

  // One step's gradients. begin_step, then the contributions of every microbatch through
  // WeightAccess, then finish_gradients(). Sharding::none and optimizer: gradients are
  // accumulated whole and reduced once a step, as soon as the last contribution is there,
  // or in finish_gradients() where they are kept or sent in less than the wide type.
  // Beyond: each microbatch's are reduced and scattered as a module closes, and added up
  // in shares; copies are summed once a step.
  void begin_step(std::int64_t microbatches);
  void open_gradients(int module) override;
  void close_gradients(int module) override;
  void ready(Param& param) override;
  // Waits for the reductions; then sums what is still partial over the tensor axis, and
  // the two copies of a table that the ends of the pipeline share.
  void finish_gradients();
  // Lets reductions in flight move on.
  void progress() { mesh_.everyone().progress(); }

  // Norm of the whole model's gradient, every element counted once; the same on all
  // ranks.
  double gradient_norm();
  // One optimizer step; leaves the gradients at zero. step: 1 for the first.
  // learning_rate: of the Params that have none of their own, whose rate is a function of
  // config.schedule and step.
  void update(const OptimizerConfig& config, double learning_rate, double gradient_scale,
              std::int64_t step);
  // Leaves the gradients at zero without an update.
  void clear_gradients();
  // Makes a number of this rank's sums NaN, as they are kept: a fault for tests.
  void spoil_gradients();

  // Counting what rounding takes, from begin(): of gradients as they are kept and sent,
  // and in update() of moments and weights. Off without StoreConfig::reports, and where
  // nothing is narrow but weights that are plain numbers.
  StoredReport& report() { return report_; }

  // Boxes of this rank's share of all tensors: weights (master where there is one) and
  // moments.
  std::vector<StoredBox> state_boxes() const;
  // The sums over the whole mesh, decoded where they are kept in a narrow type.
  std::vector<StoredBox> gradient_boxes();

  // What error feedback carries over, which belongs to this rank alone and means nothing
  // on another mesh: whole tensors under names of this layout and rank. None without it.
  std::vector<StoredBox> feedback_boxes() const;
  void clear_feedback();

  std::int64_t local_elements() const;  // parameters on this rank, without padding
  std::size_t weight_bytes() const {
    return weights_.bytes() + gathered_.bytes() + wire_.bytes();
  }
  std::size_t gradient_bytes() const {
    return gradients_.bytes() + microbatch_.bytes() + opened_.bytes();
  }
  std::size_t optimizer_bytes() const {
    return master_.bytes() + moment1_.bytes() + moment2_.bytes();
  }
  // Weights, gradients and the optimizer's state, without room for what is gathered or
  // opened for a module: the recipe's bytes per parameter times the elements of all units
  // (Sharding::none, nothing frozen).
  std::size_t state_bytes() const {
    return weights_.bytes() + gradients_.bytes() + microbatch_.bytes() +
           optimizer_bytes();
  }
  // Room that narrow numbers pass through on their way to the arithmetic, and scales.
  std::size_t workspace_bytes() const;
  std::size_t communication_bytes() const {
    return partial_.bytes() + scalar_.bytes() + shards_feedback_.bytes() +
           copies_feedback_.bytes();
  }
  std::size_t staged_bytes() const {
    return staged_gradient_.bytes() + staged_weight_.bytes();
  }
  const StoreConfig& config() const { return config_; }
  const std::vector<Unit>& units() const { return layout_.units; }
  const std::vector<Param*>& params() const { return params_; }
  const OffloadTraffic& offload_traffic() const { return traffic_; }
  // Most bundles that were gathered at once so far, and gathers made.
  int peak_gathered() const { return peak_gathered_; }
  std::int64_t gathers() const { return gathers_; }

 private:
  // A contiguous range of the whole flat gradient that is reduced together.
  struct Bucket {
    std::int64_t begin = 0, end = 0;  // elements
    comm::Group* copies = nullptr;
    std::int64_t params = 0;   // that lie in it
    std::int64_t pending = 0;  // of them not complete in this step
    comm::Handle handle;
  };
  // Where a Param is.
  struct Entry {
    std::size_t unit = 0;
    const Piece* piece = nullptr;
    std::size_t bucket = 0;
    std::int64_t missing = 0;  // contributions in this step
  };
  // Room for a gathered bundle of weights, or for the whole gradients of one.
  struct Slot {
    int bundle = -1;
    int users = 0;
    std::int64_t last_use = 0;
    bool settled = true;  // nothing is in flight
    std::vector<comm::Handle> handles;
  };
  // A whole tensor whose gradient is a partial sum on the ranks of the tensor axis, with
  // this rank's boxes of it.
  struct PartialTensor {
    const Slab* any = nullptr;  // for name and shape
    std::vector<std::pair<FlatBox, TensorView>> boxes;
  };
  // The part of a unit that belongs to one tensor, in one run of elements.
  struct Segment {
    std::size_t tensor = 0;  // place in tensors_
    const Param* param = nullptr;
    const Slab* slab = nullptr;
    Range range;  // elements of the unit
  };
  // A tensor of the store, with one scale in each class that has scales, but for weights
  // that have one for each 128 x 128.
  struct StoredTensor {
    const Unit* unit = nullptr;
    Slab scale;                   // of checkpoints, without the section
    std::size_t first_scale = 0;  // in the weights' scales
    std::int64_t weight_scales = 1;
    std::uint64_t stream = 0;  // of random numbers
  };
  // What rounding took from gradients in the reductions over one kind of group.
  struct Feedback {
    Buffer sent;                          // from this rank's numbers
    Buffer result;                        // from the sums that this rank makes
    std::vector<std::int64_t> result_at;  // of each unit
    Slab sent_slab, result_slab;          // of checkpoints
    std::size_t bytes() const { return sent.bytes() + result.bytes(); }
  };
  // Of scales, one after the other for each tensor.
  enum class Scaled : std::uint8_t { weight, moment1, moment2 };
  static constexpr std::size_t scaled_classes = 3;

  // Layout and memory.
  void allocate(Device device);
  void allocate_slots(Device device);
  void bind_whole();
  void cut_buckets();
  void find_partial_tensors();
  bool shares_weights() const { return config_.sharding == Sharding::weights; }
  bool shares_gradients() const { return config_.sharding >= Sharding::gradients; }
  // Modules are given weights in another type than they are kept in: copies.
  bool converts_weights() const {
    return config_.type(TensorClass::weight) != config_.bound_type();
  }
  bool fetches_weights() const { return shares_weights() || converts_weights(); }
  // Gradients are kept in another type than modules hand them over in.
  bool narrow_gradients() const {
    return config_.type(TensorClass::gradient) != config_.wide() ||
           config_.type(TensorClass::gradient_sum) != config_.wide();
  }
  bool opens_gradients() const { return shares_gradients() || narrow_gradients(); }
  bool narrow_traffic() const {
    return config_.type(TensorClass::gradient_traffic) != config_.wide();
  }
  // A gradient of a microbatch has memory beside the sum's, as large as the sum's.
  bool has_microbatch() const {
    return !shares_gradients() && narrow_gradients() &&
           config_.type(TensorClass::gradient) != config_.type(TensorClass::gradient_sum);
  }
  bool narrow_state() const { return config_.narrow_state(); }
  bool owns_master() const { return !master_.view().empty(); }
  // This rank's share of a unit, in a buffer of shares, and of the weights in use and the
  // gradients, wherever they lie.
  static TensorView share_in(const Buffer& shares, const Unit& unit);
  static TensorView share_of_whole(const Buffer& wholes, const Unit& unit);
  TensorView weight_share(const Unit& unit) const;
  TensorView gradient_share(const Unit& unit) const;
  TensorView master_share(const Unit& unit) const;
  // Calls body(piece, range of the piece's elements, the range's place in the share).
  template <class Body>
  void for_each_piece(const Unit& unit, const Body& body) const;
  void append_boxes(std::string_view section, const Unit& unit, const TensorView& share,
                    std::int64_t& owned, std::vector<StoredBox>& boxes) const;
  Entry& entry_of(const Param& param);

  // Gathered weights.
  Slot* slot_of(int bundle);
  Slot* idle_slot(std::int64_t before);
  void start_gather(Slot& slot, int bundle);
  void settle_gather(Slot& slot);
  void forget_gathered();
  void bind_values(int bundle, const TensorView& memory);
  TensorView slot_memory(const std::vector<Slot>& slots, const Slot& slot,
                         const Buffer& memory) const;

  // Gradients.
  Slot& open_slot(int bundle);
  void start_reduction(Slot& slot);
  void settle_reduction(Slot& slot);
  void bind_gradients(int bundle, const TensorView& memory);
  void sum_partial_range(std::size_t first, std::size_t last);
  void sum_partial_tensors();

  // Numbers of types that kernels do not take: optim/narrow_*.cpp.
  void check_recipe() const;
  void find_segments();
  void allocate_narrow(Device device);
  void append_scale_boxes(std::string_view section, const Scales& scales,
                          std::vector<StoredBox>& boxes) const;
  // Calls body(segment, its elements in `range` of the unit), in order.
  template <class Body>
  void for_each_segment(const Unit& unit, Range range, const Body& body) const;
  // The same, at most as many elements at a time as the wide room has.
  template <class Body>
  void for_each_part(const Unit& unit, Range range, const Body& body) const;
  std::int64_t part_elements() const { return wide_.view().elements() / wide_rooms; }
  TensorView wide_room(int i, std::int64_t elements) const;
  static constexpr std::int64_t wide_rooms = 4;
  TensorView amax_one() const;  // [1] f32 on the device
  // Weights.
  void convert_weights(const Unit& unit, const TensorView& kept, const TensorView& used);
  void encode_weights();
  bool scales_squares() const {
    return config_.recipe[TensorClass::weight].scaling == Scaling::blocks;
  }
  static kernels::TensorRun run_of(const Segment& segment, Range part);
  void start_amaxes();
  void note_weight_amax(const Segment& segment, Range part, const TensorView& wide);
  // encode() of numbers of a class, which the report counts.
  void encode_as(TensorClass what, const TensorView& wide, const Scales& scales,
                 std::size_t tensor, const TensorView& y);
  void encode_weight(const Segment& segment, Range part, const TensorView& wide,
                     const Scales& scales, const TensorView& codes);
  void set_square_scales();
  void max_over_holders(const TensorView& room, std::int64_t dense);
  void update_narrow(const OptimizerConfig& config, double learning_rate,
                     double gradient_scale, std::int64_t step);
  // State that is offloaded passes through rooms on the device, part by part; other state
  // is its own room. brought: as it is kept; room_for: to be written, then given back.
  TensorView brought(int i, const TensorView& kept);
  TensorView room_for(int i, const TensorView& kept, bool away) const;
  void give_back(const TensorView& room, const TensorView& kept);
  void load_part(const Unit& unit, std::size_t tensor, Range part);
  // Second moments of FP8 are kept as square roots.
  bool keeps_roots() const {
    return !moment2_.view().empty() && is_fp8(config_.type(TensorClass::moment2));
  }
  // What a random rounding is for.
  enum class RoundedBy : std::uint8_t { master, moment2 };
  kernels::RoundingKey key_of(const Segment& segment, RoundedBy use,
                              std::int64_t step) const;
  void round_part(const Segment& segment, Range part, std::int64_t step);
  void round_roots(const Segment& segment, Range part, std::int64_t step);
  void note_amaxes(const Segment& segment, Range part);
  void store_part(const Unit& unit, const Segment& segment, Range part,
                  std::int64_t step);
  void agree_on_scales();
  // Gradients. `wide` holds elements [range) of the unit.
  std::vector<float> gradient_amaxes(const Unit& unit, Range range,
                                     const TensorView& wide);
  void agree(comm::Group& group, std::vector<float>& amaxes);
  void set_gradient_scales(const Unit& unit, const std::vector<float>& amaxes, DType type,
                           double room, Scales& scales);
  void round_gradient(const Unit& unit, const TensorView& wide);
  void deliver(Slot& slot);
  void add_to_sum(const Unit& unit, Range range, const TensorView& wide,
                  const TensorView& sum);
  void decode_sum(const Unit& unit, Range range, const TensorView& sum,
                  const TensorView& wide);
  void encode_sum(const Unit& unit, Range range, const TensorView& wide,
                  const TensorView& sum);
  void finish_narrow();
  void with_wide_sum(const Unit& unit, Range range, const TensorView& sum,
                     const std::function<void(const TensorView&)>& body);
  void all_reduce_gradient(const Unit& unit, comm::Group& group, Range range,
                           const TensorView& wide);
  void reduce_scatter_gradient(const Unit& unit, const TensorView& wide);
  void sum_codes(const Unit& unit, comm::Group& group, Range range,
                 const TensorView& wide, bool everywhere);
  void decode_codes(const Unit& unit, Range range, const TensorView& codes,
                    const Scales& scales, const TensorView& wide);
  // Elements of a sum of `count` that one of the ranks makes.
  static std::int64_t part_of_sum(std::int64_t count, std::int64_t ranks) {
    return divide_up(divide_up(count, ranks), alignment_elements) * alignment_elements;
  }
  // Error feedback: optim/error_feedback.cpp.
  void allocate_feedback(Device device);
  TensorView sent_loss(const Unit& unit, Range range, bool everywhere) const;
  TensorView result_loss(const Unit& unit, std::int64_t count, bool everywhere) const;
  void keep_loss(const Unit& unit, Range range, const TensorView& wide,
                 const TensorView& codes, const Scales& scales,
                 const std::vector<float>& amaxes, const TensorView& loss);
  TensorView sent_room(int i, DType type, std::int64_t elements) const;
  void move_partial(const FlatBox& box, const TensorView& data, const TensorView& target,
                    bool out);
  void add_narrow_squares(const Unit& unit, const TensorView& share);
  std::size_t tensor_of(const Slab& slab) const { return tensor_index_.at(slab.tensor); }

  // Updates.
  void update_range(const OptimizerConfig& config, const Param& param,
                    double learning_rate, double gradient_scale, std::int64_t step,
                    const TensorView& main, const TensorView& gradient,
                    const kernels::UpdateStates& states, const TensorView& weight);
  void update_piece(const OptimizerConfig& config, double learning_rate,
                    double gradient_scale, std::int64_t step, const Unit& unit,
                    const Piece& piece, std::int64_t at, std::int64_t count);
  void update_matrices(const OptimizerConfig& config, double learning_rate,
                       double gradient_scale, std::int64_t step);
  void move(const TensorView& from, const TensorView& to, std::int64_t& counter);
  void round_weights(const TensorView& master, const TensorView& weights);

  StoreConfig config_;
  comm::Mesh& mesh_;
  Stream stream_;
  UnitLayout layout_;
  std::vector<Param*> params_;
  std::unordered_map<const Param*, Entry> entries_;
  Buffer weights_;                          // of all units: whole, or shares
  Buffer gathered_;                         // slots of whole bundles
  Buffer gradients_;                        // of the trained units: whole, or shares
  Buffer opened_;                           // slots of whole bundles' gradients
  Buffer master_, moment1_, moment2_;       // shares
  Buffer staged_gradient_, staged_weight_;  // pieces on their way to and from the host
  Buffer partial_;                          // sums over the tensor axis pass through it
  Buffer scalar_;                           // one f64
  Buffer wire_;        // slots of bundles as they are gathered, before they are converted
  Buffer microbatch_;  // whole gradients of one microbatch
  std::vector<StoredTensor> tensors_;  // dense, then experts'
  std::unordered_map<std::string, std::size_t> tensor_index_;
  std::size_t dense_tensors_ = 0;
  std::size_t dense_weight_scales_ = 0, weight_scales_count_ = 0;
  std::vector<std::vector<Segment>> segments_;  // of each unit
  Scales weight_scales_, moment1_scales_, moment2_scales_;
  Scales next_weight_scales_, next_moment1_scales_, next_moment2_scales_;
  Scales sum_scales_, microbatch_scales_, sent_scales_, result_scales_;
  std::vector<float> amaxes_;  // of each tensor and scaled class
  Buffer amax_room_;           // the same on the device, and one more
  Buffer square_amaxes_;       // of weights that are scaled by squares
  Buffer wide_;                // parts of master weights, gradients and moments
  Buffer wide_sum_;            // a unit's whole gradient
  Buffer sent_;                // the same as it is sent, and as it comes
  Buffer dump_;                // gradients as they are shown
  StoredReport report_;
  Buffer staged_state_;  // parts of offloaded state, as it is kept
  Feedback shards_feedback_, copies_feedback_;
  std::vector<Slot> weight_slots_, gradient_slots_;
  std::size_t next_gradient_slot_ = 0;
  std::int64_t clock_ = 0, gathers_ = 0;
  int peak_gathered_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<comm::Handle> unit_handles_;  // parallel to units
  std::vector<std::int64_t> unit_pending_;
  std::vector<PartialTensor> partial_tensors_;
  OffloadTraffic traffic_;
  MatrixUpdate matrices_;
};

template <class Body>
void ParameterStore::for_each_piece(const Unit& unit, const Body& body) const {
  const Range share = unit.share();
  for (const Piece& piece : unit.pieces) {
    const std::int64_t begin = std::max(share.begin, piece.begin);
    const std::int64_t end = std::min(share.end, piece.begin + piece.elements);
    if (begin >= end) continue;
    body(piece, Range{begin - piece.begin, end - piece.begin}, begin - share.begin);
  }
}

template <class Body>
void ParameterStore::for_each_segment(const Unit& unit, Range range,
                                      const Body& body) const {
  const auto u = static_cast<std::size_t>(&unit - layout_.units.data());
  for (const Segment& segment : segments_[u]) {
    const Range part{std::max(range.begin, segment.range.begin),
                     std::min(range.end, segment.range.end)};
    if (part.begin < part.end) body(segment, part);
  }
}

template <class Body>
void ParameterStore::for_each_part(const Unit& unit, Range range,
                                   const Body& body) const {
  const std::int64_t most = part_elements();
  for_each_segment(unit, range, [&](const Segment& segment, Range part) {
    for (std::int64_t at = part.begin; at < part.end; at += most)
      body(segment, Range{at, std::min(at + most, part.end)});
  });
}

}  // namespace trireme::optim
