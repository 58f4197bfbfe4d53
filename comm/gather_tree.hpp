// The tree along which the world gathers: within each host first, then between hosts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/host_table.hpp"

namespace trireme::comm {

// A rank's node in the tree. Its subtree holds `ranks` consecutive ranks from its own on
// (wrapping around if the root is not rank 0), so a child's message is a contiguous part
// of its parent's.
struct GatherTree {
  struct Child {
    int rank = 0;
    int first = 0;  // of the child's ranks, as a place among this rank's
    int ranks = 1;
  };
  int parent = -1;  // -1: this is the root
  int ranks = 1;
  std::vector<Child> children;  // in the order of their ranks
};

// The binomial tree of binomial_node() (comm/collective.hpp).
GatherTree binomial_tree(int rank, int root, int size);
// To rank 0: a binomial tree of each host's ranks, and one of the first ranks of all
// hosts, so that only these send to other hosts, once each. At most one step deeper than
// the binomial tree, and the same where all hosts have 2^n ranks. `hosts`: of all ranks;
// a host whose ranks are not neighbours counts as several.
GatherTree host_tree(int rank, const HostTable& hosts, int size);

}  // namespace trireme::comm
