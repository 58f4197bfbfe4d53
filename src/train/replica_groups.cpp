// Hashes within a group: all of all in small ones, the least and greatest in large ones.
// SPDX-License-Identifier: Apache-2.0
#include "train/replica_groups.hpp"

#include <algorithm>
#include <cstring>

#include "base/device.hpp"
#include "io/digest.hpp"

namespace trireme::train {
namespace {

using Prints = std::vector<Print>;

template <class T>
TensorView bytes_of(std::vector<T>& values) {
  return {
      values.data(), DType::u8, {static_cast<std::int64_t>(values.size() * sizeof(T))}};
}

void take_maximum(comm::Group& group, std::vector<double>& values) {
  if (values.empty()) return;
  Stream stream;
  const TensorView view(values.data(), DType::f64, {std::ssize(values)});
  group.all_reduce(stream, view, comm::Reduce::max).wait();
}

template <class T>
void broadcast_values(comm::Group& group, std::vector<T>& values) {
  if (values.empty()) return;
  Stream stream;
  group.broadcast(stream, bytes_of(values), 0).wait();
}

// The first of neighbours with one place whose bits differ.
std::optional<std::uint64_t> find_differing(Prints prints) {
  std::ranges::sort(prints, {}, &Print::place);
  const auto found =
      std::ranges::adjacent_find(prints, [](const Print& a, const Print& b) {
        return a.place == b.place && a.bits != b.bits;
      });
  if (found == prints.end()) return {};
  return found->place;
}

// The prints of all ranks, in no order. What fills up shorter lists is alike.
Prints gather(comm::Group& group, Prints prints) {
  std::vector<double> most = {static_cast<double>(prints.size())};
  take_maximum(group, most);
  prints.resize(static_cast<std::size_t>(most[0]));
  Prints all(prints.size() * static_cast<std::size_t>(group.size()));
  if (all.empty()) return all;
  Stream stream;
  group.all_gather(stream, bytes_of(prints), bytes_of(all)).wait();
  return all;
}

// Those of my prints that all ranks of the group have, in the order of its first rank.
Prints common(comm::Group& group, const Prints& prints) {
  std::vector<std::uint64_t> places;
  for (const Print& print : prints) places.push_back(print.place);
  std::vector<double> count = {static_cast<double>(places.size())};
  broadcast_values(group, count);
  places.resize(static_cast<std::size_t>(count[0]));
  broadcast_values(group, places);
  Prints found;
  std::vector<double> lacks;
  for (const std::uint64_t place : places) {
    const auto at = std::ranges::lower_bound(prints, place, {}, &Print::place);
    const bool has = at != prints.end() && at->place == place;
    lacks.push_back(has ? 0 : 1);
    found.push_back(has ? *at : Print{});
  }
  take_maximum(group, lacks);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (lacks[i] == 0) found[kept++] = found[i];
  found.resize(kept);
  return found;
}

// A number that a double holds, of the first 52 bits.
double number_of(std::uint64_t bits) { return static_cast<double>(bits >> 12); }

// Of each number the greatest and the least: whether they differ.
std::vector<bool> differ(comm::Group& group, const std::vector<double>& numbers) {
  std::vector<double> ends = numbers;
  for (const double number : numbers) ends.push_back(-number);
  take_maximum(group, ends);
  std::vector<bool> out;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    out.push_back(ends[i] != -ends[numbers.size() + i]);
  return out;
}

}  // namespace

std::optional<std::uint64_t> differing_place(comm::Group& group,
                                             std::vector<Print> prints, int gathered) {
  if (group.size() == 1) return {};
  std::ranges::sort(prints, {}, &Print::place);
  if (group.size() <= gathered) return find_differing(gather(group, std::move(prints)));
  const Prints alike = common(group, prints);
  if (alike.empty()) return {};
  // 1. all of it at once
  io::Digest digest;
  digest.add(alike.data(), alike.size() * sizeof(Print));
  const auto whole = io::first_half(digest.text());
  if (!differ(group, {number_of(whole)})[0]) return {};
  // 2. box by box
  std::vector<double> numbers;
  for (const Print& print : alike) numbers.push_back(number_of(print.bits));
  const std::vector<bool> which = differ(group, numbers);
  const auto first = std::ranges::find(which, true);
  if (first == which.end()) return {};
  return alike[static_cast<std::size_t>(first - which.begin())].place;
}

}  // namespace trireme::train
