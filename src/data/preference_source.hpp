// The "preference" source: pairs of answers, tokenized when it is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "io/sample_source.hpp"
#include "text/tokenizer.hpp"

namespace trireme::data {

// The lines of config.paths, each a pair (parse_preference_line()), in memory. The
// answers of a pair are two documents, each prompt and completion, one behind the other
// in one sample, the preferred one first: a pair is never cut or shared out. Packing
// none: a sample is a pair; best_fit: as many pairs as fit. A pair longer than a sample
// is left out, and describe() counts it. Throws Error(bad_content) naming file and line,
// Error(missing_input).
std::unique_ptr<io::SampleSource> open_preferences(const io::SourceConfig& config,
                                                   const text::Tokenizer& tokenizer,
                                                   std::int32_t end_token);

}  // namespace trireme::data
