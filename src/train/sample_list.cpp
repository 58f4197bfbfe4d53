// The samples of a step: the same order as BatchLoader's, written down.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_list.hpp"

#include <map>

#include "base/error.hpp"
#include "io/metrics.hpp"
#include "train/batch_loader.hpp"

namespace trireme::train {
namespace {

io::Record record_of(const io::SamplePart& part) {
  return io::Record()
      .set("file", part.file)
      .set("begin", part.begin)
      .set("tokens", part.tokens);
}

}  // namespace

std::string list_samples(const config::RunConfig& config, const io::SampleSource& source,
                         SampleOrder& order, std::int64_t step) {
  require(step >= 1, "there is no step {}", step);
  const config::BatchStage stage = config.stage_of(step);
  const std::int64_t first = stage.sequence_of(step);
  std::vector<SamplePlace> places;  // of the step, in ascending order
  for (std::int64_t i = 0; i < stage.global; ++i) places.push_back(order.at(first + i));
  std::map<std::int64_t, io::Record> lines;  // by number in the step
  BatchLoaderConfig of_rank{.global = stage.global,
                            .micro = config.batch.micro,
                            .microbatches = config.microbatches(stage),
                            .data_ranks = config.parallel.mesh.data,
                            .positions = {}};
  for (int rank = 0; rank < of_rank.data_ranks; ++rank) {
    of_rank.data_rank = rank;
    for (std::int64_t m = 0; m < of_rank.microbatches; ++m) {
      for (std::int64_t row = 0; row < of_rank.micro; ++row) {
        const std::int64_t sequence = sequence_of(of_rank, m, row);
        if (sequence >= stage.global) continue;
        const std::int64_t index = first + sequence;
        const SamplePlace& place = places[static_cast<std::size_t>(sequence)];
        io::Record& line = lines[sequence];
        line.set("step", step)
            .set("sequence", sequence)
            .set("data_rank", std::int64_t{rank})
            .set("microbatch", m)
            .set("row", row)
            .set("index", index)
            .set("epoch", place.epoch)
            .set("sample", place.sample);
        if (source.blend() != nullptr)
          line.set("source", static_cast<std::int64_t>(place.source));
        std::vector<io::Record> parts;
        for (const io::SamplePart& part : source.parts(place.sample))
          parts.push_back(record_of(part));
        if (!parts.empty()) line.set("parts", parts);
      }
    }
  }
  std::string text;
  for (const auto& [sequence, line] : lines) text += line.json() + '\n';
  return text;
}

}  // namespace trireme::train
