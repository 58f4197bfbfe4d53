// HostTable: which rank runs on which host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

// Kept as runs: hosts in order whose names differ in a number that grows by one, with
// equally many ranks each, are one run ("node" 0001 to 1250, 8 ranks each). What a rank
// holds thus does not grow with the ranks of a machine whose hosts are numbered.
class HostTable {
 public:
  // Appends the host of the next rank.
  void add(std::string_view host);
  // The host of a rank; "unknown" of one that was not added.
  std::string host(int rank) const;
  // The place of its host among hosts(); -1 of a rank that was not added.
  int number_of(int rank) const;
  // The first rank of the host at such a place.
  int first_rank(int number) const;
  // Hosts in order, neighbours of one name once.
  int hosts() const;
  std::size_t runs() const { return runs_.size(); }

  std::string text() const;
  // Throws Error(internal) for a text that is none.
  static HostTable from_text(const std::string& text);

 private:
  // Hosts prefix + (number + i) in `digits` digits + suffix, `ranks` ranks each; 0
  // digits: one host, whose name is the prefix.
  struct Run {
    std::string prefix, suffix;  // "node", ".cluster"
    std::int64_t number = 0;
    int digits = 0;
    int first = 0, hosts = 1, ranks = 1;
    std::string host(int index) const;
  };
  static Run run_of(std::string_view host);
  // Whether `next` goes on with the numbers of `run`.
  static bool follows(const Run& run, const Run& next);
  void merge();

  std::vector<Run> runs_;
};

}  // namespace trireme::comm
