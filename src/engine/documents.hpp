// Documents within samples: where each begins, and which targets cross a border.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/run_config.hpp"
#include "io/sample_source.hpp"
#include "nn/pass.hpp"

namespace trireme::engine {

// How a run's samples are cut into documents.
struct DocumentRule {
  // The last token of each document; nothing where samples mark where documents begin, or
  // are one text each.
  std::optional<std::int32_t> end_token = {};
  std::int64_t window = 0;  // of attention; 0: none
};

// What data.packing asks for; nothing without it, unless sequences are `cut` into
// documents by their places or hold pairs of answers. Throws Error(bad_content) where
// nobody says which token ends a document.
std::optional<DocumentRule> document_rule(const io::SourceConfig& config,
                                          const io::SampleSource& source,
                                          std::int64_t window, bool cut = false);

// For each of the S + 1 tokens of a sample where its document begins: at the sample's
// beginning, or behind an end token.
std::vector<std::int64_t> document_starts(std::span<const std::int32_t> tokens,
                                          std::int32_t end_token);

// The answers of a microbatch of a run that learns from pairs, on meta.
nn::Answers meta_answers(const config::RunConfig& config);

// Writes a token into place `at` of a microbatch's views: position `position` of a sample
// whose documents begin at `starts`.
void put_document(const nn::Documents& documents, std::size_t at, std::int64_t position,
                  const std::vector<std::int64_t>& starts, std::int64_t window);

}  // namespace trireme::engine
