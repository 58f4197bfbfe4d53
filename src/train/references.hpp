// References: what the model at the start of a run makes of the answers it learns from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "engine/engine.hpp"
#include "io/sample_source.hpp"
#include "train/validation.hpp"

namespace trireme::train {

// The reference model of DPO is the run's own at step 0. It is asked once, for all
// answers, and its log-probabilities are kept in reference.h5 in the run's directory,
// from where a run that is resumed reads them: no second model is in memory. They are
// computed again as long as no step is done.
class References {
 public:
  // All outlive this. `beat` is called before each forward.
  References(const config::RunConfig& config, comm::World& world, comm::Mesh& mesh,
             engine::Engine& engine, std::function<void()> beat);

  // Computes and writes them where the run begins (step 0), else reads them. Hands those
  // of pairs to validate on to `validation`. Collective over the world. Throws
  // Error(missing_input) or Error(bad_content) for a file that is not there or of other
  // data, Error(cannot_create), Error(io).
  void start(std::int64_t step, const io::SampleSource& source, Validation& validation);

  // Of each answer of the source.
  const std::vector<double>& training() const { return training_; }

 private:
  std::vector<double> compute(const io::SampleSource& source);

  const config::RunConfig& config_;
  comm::World& world_;
  comm::Mesh& mesh_;
  engine::Engine& engine_;
  std::function<void()> beat_;
  std::vector<double> training_;
};

}  // namespace trireme::train
