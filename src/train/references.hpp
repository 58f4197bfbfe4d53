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
#include "train/answer_pass.hpp"
#include "train/reference_file.hpp"
#include "train/validation.hpp"

namespace trireme::train {

// Memory that each rank keeps for what the reference says of the answers of a source: a
// log-probability each.
std::int64_t reference_bytes(const io::SampleSource& source);

// The reference model of DPO is the run's own at step 0. It is asked once, for all
// answers, and its log-probabilities are kept in reference.h5 in the run's directory,
// from where a run that is resumed reads them: no second model is in memory. They are
// written every few seconds while the model is asked: a start that finds those of an
// earlier one goes on behind them, when it gets their last ones again, to the bit.
class References {
 public:
  struct Calls {
    std::function<void()> beat;  // before each forward
    // After each write, with how long it takes to the next: whether to stop. The same on
    // all ranks.
    std::function<bool(double seconds)> stops;
  };
  // All outlive this. deck: the effective one.
  References(const config::RunConfig& config, const std::string& deck, comm::World& world,
             comm::Mesh& mesh, engine::Engine& engine, Calls calls);

  // Computes and writes them where the run begins (step 0), else reads them. Hands those
  // of pairs to validate on to `validation`. False when it was stopped before all were
  // computed. Collective over the world. Throws Error(missing_input) or
  // Error(bad_content) for a file that is not there or of other data,
  // Error(cannot_create), Error(io).
  bool start(std::int64_t step, const io::SampleSource& source, Validation& validation);

  // Of each answer of the source.
  const std::vector<double>& training() const { return parts_.front().values; }
  // "37 of 100 samples (training)".
  std::string progress() const;

 private:
  bool compute(ReferencePart& part);
  bool gives_again(AnswerPass& pass, const ReferencePart& part, std::int64_t round);
  void share(ReferencePart& part);

  const config::RunConfig& config_;
  comm::World& world_;
  comm::Mesh& mesh_;
  engine::Engine& engine_;
  Calls calls_;
  ReferenceFile file_;
  std::vector<ReferencePart> parts_;
};

}  // namespace trireme::train
