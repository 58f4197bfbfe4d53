// PieceTrie: the pieces of a vocabulary that a text begins with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::text {

// A node's children stand next to each other, by byte.
class PieceTrie {
 public:
  // Pieces and their ids, sorted; none is empty, none there twice.
  explicit PieceTrie(const std::vector<std::pair<std::string, std::int32_t>>& sorted) {
    nodes_.push_back({});
    build(sorted);
  }
  // Calls take(bytes, id) for every piece that `text` begins with, short ones first.
  template <class Take>
  void for_each_prefix(std::string_view text, const Take& take) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const Node& from = nodes_[node];
      const auto begin = labels_.begin() + from.first, end = begin + from.count;
      const auto found = std::lower_bound(begin, end, byte);
      if (found == end || *found != byte) return;
      node = from.child + static_cast<std::uint32_t>(found - begin);
      if (nodes_[node].id >= 0) take(i + 1, nodes_[node].id);
    }
  }

 private:
  struct Node {
    std::uint32_t first = 0, child = 0;  // of its labels; the node of the first
    std::uint32_t count = 0;
    std::int32_t id = -1;
  };
  // Pieces [begin, end), which agree in their first `depth` bytes, are those of a node.
  struct Part {
    std::size_t begin, end, depth;
    std::uint32_t node;
  };
  // A list of parts to do instead of recursion: a file may hold a piece of a megabyte.
  void build(const std::vector<std::pair<std::string, std::int32_t>>& sorted) {
    std::vector<Part> parts = {{0, sorted.size(), 0, 0}};
    while (!parts.empty()) {
      auto [begin, end, depth, node] = parts.back();
      parts.pop_back();
      for (; begin < end && sorted[begin].first.size() == depth; ++begin)
        nodes_[node].id = sorted[begin].second;
      nodes_[node].first = static_cast<std::uint32_t>(labels_.size());
      nodes_[node].child = static_cast<std::uint32_t>(nodes_.size());
      for (std::size_t i = begin; i < end;) {
        const char byte = sorted[i].first[depth];
        const std::size_t first = i;
        while (i < end && sorted[i].first[depth] == byte) ++i;
        parts.push_back({first, i, depth + 1, static_cast<std::uint32_t>(nodes_.size())});
        labels_.push_back(static_cast<unsigned char>(byte));
        nodes_.push_back({});
        ++nodes_[node].count;
      }
    }
  }

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;
};

}  // namespace trireme::text
