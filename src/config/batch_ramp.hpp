// Ramps of the batch: how many sequences a step has, and how long they are, by tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::config {

// A part of a ramp, in the deck "64 until 2B": a value until so many tokens are trained
// on.
struct RampPart {
  std::int64_t value = 0, until_tokens = 0;
};

// Numbers of tokens may end in k, M, B or T for powers of 1000, and have a point before
// them: "1.5B". Throws Error(bad_content) that says what is wrong and how to write it.
RampPart parse_ramp_part(std::string_view text);

// Steps that are alike, up to the next stage.
struct BatchStage {
  std::int64_t first_step = 1;
  std::int64_t first_sequence = 0;  // of these steps, in the order of the run's samples
  std::int64_t tokens_before = 0;   // in all sequences of the steps before
  std::int64_t global = 0;          // sequences of a step
  std::int64_t sequence = 0;        // tokens after which a sequence is cut
  // Number in the run's order of the first sequence of a step of this stage.
  std::int64_t sequence_of(std::int64_t step) const {
    return first_sequence + (step - first_step) * global;
  }
};

// The stages of a run: a step has the value of the first part whose tokens are not
// reached when it begins, else the last value. A part whose end is reached before it
// begins has no stage. Tokens are those of whole sequences, also of ones that have no
// target, so that stages are a function of the deck alone.
//   global, sequence: of a step after the ramps
//   ramp, sequence_ramp: of the sequences of a step, and of the tokens they are cut
//   after;
//     values are at least 1, tokens ascend
std::vector<BatchStage> batch_stages(std::int64_t global, std::int64_t sequence,
                                     const std::vector<RampPart>& ramp,
                                     const std::vector<RampPart>& sequence_ramp);

// Of step `step`, from 1. Stages are in order and not empty.
const BatchStage& stage_at(const std::vector<BatchStage>& stages, std::int64_t step);

}  // namespace trireme::config
