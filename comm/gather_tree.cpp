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
void for_children(const TreePlace& place, int size, const F& f) {
  for (int m = 1; m <= place.first_child && place.position + m < size; m *= 2)
    f(m, std::min(m, size - place.position - m));
}

}  // namespace

GatherTree binomial_tree(int rank, int root, int size) {
  const TreePlace place = tree_place(rank, root, size);
  GatherTree tree{place.parent, subtree(place, size), {}};
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
  const TreePlace within = tree_place(rank - begin, 0, ranks);
  GatherTree tree{within.parent + begin, subtree(within, ranks), {}};
  for_children(within, ranks, [&](int distance, int below) {
    tree.children.push_back({rank + distance, distance, below});
  });
  if (rank != begin) return tree;
  const TreePlace between = tree_place(host, 0, count);
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
