// Normal forms of Unicode, with the data of Unicode 9.0 as the `tokenizers` library has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// A character, and where it comes from: the bytes [begin, end) of a text.
struct PlacedChar {
  char32_t code;
  std::uint32_t begin, end;
};

// Decomposes, orders marks by their combining classes and, for nfc and nfkc, composes.
// What is composed comes from all that its parts came from. (Unicode Standard Annex 15.)
std::vector<PlacedChar> normalized(const std::vector<PlacedChar>& text, NormalForm form);

// Whether a text of these characters may differ from its normal form; false is sure.
bool may_change(char32_t code);

}  // namespace trireme::text
