// BatchLoader: prepares the batches of the next steps in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/memory.hpp"
#include "config/batch_ramp.hpp"
#include "engine/batch_memory.hpp"
#include "engine/documents.hpp"
#include "engine/sample_route.hpp"
#include "engine/step.hpp"
#include "io/sample_source.hpp"
#include "train/answer_rows.hpp"
#include "train/sample_row.hpp"
#include "train/sample_turns.hpp"

namespace trireme::train {

struct BatchLoaderConfig {
  std::uint64_t seed = 0;
  std::int64_t global = 0;  // sequences per step, of all data ranks
  std::int64_t micro = 0;   // B
  // Of this rank in a step, at least as many as it gets of global / micro. What is beyond
  // is a stand-in.
  std::int64_t microbatches = 0;
  std::int64_t data_rank = 0, data_ranks = 1;
  std::int64_t sequence = 0;  // S, of the source
  // Of those S, in this order, the positions that this rank holds; empty: all.
  std::vector<std::int64_t> positions;
  std::int64_t first_step = 1;  // steps count from 1
  std::optional<engine::DocumentRule> documents = {};
  // Of a run whose batch grows to `global` and `microbatches`; empty: all steps are
  // alike.
  std::vector<config::BatchStage> stages = {};
  // Of each answer of a source of pairs, its log-probability by the reference model;
  // null: nothing is learned from pairs. Outlives the loader.
  const std::vector<double>* references = nullptr;
  // By which ranks get what others have read; null: this rank reads, and for itself.
  const engine::SampleRoute* route = nullptr;
};

// Number in the step of row `row` of microbatch `microbatch` of this data rank:
// microbatches are dealt out in turn, so that any mesh has the same set each step. From
// `global` on: the microbatch is a stand-in.
std::int64_t sequence_of(const BatchLoaderConfig& config, std::int64_t microbatch,
                         std::int64_t row);

// Sequence s of step k (from 1) is the sample at place (k - 1) * global + s of
// SampleOrder, and with stages at place stage.sequence_of(k) + s. The thread works ahead
// by up to the batches of the ring that the trainer does not hold. Nothing is allocated
// after construction.
class BatchLoader {
 public:
  // `source` must outlive the loader and have the sequence length of `config`. Throws
  // Error(internal) for a configuration that contradicts itself.
  BatchLoader(const io::SampleSource& source, const BatchLoaderConfig& config);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The batch of the next step; it stays valid until the following call. Throws what the
  // source threw while this batch was read, in this and every later call. One thread
  // only. With a route: collective over the tensor and pipeline ranks.
  const engine::Batch& next();

 private:
  static constexpr std::int64_t ring_size = engine::batches_in_memory;

  bool reads() const { return config_.route == nullptr || config_.route->reads(); }
  engine::Batch& take();
  void distribute(engine::Batch& batch) const;
  void work();
  void give_views(engine::Batch& batch, std::int64_t tokens_T);
  std::int64_t shape(engine::Batch& batch);
  void fill(engine::Batch& batch);
  void fill_microbatch(engine::Batch& batch, std::int64_t m, std::int64_t step_begin,
                       std::int64_t cut);
  void stand_in(engine::Batch& batch);
  engine::Batch& slot(std::int64_t number) {
    return ring_[static_cast<std::size_t>(number % ring_size)];
  }

  const BatchLoaderConfig config_;
  SampleOrder order_;  // of the thread
  Buffer memory_;      // [ring, 2 views, 5 with documents, 6 with pairs, microbatches, T]
  Buffer answers_;     // of pairs: f64 [ring, microbatches, G, 2]
  SampleRow row_;      // of the thread
  AnswerRows answer_rows_;
  std::array<engine::Batch, ring_size> ring_;
  std::array<engine::Batch, ring_size>
      whole_;  // the views of steps of `global` sequences

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::int64_t filled_ = 0;    // batches ready since construction
  std::int64_t taken_ = 0;     // batches that next() gave out; the last is in use
  std::int64_t released_ = 0;  // batches whose slot may be filled again
  bool stopping_ = false;
  std::exception_ptr error_;

  std::thread thread_;  // of a rank that reads; last: it uses all of the above
};

}  // namespace trireme::train
