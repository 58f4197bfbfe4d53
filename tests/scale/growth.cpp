// How what a rank costs grows with the ranks: amounts, exponents, complaints, the table.
// SPDX-License-Identifier: Apache-2.0
#include "scale/growth.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "base/format.hpp"

namespace trireme::scale {
namespace {

Amounts amounts_of(const Counts& c) {
  const auto number = [](auto n) { return static_cast<double>(n); };
  return {number(std::max(c.messages, c.received)),
          number(c.peers.size()),
          number(c.bytes),
          number(c.peak),
          number(c.opens),
          number(c.stats),
          number(c.changes),
          number(c.read),
          number(c.written)};
}

bool in_bytes(std::size_t quantity) {
  return quantity == bytes || quantity == memory || quantity == read ||
         quantity == written;
}

// How often a byte of the index may be counted, beyond what does not depend on it. MPI's
// broadcast counts it as many times on every rank as a tree has levels, and it is passed
// by twice at a resume: with the digests, and with the boxes. Messages: as many blocks.
double for_index(const Measured& measured, std::size_t who, std::size_t quantity) {
  if (measured.index.empty()) return 0;
  const auto& [P, index] = *measured.index.rbegin();
  const double levels = std::log2(P);
  constexpr double block_bytes = 1 << 16;
  const bool gathers = who == first || who == half;
  switch (quantity) {
    case messages: return 2 * 2 * levels * (index / block_bytes + 1);
    case bytes: return 2 * levels * index;
    case memory:  // rank 0 puts it together from parts; the others read a block
      return gathers ? 6 * index : 4 * block_bytes;
    case read:
    case written: return who == first ? 3 * index : 0;
    default: return 0;
  }
}

// What is wrong with how an amount grows; empty: nothing.
std::string complaint(const Measured& measured, std::size_t who, std::size_t quantity) {
  const auto& [P0, few] = *measured.at.begin();
  const auto& [P1, many] = *measured.at.rbegin();
  const double a = few[who][quantity], b = many[who][quantity];
  // Twice the logarithm may cost twice as much; a quarter more is left for what comes in
  // steps, and a little for what was next to nothing.
  double most = a * std::log2(P1) / std::log2(P0);
  if (measured.at.size() > 2) {  // of groups of P / 32 ranks: a straight line over log P
    const auto& [P, some] = *std::next(measured.at.begin());
    const double slope =
        (some[who][quantity] - a) / std::log2(static_cast<double>(P) / P0);
    most = std::max(most, a + slope * std::log2(static_cast<double>(P1) / P0));
  }
  most = most * 1.25 + (in_bytes(quantity) ? 512 : 4);
  most += for_index(measured, who, quantity);
  const bool is_first = who == first || (who == last && measured.also_last);
  const bool hands_on = is_first || who == half;
  if (hands_on && (quantity == bytes || quantity == memory)) most += 100.0 * (P1 - P0);
  const auto linear = measured.linear.find(static_cast<Quantity>(quantity));
  if (is_first && linear != measured.linear.end()) most += linear->second * (P1 - P0);
  if (b <= std::max(most, std::log2(P1))) return {};  // a message a level of a tree
  return format("{} of {} grow from {} on {} ranks to {} on {}, as P^{}",
                quantities[quantity], names[who], fixed(a, 0), P0, fixed(b, 0), P1,
                fixed(exponent(measured, who, quantity), 2));
}

// At 100,000 ranks: with the logarithm, or with what a rank adds. The index of a
// checkpoint passes by all ranks block by block, which small numbers of ranks hide.
double extrapolated(const Measured& measured, std::size_t who, std::size_t quantity) {
  constexpr double there = 100000;
  const auto& [P1, many] = *measured.at.rbegin();
  const auto& [P0, few] = *std::prev(measured.at.end(), 2);
  const double slope = (many[who][quantity] - few[who][quantity]) / (P1 - P0);
  const double least = measured.index.empty() ? 0.4 : 0.3;
  const bool linear = exponent(measured, who, quantity) > least;
  return linear ? many[who][quantity] + slope * (there - P1)
                : many[who][quantity] * std::log2(there) / std::log2(P1);
}

}  // namespace

void add(Measured& measured, FakeJob& job) {
  const int P = job.ranks();
  measured.at[P] = {amounts_of(job.of(0)), amounts_of(job.of(P / 2)),
                    amounts_of(job.of(ranks_on_node)), amounts_of(job.of(P - 1))};
}

double exponent(const Measured& measured, std::size_t who, std::size_t quantity) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [P, at] : measured.at) {
    const double a = std::log(P), b = std::log(std::max(at[who][quantity], 1.0));
    n += 1, x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

std::vector<std::string> complaints(const Table& table) {
  std::vector<std::string> all;
  for (const auto& [phase, measured] : table)
    for (std::size_t who = 0; who < names.size(); ++who)
      for (std::size_t quantity = 0; quantity < quantities.size(); ++quantity)
        if (const auto text = complaint(measured, who, quantity); !text.empty())
          all.push_back(phase + ": " + text);
  return all;
}

void print(const Table& table) {
  std::printf("%-10s %-9s %-9s", "phase", "rank", "amount");
  for (const auto& [P, at] : table.begin()->second.at) std::printf(" %10d", P);
  std::printf(" %9s %10s\n", "exponent", "100,000");
  for (const auto& [phase, measured] : table)
    for (std::size_t who = 0; who < names.size(); ++who)
      for (std::size_t quantity = 0; quantity < quantities.size(); ++quantity) {
        if (measured.at.rbegin()->second[who][quantity] == 0) continue;
        std::printf("%-10s %-9s %-9s", phase.c_str(), names[who], quantities[quantity]);
        for (const auto& [P, ignored] : table.begin()->second.at)
          if (const auto of = measured.at.find(P); of != measured.at.end())
            std::printf(" %10.0f", of->second[who][quantity]);
          else
            std::printf(" %10s", "-");
        std::printf(" %9.2f %10.0f\n", exponent(measured, who, quantity),
                    extrapolated(measured, who, quantity));
      }
  for (const auto& [phase, measured] : table)
    for (const auto& [P, index] : measured.index)
      std::printf("%s: index on %d ranks: %.0f bytes\n", phase.c_str(), P, index);
}

}  // namespace trireme::scale
