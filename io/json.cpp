// JSON values: the functions of the library that every user of it shares.
// SPDX-License-Identifier: Apache-2.0
#include "io/json.hpp"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
