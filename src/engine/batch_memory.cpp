// Bytes of batches: rows of ids, and of pairs the references' log-probabilities.
// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_memory.hpp"

#include "base/timeline.hpp"
#include "nn/preferences.hpp"

namespace trireme::engine {
namespace {

constexpr std::int64_t id_bytes = 4, number_bytes = 8;

// A sample as it is read, with the token that follows it.
std::int64_t row_bytes(const config::RunConfig& config) {
  return id_bytes * (config.model.sequence + 1);
}

std::int64_t answer_bytes(const config::RunConfig& config) {
  return 2 * number_bytes * nn::most_answers(config.batch.micro, config.model.sequence);
}

std::int64_t loader_bytes(const config::RunConfig& config, std::int64_t positions_P) {
  const bool pairs = config.learns_pairs();
  const std::int64_t views = 2 + (config.has_documents() ? 3 : 0) + (pairs ? 1 : 0);
  const std::int64_t microbatch = id_bytes * views * config.batch.micro * positions_P +
                                  (pairs ? answer_bytes(config) : 0);
  return batches_in_memory * config.microbatches() * microbatch + row_bytes(config);
}

std::int64_t validation_bytes(const config::RunConfig& config) {
  const std::int64_t tokens =
      config.batch.micro * config.model.sequence / config.parallel.mesh.context;
  if (config.learns_pairs())  // AnswerPass, which each has anew
    return id_bytes * 6 * tokens + answer_bytes(config) + row_bytes(config);
  const bool documents = config.validation.packing != io::Packing::none;
  return id_bytes * (documents ? 5 : 2) * tokens + row_bytes(config);
}

}  // namespace

std::int64_t batch_bytes(const config::RunConfig& config, std::int64_t positions_P) {
  std::int64_t bytes = loader_bytes(config, positions_P);
  if (config.metrics.validate_every > 0) bytes += validation_bytes(config);
  if (config.metrics.sample_every > 0)
    bytes += 2 * id_bytes * config.batch.micro * config.model.sequence /
             config.parallel.mesh.context;
  if (!config.metrics.profile.empty())
    bytes += static_cast<std::int64_t>(Timeline::bytes);
  return bytes;
}

}  // namespace trireme::engine
