// BatchGenerator: continues many texts together, on all ranks of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "infer/lane.hpp"
#include "infer/stage_chain.hpp"

namespace trireme::infer {

// What a batch has done so far.
struct BatchProgress {
  std::int64_t texts = 0;          // that ended
  std::int64_t new_tokens = 0;     // that were added to texts
  std::int64_t prompt_tokens = 0;  // that ran, repeated ones included
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;  // of texts that run again for want of cache
};

// One lane for each stage, so that a stage works on one lane while the others are on
// their way. Products have independent rows (kernels::set_independent_rows) while run()
// works: a text is the same to the bit whatever runs beside it.
class BatchGenerator {
 public:
  // Collective over the model's ranks. `pipeline` is the group of the stages. The model,
  // the group and the generations outlive it. Throws Error(resources), before anything is
  // allocated, where the cache cannot hold the longest text. Of a model on meta it tells
  // what it would take.
  BatchGenerator(const LoadedModel& model, comm::Group& pipeline,
                 const BatchOptions& options, const std::vector<Generation>& generations);

  // Runs the generations with these numbers; `done` gets each as it ends, in an order
  // that depends on the options. After each step `watch` sees how far it is. All ranks
  // get the same calls.
  void run(const std::vector<std::size_t>& numbers,
           const std::function<void(std::size_t, Generated&&)>& done,
           const std::function<void(const BatchProgress&)>& watch = {});

  std::size_t cache_bytes() const { return cache_->bytes(); }
  // The cache and all else that it takes.
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(cache_->bytes() + saved_->capacity() +
                                     scratch_->capacity());
  }
  // What the kernels of a GPU take beside that.
  std::int64_t kernel_bytes() const { return kernel_bytes_; }
  // Texts that run at once, over all lanes.
  std::int64_t texts() const { return texts_; }

 private:
  struct InFlight {
    std::vector<Lane::Piece> pieces;
    Buffer results;  // f64 [texts of a lane, width]: token, probabilities
    bool any = false;
  };
  void plan_cache(comm::Group& pipeline);
  void plan_memory();
  nn::Pass pass_of(Stream& stream, Arena& saved, Arena& scratch, std::int64_t rows);
  std::int64_t samples(const InFlight& step) const;
  // One step of a lane: rows in, results out or on their way.
  void start(Stream& stream, int lane);
  void finish(Stream& stream, int lane,
              const std::function<void(std::size_t, Generated&&)>& done);
  void upload(Stream& stream, const InFlight& step);
  TensorView sampled_rows(nn::Pass& pass, const InFlight& step, const TensorView& x_TD);
  void sample(const InFlight& step, const std::vector<double>& logits);

  const LoadedModel& model_;
  BatchOptions options_;
  const std::vector<Generation>& generations_;
  std::int64_t texts_ = 0, width_ = 0, kernel_bytes_ = 0;
  Lane::Queue queue_;
  std::vector<CacheGroup> groups_;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<PagedAttention> attention_;
  StageChain chain_;
  std::vector<Lane> lanes_;
  std::vector<InFlight> flights_;
  WeightAccess in_place_;
  nn::WeightGradients no_gradients_;
  // Tokens, positions, and the rows that say which token comes next, [3, rows of a step].
  Buffer ids_;
  std::unique_ptr<Arena> saved_, scratch_;
  Buffer landing_;  // of logits
  std::vector<double> logits_;
  BatchProgress progress_;
};

}  // namespace trireme::infer
