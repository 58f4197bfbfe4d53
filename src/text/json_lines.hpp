// Lines of JSON: a text, token ids, or an object that holds a document.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

// Each throws Error(bad_content) that names `place`, such as "corpus.jsonl:12".
std::string text_of_json(std::string_view line, const std::string& place);
std::vector<std::int32_t> ids_of_json(std::string_view line, const std::string& place);
// The text in a field of an object.
std::string field_of_json(std::string_view line, const std::string& field,
                          const std::string& place);

// A JSON string, not escaped beyond need; "[15496, 995]" of ids.
std::string json_of_text(std::string_view text);
std::string json_of_ids(std::span<const std::int32_t> ids);

}  // namespace trireme::text
