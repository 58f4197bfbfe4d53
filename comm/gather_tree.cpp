// The tree along which the world gathers.
// SPDX-License-Identifier: Apache-2.0
#include "comm/gather_tree.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "comm/collective.hpp"

namespace trireme::comm {
namespace {

// f(distance, positions) for each child of a place, nearest first.
template <class F>
void for_children(const BinomialNode& place, int size, const F& f) {
  for (int m = 1; m <= place.first_child && place.relative_rank + m < size; m *= 2)
    f(m, std::min(m, size - place.relative_rank - m));
}

}  // namespace

GatherTree binomial_tree(int rank, int root, int size) {
  const BinomialNode place = binomial_node(rank, root, size);
  GatherTree tree{place.parent, subtree_size(place, size), {}};
  for_children(place, size, [&](int distance, int ranks) {
    tree.children.push_back({(rank + distance) % size, distance, ranks});
  });
  return tree;
}

GatherTree host_tree(int rank, const HostTable& hosts, int size) {
  const int count = hosts.hosts(), host = hosts.number_of(rank);
  require(host >= 0, "rank {} has no host", rank);
  const auto first_of = [&](int number) {
    return number < count ? hosts.first_rank(number) : size;
  };
  const int begin = first_of(host), ranks = first_of(host + 1) - begin;
  const BinomialNode within = binomial_node(rank - begin, 0, ranks);
  GatherTree tree{within.parent + begin, subtree_size(within, ranks), {}};
  for_children(within, ranks, [&](int distance, int below) {
    tree.children.push_back({rank + distance, distance, below});
  });
  if (rank != begin) return tree;
  const BinomialNode between = binomial_node(host, 0, count);
  tree.parent = between.parent < 0 ? -1 : first_of(between.parent);
  for_children(between, count, [&](int distance, int below) {
    const int first = first_of(host + distance);
    const int end = first_of(host + distance + below);
    tree.children.push_back({first, first - rank, end - first});
    tree.ranks += end - first;
  });
  return tree;
}

}  // namespace trireme::comm
