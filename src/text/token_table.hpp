// TokenTable: tokens by their ids, and ids by their tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/config_node.hpp"

namespace trireme::text {

class TokenTable {
 public:
  // {"token": id, ...}. Two tokens may have one id, of which the reverse knows one.
  // Throws Error(bad_content) for ids outside [0, 2^31) or far beyond the number of
  // tokens.
  explicit TokenTable(const ConfigNode& vocabulary);
  TokenTable() = default;

  void add(const std::string& token, std::int32_t id);
  std::optional<std::int32_t> id_of(std::string_view token) const;
  const std::string* token_of(std::int32_t id) const;
  std::size_t size() const { return ids_.size(); }
  // Whether no two tokens have one id.
  bool distinct() const;
  std::int32_t highest() const { return static_cast<std::int32_t>(tokens_.size()) - 1; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // keys of ids_, which stay where they are
};

}  // namespace trireme::text
