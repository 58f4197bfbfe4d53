// AnswerPass: the log-probability of every answer of a source of pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "comm/mesh.hpp"
#include "config/run_config.hpp"
#include "engine/documents.hpp"
#include "engine/engine.hpp"
#include "io/sample_source.hpp"
#include "train/answer_rows.hpp"
#include "train/sample_row.hpp"

namespace trireme::train {

// By the number of the answer in the source: the sum over its learned tokens, and how
// many these are; 0 tokens: the answer was not read.
struct AnswerTable {
  std::vector<double> log_probabilities;
  std::vector<double> tokens;
};

class AnswerPass {
 public:
  // Both outlive this. Allocates a microbatch.
  AnswerPass(const config::RunConfig& config, const io::SampleSource& source);

  // By the engine's weights as they are, of the first `samples` samples (0: of all), a
  // microbatch at a time. The same table on every rank. Collective over the mesh; `beat`
  // is called before each round of microbatches. `stops`: whether to leave off there, the
  // same on all ranks; then the table is empty.
  AnswerTable run(engine::Engine& engine, comm::Mesh& mesh, std::int64_t samples,
                  const std::function<void()>& beat, const std::function<bool()>& stops);
  // A round is a microbatch on each data rank.
  std::int64_t samples_of_round() const {
    return config_.parallel.mesh.data * config_.batch.micro;
  }
  // How many rounds the samples are; 0: all samples.
  std::int64_t rounds(std::int64_t samples) const;
  // As run() over all samples, but only the rounds from `first` to before `last`.
  AnswerTable run_rounds(engine::Engine& engine, comm::Mesh& mesh, std::int64_t first,
                         std::int64_t last, const std::function<void()>& beat);

 private:
  AnswerTable run(engine::Engine& engine, comm::Mesh& mesh, std::int64_t samples,
                  std::int64_t first, std::int64_t last,
                  const std::function<void()>& beat, const std::function<bool()>& stops);
  void fill(std::int64_t first, std::int64_t samples,
            const std::vector<std::int64_t>& positions);

  const config::RunConfig& config_;
  const io::SampleSource& source_;
  SampleRow row_;
  AnswerRows answer_rows_;
  Buffer ids_;      // i32 [6, T]: inputs, targets, three of documents, numbers of answers
  Buffer answers_;  // f64 [G, 2]
};

}  // namespace trireme::train
