// Byte-pair encoding: which symbols of a word merge, and in what order.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/bpe.hpp"

namespace trireme::text {

void Bpe::merge_by_scan(std::string_view bytes, Workspace& workspace) const {
  auto& symbols = workspace.symbols;
  const std::size_t count = symbols.size();
  if (count < 2) return;
  auto& merges = workspace.merges;
  auto& ranks = workspace.ranks;
  merges.resize(count);
  ranks.resize(count);
  // Of no merge the rank is -1, and so the highest of unsigned numbers.
  const auto put = [&](std::size_t at, const Merge& merge) {
    merges[at] = merge;
    ranks[at] = static_cast<std::uint32_t>(merge.rank);
  };
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at]));
  };
  for (std::size_t i = 0; i < count; ++i) {
    symbols[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols[i].next = i + 1 < count ? static_cast<std::int32_t>(i + 1) : -1;
    if (i + 1 == count)
      put(i, {});
    else if (!bytes.empty())
      put(i, byte_merges_[byte(i) * 256 + byte(i + 1)]);
    else
      put(i, merges_.find(symbols[i].id, symbols[i + 1].id));
  }
  constexpr std::uint32_t none = ~std::uint32_t{0};
  while (true) {
    std::uint32_t least = none;
    for (const std::uint32_t rank : ranks) least = std::min(least, rank);
    if (least == none) return;
    const auto at = static_cast<std::size_t>(
        std::find(ranks.begin(), ranks.end(), least) - ranks.begin());
    Symbol& left = symbols[at];
    const auto gone = static_cast<std::size_t>(left.next);
    left.id = merges[at].new_id;
    left.bytes += symbols[gone].bytes;
    left.next = symbols[gone].next;
    symbols[gone].previous = -2;
    ranks[gone] = none;
    if (left.next >= 0) {
      Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      right.previous = static_cast<std::int32_t>(at);
      put(at, merges_.find(left.id, right.id));
    } else {
      ranks[at] = none;
    }
    if (left.previous >= 0) {
      const auto before = static_cast<std::size_t>(left.previous);
      put(before, merges_.find(symbols[before].id, left.id));
    }
  }
}

void Bpe::merge_by_heap(Workspace& workspace) const {
  auto& symbols = workspace.symbols;
  auto& heap = workspace.heap;
  const auto count = static_cast<std::int32_t>(symbols.size());
  heap.clear();
  const auto at = [&](std::int32_t i) -> Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  for (std::int32_t i = 0; i < count; ++i) {
    at(i).previous = i - 1;
    at(i).next = i + 1 < count ? i + 1 : -1;
    if (i + 1 == count) break;
    const Merge merge = merges_.find(at(i).id, at(i + 1).id);
    if (merge.rank >= 0)
      heap.push_back({merge.rank, merge.new_id, static_cast<std::uint32_t>(i)});
  }
  std::make_heap(heap.begin(), heap.end());
  const auto push = [&](std::int32_t left, std::int32_t right) {
    const Merge merge = merges_.find(at(left).id, at(right).id);
    if (merge.rank < 0) return;
    heap.push_back({merge.rank, merge.new_id, static_cast<std::uint32_t>(left)});
    std::push_heap(heap.begin(), heap.end());
  };
  while (!heap.empty()) {
    const PendingMerge top = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    const auto position = static_cast<std::int32_t>(top.position);
    Symbol& left = at(position);
    if (left.previous == -2 || left.next < 0) continue;
    Symbol& right = at(left.next);
    // The reference compares what comes out, not the rank.
    const Merge now = merges_.find(left.id, right.id);
    if (now.rank < 0 || now.new_id != top.new_id) continue;
    left.id = top.new_id;
    left.bytes += right.bytes;
    right.previous = -2;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = position;
    if (left.previous >= 0) push(left.previous, position);
    if (left.next >= 0) push(position, left.next);
  }
}

}  // namespace trireme::text
