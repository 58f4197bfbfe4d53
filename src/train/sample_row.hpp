// SampleRow: a sample as the row of a microbatch: inputs, targets, documents.
// SPDX-License-Identifier: Apache-2.0
// Shapes: S tokens of a sequence, of which a rank holds P.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "engine/documents.hpp"
#include "io/sample_source.hpp"
#include "nn/pass.hpp"

namespace trireme::train {

// The only place that knows which tokens of a sample are targets: not those that are
// missing, that a source marks as none, or that begin a document. For one thread.
class SampleRow {
 public:
  // The source outlives this. documents: nothing without data.packing.
  SampleRow(const io::SampleSource& source, std::int64_t sequence,
            const std::optional<engine::DocumentRule>& documents);

  // Reads sample `index`. cut: positions and attention begin anew after as many tokens,
  // in each document too, without a target lost; 0: nowhere else than documents do.
  // Throws as the source does.
  void read(std::int64_t index, std::int64_t cut = 0);
  // Writes what positions [P] of the sample are into places [at, at + P) of a
  // microbatch's views; `documents` may be null without data.packing. Returns how many
  // have a target.
  std::int64_t put(std::span<const std::int64_t> positions, std::size_t at,
                   std::span<std::int32_t> inputs_T, std::span<std::int32_t> targets_T,
                   const nn::Documents* documents) const;

  // Of the sample that was read: its S + 1 tokens; where the document of each begins,
  // empty without documents; whether each is a target.
  std::span<const std::int32_t> tokens() const {
    return memory_.view().span<std::int32_t>();
  }
  const std::vector<std::int64_t>& starts() const { return starts_; }
  bool is_target(std::size_t token) const;
  // Of each token: the answer that it is a target of (io::SampleMarks); of a source of
  // pairs only.
  const std::vector<std::int64_t>& answers() const { return marks_.answers; }

 private:
  const io::SampleSource& source_;
  std::optional<engine::DocumentRule> documents_;
  Buffer memory_;  // i32 [S + 1]
  io::SampleMarks marks_;
  std::vector<std::int64_t> starts_;
  std::vector<std::int64_t> seen_;  // of each token: the first that attention may see
};

}  // namespace trireme::train
