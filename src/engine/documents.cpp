// Documents within samples: where each begins.
// SPDX-License-Identifier: Apache-2.0
#include "engine/documents.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace trireme::engine {

std::optional<DocumentRule> document_rule(const io::SourceConfig& config,
                                          const io::SampleSource& source,
                                          std::int64_t window, bool cut) {
  const bool marked = config.kind == io::SourceKind::preference;
  if (config.packing == io::Packing::none && !cut && !marked) return {};
  if (config.packing != io::Packing::concatenate) return DocumentRule{{}, window};
  const auto said = source.end_token();
  require(config.end_token >= 0 || said.has_value(), Status::bad_content,
          "{}: the data do not say which token ends a document, or not all the same: set "
          "data.end_token",
          config.names.packing);
  return DocumentRule{
      config.end_token >= 0 ? static_cast<std::int32_t>(config.end_token) : *said,
      window};
}

std::vector<std::int64_t> document_starts(std::span<const std::int32_t> tokens,
                                          std::int32_t end_token) {
  std::vector<std::int64_t> starts(tokens.size());
  for (std::size_t p = 1; p < starts.size(); ++p)
    starts[p] = tokens[p - 1] == end_token ? static_cast<std::int64_t>(p) : starts[p - 1];
  return starts;
}

nn::Answers meta_answers(const config::RunConfig& config) {
  const std::int64_t B = config.batch.micro, S = config.model.sequence;
  return {TensorView(nullptr, DType::i32, {B * S / config.parallel.mesh.context},
                     Device::meta()),
          TensorView(nullptr, DType::f64, {nn::most_answers(B, S), 2}, Device::meta())};
}

void put_document(const nn::Documents& documents, std::size_t at, std::int64_t position,
                  const std::vector<std::int64_t>& starts, std::int64_t window) {
  const std::int64_t start = starts[static_cast<std::size_t>(position)];
  const std::int64_t seen = window > 0 ? std::max(start, position - window + 1) : start;
  const auto put = [&](const TensorView& view_T, std::int64_t value) {
    view_T.span<std::int32_t>()[at] = static_cast<std::int32_t>(value);
  };
  put(documents.positions_T, position - start);
  put(documents.starts_T, start);
  put(documents.window_starts_T, seen);
}

}  // namespace trireme::engine
