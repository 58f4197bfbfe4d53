// StartAdapters: the adapters that a run starts with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "config/run_config.hpp"
#include "convert/adapter_folder.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

class StartAdapters {
 public:
  // checkpoint: that the model starts from, or null. Throws Error(bad_content) where it
  // has adapters that this run has no place for, or where the folder of adapter.from is
  // not that of the deck's adapters.
  // The configuration outlives this.
  StartAdapters(const config::RunConfig& config, const io::CheckpointReader* checkpoint);

  // Whether the box needs nothing more of the model that the run starts from: it is read
  // from adapter.from, or is a new adapter's. That stays as it is, but for DoRA's
  // numbers, which are the lengths of rows of `base`, the model as it is kept.
  bool read(const io::TensorBox& box, const io::TensorSource& base) const;
  // What read() of a box may read of a checkpoint besides: the rows of a weight.
  static std::optional<io::TensorBox> rows_of(const io::TensorBox& box,
                                              const io::CheckpointReader& checkpoint);

 private:
  void read_lengths(const io::TensorBox& box, const io::TensorSource& base) const;

  const config::RunConfig& config_;
  const io::CheckpointReader* checkpoint_;
  std::optional<convert::AdapterFolder> folder_;
};

}  // namespace trireme::train
