// The letters that stand for bytes in byte-level vocabularies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::text {

// Bytes 33-126, 161-172 and 174-255 are the characters of these numbers, the other 68 in
// their order those from U+0100 on. (GPT-2, Radford et al. 2019.)
char32_t letter_of(unsigned char byte);
// -1 for a character that is no such letter.
int byte_of(char32_t letter);

std::string letters_of(std::string_view bytes);
// Nothing when a character of the text is no such letter.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace trireme::text
