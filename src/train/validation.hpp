// Validation: the loss on text that is not trained on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/mesh.hpp"
#include "config/run_config.hpp"
#include "engine/documents.hpp"
#include "engine/engine.hpp"
#include "engine/sample_route.hpp"
#include "io/sample_source.hpp"
#include "train/sample_row.hpp"

namespace trireme::train {

class Validation {
 public:
  struct Loss {
    double mean = 0;     // over the real tokens of the validation sequences, or pairs
    double seconds = 0;  // that it took
    std::optional<double> right{};  // of pairs: share whose order the model agrees with
  };

  // Opens the source by `open` and allocates a microbatch, with
  // metrics.validate_every > 0. route: of the samples. config outlives this.
  Validation(const config::RunConfig& config, const engine::SampleRoute& route,
             const io::OpenSource& open);

  // Null without validation.
  const io::SampleSource* source() const { return source_.get(); }
  // Whether they are pairs of answers.
  bool has_pairs() const { return source_ != nullptr && source_->answers() > 0; }
  // Of those: the reference model's log-probabilities, which a loss needs.
  void hold_against(std::vector<double> references) {
    references_ = std::move(references);
  }
  // Whether it is due after step `step`.
  bool due(std::int64_t step) const;
  // Collective over the mesh. `beat` is called before each round of microbatches.
  // `stops`: whether to leave off there, the same on all ranks; then there is no loss.
  // Nor is there one, as a warning says, where no token is a target.
  std::optional<Loss> run(engine::Engine& engine, comm::Mesh& mesh,
                          const std::function<void()>& beat,
                          const std::function<bool()>& stops);

 private:
  std::optional<Loss> run_pairs(engine::Engine& engine, comm::Mesh& mesh,
                                const std::function<void()>& beat,
                                const std::function<bool()>& stops) const;
  nn::Documents documents_of(std::int64_t T) const;
  void fill(std::int64_t first, const std::vector<std::int64_t>& positions);
  std::int64_t sequences() const;

  const config::RunConfig& config_;
  engine::SampleRoute route_;
  std::unique_ptr<io::SampleSource> source_;
  std::optional<engine::DocumentRule> documents_;
  std::optional<SampleRow> row_;
  std::vector<double> references_;  // of the answers of pairs
  Buffer batch_;  // i32: inputs [T], targets [T], three of documents [T]
};

}  // namespace trireme::train
