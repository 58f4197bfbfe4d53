// Classes of characters as the `tokenizers` library has them: of older tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::text {

// Beside the signs of ASCII: what BertPreTokenizer and Punctuation cut out.
bool was_punctuation(char32_t c);
// Marks that BertNormalizer strips.
bool was_nonspacing(char32_t c);
// Marks that StripAccents strips.
bool was_accent(char32_t c);
// Beside line ends and tabs: what BertNormalizer cleans away.
bool was_control(char32_t c);

// The script that UnicodeScripts takes it for; any_script: what goes with every script.
inline constexpr std::uint8_t any_script = 0;
std::uint8_t older_script(char32_t c);

}  // namespace trireme::text
