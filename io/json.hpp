// JSON values, by nlohmann's library, whose functions are compiled once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

// Compiled in json.cpp: a file that includes this compiles in three quarters of the time.
extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;

namespace trireme::io {

// A text as JSON, in quotes. Bytes that are no UTF-8 are replaced, so that it always is.
std::string json_text(const std::string& text);

}  // namespace trireme::io
