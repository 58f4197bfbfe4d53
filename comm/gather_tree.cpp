// The tree along which the world gathers.
// SPDX-License-Identifier: Apache-2.0
#include "comm/gather_tree.hpp"

#include "base/error.hpp"
#include "comm/collective.hpp"

namespace trireme::comm {

GatherTree binomial_tree(int rank, int root, int size) {
  const BinomialNode place = binomial_node(rank, root, size);
  GatherTree tree{place.parent, subtree_size(place, size), {}};
  for_each_child(place, size, ChildOrder::nearest_first, [&](int distance, int ranks) {
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
  for_each_child(within, ranks, ChildOrder::nearest_first, [&](int distance, int below) {
    tree.children.push_back({rank + distance, distance, below});
  });
  if (rank != begin) return tree;
  const BinomialNode between = binomial_node(host, 0, count);
  tree.parent = between.parent < 0 ? -1 : first_of(between.parent);
  for_each_child(between, count, ChildOrder::nearest_first, [&](int distance, int below) {
    const int first = first_of(host + distance);
    const int end = first_of(host + distance + below);
    tree.children.push_back({first, first - rank, end - first});
    tree.ranks += end - first;
  });
  return tree;
}

}  // namespace trireme::comm
