// ParameterStore: the memory of all weights of a stage as flat buffers, with their
// gradients, master copies and moments, and the reduction of gradients over the mesh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "base/param.hpp"
#include "comm/mesh.hpp"
#include "optim/optimizer_config.hpp"

namespace trireme::optim {

struct StoreConfig {
  DType compute = DType::f32;  // weights in use
  DType accumulate =
      DType::f32;  // gradients, master weights, moments: f32, f64 for proofs
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::int64_t bucket_bytes = 25 << 20;  // of gradients, reduced together
  bool training = true;                  // false: weights only
};

// A tensor's box in the store, for checkpoints and dumps.
struct StoredBox {
  const Slab* slab = nullptr;
  const char* section =
      "";              // "model", "optimizer/moment1", "optimizer/moment2", "gradient"
  TensorView data;     // shape slab->extent; rows may be strided
  bool write = false;  // this rank writes it: owned, and shared out over the replicas
};

class ParameterStore {
 public:
  // Allocates everything on `device` and binds value and gradient of each Param. `params`
  // in the order of forward, the same list on every rank of mesh.replicas().
  ParameterStore(std::vector<Param*> params, const StoreConfig& config, comm::Mesh& mesh,
                 Device device);

  // Every weight as a pure function of (seed, tensor name, global index).
  void initialize(std::uint64_t seed);
  // Copies master weights into the compute dtype, after they were loaded.
  void refresh_weights();

  // One step's gradients. begin_step, then ready() for every contribution of every
  // microbatch (see nn::WeightGradients), then finish_gradients(). A bucket of gradients
  // is all-reduced over the replicas as soon as its last contribution is there: once a
  // step.
  void begin_step(std::int64_t microbatches);
  void ready(Param& param);
  // Waits for the buckets; then sums what is still partial over the tensor axis.
  void finish_gradients();
  // Lets reductions in flight move on.
  void progress() { mesh_.replicas().progress(); }

  // Norm of the whole model's gradient, every element counted once; the same on all
  // ranks.
  double gradient_norm();
  // One optimizer step; leaves the gradients at zero. step: 1 for the first.
  void update(const OptimizerConfig& config, double learning_rate, double gradient_scale,
              std::int64_t step);
  // Leaves the gradients at zero without an update.
  void clear_gradients();

  // Boxes of all tensors: weights (master where there is one) and moments.
  std::vector<StoredBox> state_boxes() const;
  std::vector<StoredBox> gradient_boxes() const;

  std::int64_t local_elements() const;  // parameters on this rank, without padding
  std::size_t weight_bytes() const { return weights_.bytes(); }
  std::size_t gradient_bytes() const { return gradients_.bytes(); }
  std::size_t optimizer_bytes() const {
    return master_.bytes() + moment1_.bytes() + moment2_.bytes();
  }
  std::size_t communication_bytes() const { return partial_.bytes() + scalar_.bytes(); }
  const std::vector<Param*>& params() const { return params_; }

 private:
  // A contiguous range of the flat gradient that is reduced together.
  struct Bucket {
    std::int64_t begin = 0, end = 0;  // elements
    std::int64_t params = 0;          // that lie in it
    std::int64_t pending = 0;         // of them not complete in this step
    comm::Handle handle;
  };
  // Where a Param lies.
  struct Entry {
    std::int64_t begin = 0, elements = 0;
    std::size_t bucket = 0;
    std::int64_t missing = 0;  // contributions in this step
  };
  // A whole tensor whose gradient is a partial sum on the ranks of the tensor axis, with
  // this rank's boxes of it.
  struct PartialTensor {
    const Slab* any = nullptr;  // for name and shape
    std::vector<std::pair<const Slab*, TensorView>> boxes;
  };

  void lay_out();
  void allocate(Device device);
  void cut_buckets();
  void find_partial_tensors();
  void sum_partial_range(std::size_t first, std::size_t last);
  std::size_t index_of(const Param& param) const;
  TensorView box(const TensorView& flat, const Param& param, const Slab& slab) const;
  void append_boxes(const char* section, const TensorView& flat,
                    std::vector<StoredBox>& boxes) const;
  TensorView master() const {
    return master_.view().empty() ? weights_.view() : master_.view();
  }

  std::vector<Param*> params_;
  StoreConfig config_;
  comm::Mesh& mesh_;
  Stream stream_;
  std::vector<Entry> entries_;  // parallel to params_
  std::unordered_map<const Param*, std::size_t> index_;
  std::int64_t elements_ = 0;  // of a flat buffer, padding included
  Buffer weights_, master_, gradients_, moment1_, moment2_;
  Buffer partial_;  // sums over the tensor axis pass through it
  Buffer scalar_;   // one f64
  std::vector<Bucket> buckets_;
  std::vector<PartialTensor> partial_tensors_;
};

}  // namespace trireme::optim
