// TokenTable: entries, and how they come to other ranks.
// SPDX-License-Identifier: Apache-2.0
#include "io/token_table.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/table_bytes.hpp"

namespace trireme::io {
namespace {

// Of one message: small beside a corpus, and far below what a message may have.
constexpr std::size_t piece_bytes = std::size_t{64} << 20;

thread_local TokenTable* in_use = nullptr;

void write_head(TableWriter& out, const TextTokens& entry) {
  out.number(std::uint64_t{entry.files.size()});
  for (const FileTokens& file : entry.files) {
    out.word(file.path);
    out.number(file.begin);
  }
  out.number(std::uint64_t{entry.counts.size()});
  for (const std::int64_t count : entry.counts) out.number(count);
  out.number(entry.tokens);
  for (const std::size_t size :
       {entry.ends.size(), entry.ids.size(), entry.learned.size()})
    out.number(std::uint64_t{size});
}

// An entry without its numbers, and how many of each there are.
struct Head {
  TextTokens entry;
  std::uint64_t ends = 0, ids = 0, learned = 0;
};

Head read_head(TableReader& in) {
  Head head;
  for (std::uint64_t left = in.count(); left > 0; --left) {
    FileTokens& file = head.entry.files.emplace_back();
    file.path = in.word();
    file.begin = in.number<std::int64_t>();
  }
  for (std::uint64_t left = in.count(); left > 0; --left)
    head.entry.counts.push_back(in.number<std::int64_t>());
  head.entry.tokens = in.number<std::int64_t>();
  for (std::uint64_t* size : {&head.ends, &head.ids, &head.learned})
    *size = in.number<std::uint64_t>();
  return head;
}

// Every rank has the `count` numbers of rank 0, where they are `kept`.
template <class Number>
void tell_numbers(comm::World& world, std::vector<Number>& numbers, std::uint64_t count,
                  bool kept) {
  constexpr std::size_t most = piece_bytes / sizeof(Number);
  const bool mine = world.rank() == 0;
  if (!mine && kept) numbers.resize(count);
  for (std::size_t begin = 0; begin < count; begin += most) {
    const std::size_t bytes = std::min(most, count - begin) * sizeof(Number);
    std::string piece;
    if (mine) piece.assign(reinterpret_cast<const char*>(numbers.data() + begin), bytes);
    piece = world.broadcast(piece);
    if (!mine && kept) std::memcpy(numbers.data() + begin, piece.data(), bytes);
  }
}

}  // namespace

TokenTable::Entry TokenTable::next(const std::function<TextTokens()>& make) {
  if (taken_ == entries_.size()) {
    require(!told_, "nobody told of the tokens of the next source");
    entries_.push_back(std::make_shared<TextTokens>(make()));
  }
  return entries_[taken_++];
}

std::int64_t TokenTable::bytes() const {
  std::size_t sum = 0;
  for (const auto& entry : entries_)
    sum += entry->ends.size() * sizeof(entry->ends[0]) +
           entry->ids.size() * sizeof(entry->ids[0]) +
           entry->learned.size() * sizeof(entry->learned[0]);
  return static_cast<std::int64_t>(sum);
}

std::string TokenTable::heads() const {
  TableWriter out;
  out.number(std::uint64_t{entries_.size()});
  for (const auto& entry : entries_) write_head(out, *entry);
  return std::move(out.text);
}

void TokenTable::tell(comm::World& world, std::string_view heads, bool reads) {
  const bool mine = world.rank() == 0;
  TableReader in(heads);
  const std::uint64_t all = in.count();
  for (std::uint64_t i = 0; i < all; ++i) {
    Head head = read_head(in);
    if (!mine) entries_.push_back(std::make_shared<TextTokens>(std::move(head.entry)));
    TextTokens& entry = *entries_[i];
    tell_numbers(world, entry.ends, head.ends, true);
    tell_numbers(world, entry.ids, head.ids, reads);
    tell_numbers(world, entry.learned, head.learned, reads);
  }
  told_ = !mine;
}

TokenTableInUse::TokenTableInUse(TokenTable& table)
    : before_(std::exchange(in_use, &table)) {}

TokenTableInUse::~TokenTableInUse() { in_use = before_; }

TokenTable::Entry made_once(const std::function<TextTokens()>& make) {
  if (in_use != nullptr) return in_use->next(make);
  return std::make_shared<const TextTokens>(make());
}

}  // namespace trireme::io
