// Validation: the loss on text that is not trained on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/mesh.hpp"
#include "config/run_config.hpp"
#include "engine/documents.hpp"
#include "engine/engine.hpp"
#include "io/sample_source.hpp"
#include "train/sample_row.hpp"

namespace trireme::train {

class Validation {
 public:
  struct Loss {
    double mean = 0;     // over the real tokens of the validation sequences
    double seconds = 0;  // that it took
  };

  // Opens the source and allocates a microbatch, with metrics.validate_every > 0; local.
  // config outlives this.
  explicit Validation(const config::RunConfig& config);

  // Null without validation.
  const io::SampleSource* source() const { return source_.get(); }
  // Whether it is due after step `step`.
  bool due(std::int64_t step) const;
  // Collective over the mesh. `beat` is called before each round of microbatches.
  Loss run(engine::Engine& engine, comm::Mesh& mesh, const std::function<void()>& beat);

 private:
  nn::Documents documents_of(std::int64_t T) const;
  std::int64_t fill(std::int64_t first, const std::vector<std::int64_t>& positions);
  std::int64_t sequences() const;

  const config::RunConfig& config_;
  std::unique_ptr<io::SampleSource> source_;
  std::optional<engine::DocumentRule> documents_;
  std::optional<SampleRow> row_;
  Buffer batch_;  // i32: inputs [T], targets [T], three of documents [T]
};

}  // namespace trireme::train
