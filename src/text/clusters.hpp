// Extended grapheme clusters: what a reader takes for one character.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme::text {

// The end of the cluster that begins at `begin` of valid UTF-8. (Unicode Standard Annex
// 29, rules GB3 to GB13, with the data of Unicode 16.)
std::size_t cluster_end(std::string_view text, std::size_t begin);

// Whether a character of the text goes on at `at`, inside of it, as Oniguruma's \X has
// it: a rule is left out there, that of conjuncts (GB9c).
bool goes_on(std::string_view text, std::size_t at);

}  // namespace trireme::text
