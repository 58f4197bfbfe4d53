// What the rates of all ranks say of their hosts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/host_table.hpp"

namespace trireme::selftest {

// Of the ranks of one kind, which ought to be alike.
struct RateSpread {
  int kind = 0, ranks = 0;
  double median = 0, slowest = 0, fastest = 0;
  int slowest_rank = 0;
};

struct SlowRank {
  int rank = 0;
  double share = 0;  // of the median of its kind
};

struct RateVerdict {
  std::vector<RateSpread> kinds;  // those that have rates, by number
  std::vector<SlowRank> slow;     // in the order of ranks
};

// Which ranks are slower than `least_share` of the median of their kind; of two ranks the
// faster is the median. So less than half of a kind can be slow.
// rates: of each rank; below 0: it has none. kinds: of each rank, numbers from 0.
RateVerdict judge(std::span<const double> rates, std::span<const std::uint8_t> kinds,
                  double least_share);

// The hosts to leave out, and why.
class NamedHosts {
 public:
  explicit NamedHosts(const comm::HostTable& hosts) : hosts_(hosts) {}

  void add_slow(const std::string& what, const std::vector<SlowRank>& slow);
  // A rank whose memory gave back other bytes.
  void add_wrong(int rank);

  bool empty() const { return named_.empty(); }
  std::size_t size() const { return named_.size(); }
  // Worst first; at most so many, the last then says how many more there are.
  std::vector<std::string> names(std::size_t most) const;
  // "host n17: products 0.43 of the median (rank 137), ...", a line a host; as names().
  std::vector<std::string> lines(std::size_t most) const;
  // A line each, by name.
  std::string exclude_list() const;

 private:
  struct Reason {
    std::string what;
    SlowRank worst;
    bool wrong = false;
  };
  using Reasons = std::vector<Reason>;

  std::vector<std::map<std::string, Reasons>::const_iterator> worst_first() const;

  const comm::HostTable& hosts_;
  std::map<std::string, Reasons> named_;
};

}  // namespace trireme::selftest
