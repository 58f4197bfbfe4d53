// Tokens and ids of a vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "text/token_table.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace trireme::text {

TokenTable::TokenTable(const ConfigNode& vocabulary) {
  const Json& all = vocabulary.value();
  if (!all.is_object()) vocabulary.fail("must be an object of tokens and their ids");
  // An id far out would take memory for all below it.
  const auto limit = static_cast<std::int64_t>(all.size()) * 4 + (1 << 20);
  ids_.reserve(all.size());
  for (const auto& [token, id] : all.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= limit)
      vocabulary.fail(
          trireme::format("gives \"{}\" the id {}, which is no whole number from 0 to {}",
                          one_line(token), id.dump(), limit - 1));
    add(token, id.get<std::int32_t>());
  }
}

void TokenTable::add(const std::string& token, std::int32_t id) {
  const auto at = ids_.insert_or_assign(token, id).first;
  const auto index = static_cast<std::size_t>(id);
  if (tokens_.size() <= index) tokens_.resize(index + 1, nullptr);
  tokens_[index] = &at->first;
}

std::optional<std::int32_t> TokenTable::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return {};
  return found->second;
}

bool TokenTable::distinct() const {
  const auto known = std::count_if(tokens_.begin(), tokens_.end(),
                                   [](const std::string* token) { return token; });
  return static_cast<std::size_t>(known) == ids_.size();
}

const std::string* TokenTable::token_of(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size()) return nullptr;
  return tokens_[static_cast<std::size_t>(id)];
}

}  // namespace trireme::text
