// Pre-tokenizers that cut without a pattern: by length, and where the script changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "text/stages.hpp"

namespace trireme::text {

std::unique_ptr<PreTokenizer> make_fixed_length(const ConfigNode& node);
std::unique_ptr<PreTokenizer> make_by_scripts(const ConfigNode& node);

}  // namespace trireme::text
