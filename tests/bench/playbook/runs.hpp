// Measured runs of the Ultra-Scale Playbook, and the shapes of its models.
// SPDX-License-Identifier: Apache-2.0
// nanotron on nodes of 8 H100, 4096 tokens a sequence (Tazi et al., 2025).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme::bench {

// A model's shape, as nanotron's configuration has it.
struct PlaybookModel {
  std::string name;
  double layers = 0;
  double hidden = 0;
  double feed_forward = 0;
};

inline constexpr double playbook_vocabulary = 131072;
inline constexpr double playbook_sequence = 4096;
inline constexpr double ranks_of_node = 8;

// The shapes by name: 1B, 3B, 8B, 80B.
const std::vector<PlaybookModel>& playbook_models();

// A line of the table. What a run had measured of it is `seconds` alone.
struct PlaybookRun {
  const PlaybookModel* model = nullptr;
  double nodes = 1;
  double micro = 1;         // sequences of a microbatch
  double microbatches = 1;  // of a data rank, in a step
  double batch = 1;         // sequences of a step, of all ranks
  int data = 1;
  int pipeline = 1;
  int tensor = 1;
  bool zero1 = false;
  double mfu = 0;      // measured, in per cent; not used to predict
  double seconds = 0;  // of a step, measured; not a number where nothing was

  // Something was measured, and mesh and batch are what the columns beside them say.
  bool judgeable() const;
};

// Reads a table: columns by name in any order, one run a line.
// Throws Error(missing_input) for a file that cannot be read; Error(bad_content), with
// the line, for a column that is missing, a value that is no number, an unknown model.
std::vector<PlaybookRun> read_runs(const std::filesystem::path& path);

// The layers of each stage, and the stage that holds the head. A block goes to a stage as
// long as the work up to its end is within the stage's even share of the whole, where a
// layer's work is that of its products and the head's is vocabulary x hidden.
struct PlaybookCut {
  std::vector<double> layers;
  int head = 0;
};
PlaybookCut cut_playbook(const PlaybookModel& model, int pipeline);

}  // namespace trireme::bench
