// BestCheckpoints: of a run's checkpoints those with the lowest validation losses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::io {

inline constexpr auto best_name = "best";                 // the link
inline constexpr auto best_file_name = "best.json";       // the losses
using ValidationLosses = std::map<std::int64_t, double>;  // by step

// At most `number` of the steps in `losses`, the lowest loss first; of equal losses the
// earlier step first.
std::vector<std::int64_t> best_of(const ValidationLosses& losses, int number);

// `best.json` in the folder of checkpoints has the loss of each that was saved at a step
// with a validation. It is read when one is saved, and not before. Rank 0 has it; no call
// is collective.
class BestCheckpoints {
 public:
  // number: how many are best.
  BestCheckpoints(std::string directory, int number)
      : directory_(std::move(directory)), number_(number) {}

  // Of the next checkpoint; none: its step had no validation. One that is no number
  // counts as none.
  void set_loss(std::optional<double> loss) { loss_ = loss; }

  // Reads the losses of earlier checkpoints. Where they cannot be read a warning says so,
  // and until they can be no checkpoint is removed.
  void read();
  // Writes that the checkpoint of this step has the loss that was set, before it gets its
  // name. Throws Error(cannot_create) or Error(io).
  void write(std::int64_t step);
  // The best of the steps whose checkpoints are complete; all of them while losses are
  // not known. The loss of a step that is not in `all`, whose folders are there, is
  // forgotten; one that only could not be read this time keeps its loss. Makes `best`
  // point at the first, and logs it when that is another one; failing is a warning.
  std::vector<std::int64_t> among(const std::vector<std::int64_t>& complete,
                                  const std::vector<std::int64_t>& all);

 private:
  std::string directory_;
  int number_;
  std::optional<double> loss_;
  ValidationLosses losses_;
  bool known_ = false;
};

}  // namespace trireme::io
