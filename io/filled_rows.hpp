// Boxes that are not in memory yet, on their way into a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/memory.hpp"
#include "io/checkpoint.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::io {

class FilledRows {
 public:
  // Fills a box and writes it into a dataset that is its own (`alone`), or one of numbers
  // from `begin` on; some rows at a time: a few MiB, or one row. Returns the digest of
  // its elements.
  std::string write(Hdf5File& file, const std::string& dataset, std::int64_t begin,
                    const TensorBox& box, bool alone);

 private:
  Buffer memory_;  // of the most rows so far
};

}  // namespace trireme::io
