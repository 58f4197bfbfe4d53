// ReferenceFile: what the reference model made of answers, so far or of all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "io/hdf5_file.hpp"
#include "io/sample_source.hpp"

namespace trireme::train {

// The answers of a source. Samples are asked in their order; an answer of the others has
// no value yet.
struct ReferencePart {
  std::string name;  // "training"
  const io::SampleSource* source = nullptr;
  std::vector<double> values{};  // log-probability of each answer
  std::int64_t samples = 0;      // that were asked
  std::string data_digest{};     // of the source; on rank 0
};

// reference.h5 in the run's directory. For one rank.
class ReferenceFile {
 public:
  // deck: the effective one. config outlives this.
  ReferenceFile(const config::RunConfig& config, const std::string& deck);

  // In place of what the file was before. Throws Error(cannot_create), also when a link
  // bears its name, or Error(io).
  void write(const std::vector<ReferencePart>& parts) const;
  // All values of the part: those that a run with steps behind it goes on with. Throws
  // Error(missing_input) or Error(bad_content) for a file that is not there, not whole or
  // of other data.
  std::vector<double> read(const ReferencePart& part) const;
  // What an earlier start of this run has done of the parts: values and samples. What is
  // damaged, of other data or of other settings is left out, with a warning.
  void find(std::vector<ReferencePart>& parts) const;

  // Of all samples, in their order.
  std::string digest_of(const io::SampleSource& source) const;

 private:
  io::Hdf5File open() const;
  std::string why_not(const io::Hdf5File& file, ReferencePart& part) const;
  void read_values(const io::Hdf5File& file, ReferencePart& part) const;

  std::string path_;
  std::int64_t sequence_;
  std::string settings_;  // digest of those that decide the values, to their last bits
};

}  // namespace trireme::train
