// Sources of samples that need a tokenizer: text, and checks of token files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "io/sample_source.hpp"

namespace trireme::data {

// io::open_source() of every kind. Text is tokenized here, by `config.tokenizer`, and
// kept in memory: each document is followed by the tokenizer's end token. Where a
// tokenizer is given, token files that name another one's digest are Error(bad_content).
std::unique_ptr<io::SampleSource> open_source(io::SourceConfig config);

}  // namespace trireme::data
