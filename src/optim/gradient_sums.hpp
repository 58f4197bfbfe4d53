// GradientSums: a step's gradients, from a microbatch to the sum over the mesh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "optim/exact_sums.hpp"
#include "optim/gradient_traffic.hpp"
#include "optim/number_codec.hpp"
#include "optim/opened_gradients.hpp"
#include "optim/tensor_axis_gradients.hpp"

namespace trireme::optim {

// Sums over ranks are sent in another type than the accumulator's, or of numbers that are
// kept in one. They wait for finish(): memory for such numbers is that of one flat
// parameter, but for exact sums, which have all.
inline bool converts_sums(const StoreConfig& config) {
  return config.exact_sums || config.low_precision_traffic() ||
         (config.shards_gradients() ? config.low_precision_sums()
                                    : config.low_precision_gradients());
}

// Sharding::none and optimizer: gradients are accumulated unsharded and reduced once a
// step, as soon as the last contribution is there, or in finish() where they are kept or
// sent in less than the accumulator's type. Beyond: each microbatch's are reduced and
// scattered as a module closes, and added up in shards. Replicas of a shard are summed
// once a step, as soon as the step's last contribution to its bucket was added, so that
// they travel under the rest of backward; in finish() where sums are kept or sent in less
// than the accumulator's type. Only made for training.
class GradientSums : private TensorAxisGradients::Codec {
 public:
  GradientSums(StoreContext& context, NumberCodec& codec, Device device);

  // begin(), then the contributions of every microbatch, then finish(): see WeightAccess.
  // What the sums are left with, finite or not, is no part of the next step.
  void begin(std::int64_t microbatches);
  void open(int module);
  void close(int module);
  void ready(Param& param);
  // What was closed has been added up, and nothing of it is in flight but sums over
  // replicas.
  void finish_closed();
  // The stream waits for the sums over replicas that have begun.
  void wait_for_sums();
  // A graph was launched that makes these contributions, then settles, and waits for the
  // sums over replicas: in place of ready() of each, and of what began with that.
  void launched(std::span<Param* const> params);
  // Waits for the reductions; then sums what is still partial over the tensor axis, and
  // the two copies of a table that the ends of the pipeline share.
  void finish();

  // Sum of the squares of this rank's part of the gradient: over all ranks, every element
  // of the whole model's counts once.
  // With `sum`, f64 [1] on the device, they are added to that, nothing waits for it, and
  // the result is 0.
  double squares(const TensorView& sum = {});
  // Makes a number of this rank's sums NaN, as they are kept: a fault for tests.
  void inject_nan();

  // This rank's shard of the sums, as they are kept, and their scales.
  TensorView shard(const FlatParameter& flat) const;
  const Scales& scales() const { return sum_scales_; }
  // The sums over the whole mesh in the accumulator's type.
  std::vector<StateBox> boxes();
  GradientTraffic& traffic() { return traffic_; }
  const GradientTraffic& traffic() const { return traffic_; }

  std::size_t bytes() const { return bytes_at_rest() + (opened_ ? opened_->bytes() : 0); }
  std::size_t bytes_at_rest() const {
    return sums_.bytes() + microbatch_.bytes() + (exact_ ? exact_->bytes() : 0);
  }
  std::size_t workspace_bytes() const;
  std::size_t communication_bytes() const { return partial_->bytes() + norm_.bytes(); }

 private:
  // A range of unsharded sums that one all-reduce sums.
  struct ReduceBucket {
    std::int64_t begin = 0, end = 0;  // elements
    comm::Group* group = nullptr;
    std::int64_t params = 0;   // that lie in it
    std::int64_t pending = 0;  // of them not complete in this step
    comm::Handle handle;
  };
  struct ParamState {
    std::size_t flat = 0;
    std::size_t bucket = 0;    // of reduce_buckets_
    std::int64_t missing = 0;  // contributions in this step
  };
  struct FlatState {
    std::int64_t pending = 0;    // Params not complete in this step
    bool over_replicas = false;  // their sum was started in this step
    bool stale = false;          // nothing was added to its shard in this step
    comm::Handle handle;
    // Once a step, whoever asks first.
    void sum_over_replicas(Stream& stream, const FlatParameter& flat,
                           const TensorView& shard);
  };
  void allocate(Device device);
  // Zeros, and scales of 1: those of gradients that were not finite are not.
  void clear();
  void bind_whole();
  void cut_buckets();
  // Notes a contribution; null unless it was the last of this step.
  const ParamState* count(Param& param);
  // Whole gradients of a module that was closed: where sums are sharded they are reduced,
  // and joined to this rank's shards when that is done; else they join this rank's sums.
  void start_reduction(BucketBuffer& buffer);
  void add_reduced(BucketBuffer& buffer);
  void add_whole(BucketBuffer& buffer);
  void round_microbatch(const FlatParameter& flat, const TensorView& values);
  // Sums that are kept in another type than the accumulator's. `range` of the flat
  // parameter; `values` are left undefined.
  void add(const FlatParameter& flat, Range range, const TensorView& values,
           const TensorView& sum);
  void decode_sum(const FlatParameter& flat, Range range, const TensorView& sum,
                  const TensorView& values);
  void encode_sum(const FlatParameter& flat, Range range, const TensorView& values,
                  const TensorView& sum);
  void with_values(const FlatParameter& flat, Range range, const TensorView& sum,
                   const std::function<void(const TensorView&)>& body);
  void reduce_low_precision();
  void add_squares(const FlatParameter& flat, const TensorView& shard,
                   const TensorView& sum, std::vector<TensorView>& plain);
  void decode(const NamedBox& named, const TensorView& box,
              const TensorView& values) override;
  void encode(const NamedBox& named, const TensorView& values,
              const TensorView& box) override;
  void rescale(const NamedBox& named, const TensorView& whole) override;

  StoreContext& context_;
  NumberCodec& codec_;
  GradientTraffic traffic_;
  Buffer sums_;        // of trained flat parameters: unsharded, or shards
  Buffer microbatch_;  // of one microbatch, where it is kept in a type of its own
  Buffer values_;      // an unsharded flat parameter's gradient, decoded
  Buffer norm_;        // f64 [1]
  Buffer shown_;       // shards in the accumulator's type, for boxes()
  Scales sum_scales_, microbatch_scales_;
  std::unordered_map<const Param*, ParamState> params_;
  std::vector<FlatState> flats_;
  std::vector<ReduceBucket> reduce_buckets_;
  std::optional<OpenedGradients> opened_;
  std::optional<TensorAxisGradients> partial_;
  std::optional<ExactSums> exact_;
};

}  // namespace trireme::optim
