// TokenTable: tokens that sources keep in memory, made by one rank for all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world.hpp"

namespace trireme::io {

// A file, and its first token among all of the source.
struct FileTokens {
  std::string path;
  std::int64_t begin = 0;
};

// What a source has made of all of its texts; it sets what it has.
struct TextTokens {
  std::vector<FileTokens> files{};
  std::vector<std::int64_t> ends{};    // of documents, among all tokens
  std::vector<std::int64_t> counts{};  // what else the source says of itself
  std::int64_t tokens = 0;
  // Of each token; empty on ranks that were told and read no samples.
  std::vector<std::int32_t> ids{};
  std::vector<std::uint8_t> learned{};  // 0: it is no target
};

// For one thread. What sources ask for, in the order in which they are opened: the same
// on every rank.
class TokenTable {
 public:
  using Entry = std::shared_ptr<const TextTokens>;

  // The next entry: as told, or by `make`, which is kept.
  Entry next(const std::function<TextTokens()>& make);
  // What the numbers of all entries take here.
  std::int64_t bytes() const;
  // What there is of each entry but its numbers; any bytes.
  std::string heads() const;
  // Every rank has the entries of rank 0 from now on, of which `heads` are known on all
  // ranks, with ids where it `reads`. Collective over the world; without entries no
  // message is sent.
  void tell(comm::World& world, std::string_view heads, bool reads);

 private:
  std::vector<std::shared_ptr<TextTokens>> entries_;
  std::size_t taken_ = 0;
  bool told_ = false;
};

// While it lives, sources that this thread opens take from the table or add to it.
class TokenTableInUse {
 public:
  explicit TokenTableInUse(TokenTable& table);
  ~TokenTableInUse();
  TokenTableInUse(const TokenTableInUse&) = delete;
  TokenTableInUse& operator=(const TokenTableInUse&) = delete;

 private:
  TokenTable* before_;
};

// What `make` makes, or has made on rank 0.
TokenTable::Entry made_once(const std::function<TextTokens()>& make);

}  // namespace trireme::io
