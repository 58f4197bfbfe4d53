// JSON values: the functions of the library that every user of it shares.
// SPDX-License-Identifier: Apache-2.0
#include "io/json.hpp"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;

namespace trireme::io {

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

}  // namespace trireme::io
