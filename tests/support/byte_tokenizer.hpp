// A tokenizer of bytes, as a tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/json.hpp"

namespace trireme::test {

// The text of its file: a token for each byte, <e> (256) and <m> (257).
inline std::string byte_tokenizer() {
  nlohmann::json vocabulary = nlohmann::json::object();
  nlohmann::json added = nlohmann::json::array();
  const auto letter = [](int byte) {  // as ByteLevel writes it
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
                        (byte >= 174 && byte <= 255);
    int other = 0;
    for (int b = 0; b < byte; ++b)
      other += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    const int code = itself ? byte : 256 + other;
    std::string out;
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 63));
    return out;
  };
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter(byte)] = byte;
  int id = 256;
  for (const char* token : {"<e>", "<m>"})
    added.push_back({{"id", id++},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", false}};
  const nlohmann::json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return file.dump();
}

}  // namespace trireme::test
