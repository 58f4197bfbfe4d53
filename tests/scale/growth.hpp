// How what a rank costs grows with the ranks: amounts, exponents, complaints, the table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "scale/fake_mpi.hpp"

namespace trireme::scale {

inline constexpr int ranks_on_node = 8;

// The ranks that are looked at: the first, the one below which half of a tree lies, the
// first of another node, the last.
enum Who : std::size_t { first, half, leader, last };
inline constexpr std::array<const char*, 4> names = {"rank 0", "rank P/2", "leader",
                                                     "rank P-1"};

enum Quantity : std::size_t {
  messages,
  peers,
  bytes,
  memory,
  opens,
  stats,
  changes,
  read,
  written
};
inline constexpr std::array<const char*, 9> quantities = {"messages", "peers", "bytes",
                                                          "memory",   "opens", "stats",
                                                          "changes",  "read",  "written"};
using Amounts = std::array<double, quantities.size()>;

// Of one phase: by number of ranks.
struct Measured {
  std::map<int, std::array<Amounts, names.size()>> at;
  // Of what every rank has to be told (the index of a checkpoint): bytes, by number of
  // ranks. It is judged by itself, and what a rank does with each of its bytes apart from
  // what it does otherwise.
  std::map<int, double> index;
  // What rank 0 alone may add of a quantity for each rank, beyond 100 bytes.
  std::map<Quantity, double> linear;
  // Whether the last rank may do what rank 0 may.
  bool also_last = false;
};
using Table = std::map<std::string, Measured>;

// Adds what the ranks of a job have done since its last reset().
void add(Measured& measured, FakeJob& job);

// The power of P that the amounts grow with: least squares of logarithms.
double exponent(const Measured& measured, std::size_t who, std::size_t quantity);
// What grows faster than it may.
std::vector<std::string> complaints(const Table& table);
void print(const Table& table);

}  // namespace trireme::scale
