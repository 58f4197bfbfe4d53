// Hashes within a group: all of all in small ones, the least and greatest in large ones.
// SPDX-License-Identifier: Apache-2.0
#include "train/replica_groups.hpp"

#include <algorithm>
#include <cstring>

#include "base/device.hpp"
#include "io/digest.hpp"
#include "train/byte_messages.hpp"

namespace trireme::train {
namespace {

using BoxHashes = std::vector<BoxHash>;

template <class T>
std::int64_t size_in_bytes(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.size() * sizeof(T));
}

void take_maximum(comm::Group& group, std::vector<double>& values) {
  if (values.empty()) return;
  Stream stream;
  const TensorView view(values.data(), DType::f64, {std::ssize(values)});
  group.all_reduce(stream, view, comm::Reduce::max).wait();
}

// The first of neighbours with one place whose bits differ.
std::optional<std::uint64_t> find_differing(BoxHashes hashes) {
  std::ranges::sort(hashes, {}, &BoxHash::place);
  const auto found =
      std::ranges::adjacent_find(hashes, [](const BoxHash& a, const BoxHash& b) {
        return a.place == b.place && a.bits != b.bits;
      });
  if (found == hashes.end()) return {};
  return found->place;
}

// The hashes of all ranks, in no order. What fills up shorter lists is alike.
BoxHashes gather(comm::Group& group, BoxHashes hashes) {
  std::vector<double> most = {static_cast<double>(hashes.size())};
  take_maximum(group, most);
  hashes.resize(static_cast<std::size_t>(most[0]));
  BoxHashes all(hashes.size() * static_cast<std::size_t>(group.size()));
  if (all.empty()) return all;
  Stream stream;
  group
      .all_gather(stream, bytes_of(hashes.data(), size_in_bytes(hashes)),
                  bytes_of(all.data(), size_in_bytes(all)))
      .wait();
  return all;
}

// Those of my hashes that all ranks of the group have, in the order of its first rank.
BoxHashes common(comm::Group& group, const BoxHashes& hashes) {
  std::vector<std::uint64_t> places;
  for (const BoxHash& hash : hashes) places.push_back(hash.place);
  std::vector<double> count = {static_cast<double>(places.size())};
  broadcast_bytes(group, count.data(), size_in_bytes(count), 0);
  places.resize(static_cast<std::size_t>(count[0]));
  broadcast_bytes(group, places.data(), size_in_bytes(places), 0);
  BoxHashes found;
  std::vector<double> lacks;
  for (const std::uint64_t place : places) {
    const auto at = std::ranges::lower_bound(hashes, place, {}, &BoxHash::place);
    const bool has = at != hashes.end() && at->place == place;
    lacks.push_back(has ? 0 : 1);
    found.push_back(has ? *at : BoxHash{});
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
                                             std::vector<BoxHash> hashes, int gathered) {
  if (group.size() == 1) return {};
  std::ranges::sort(hashes, {}, &BoxHash::place);
  if (group.size() <= gathered) return find_differing(gather(group, std::move(hashes)));
  const BoxHashes alike = common(group, hashes);
  if (alike.empty()) return {};
  // 1. all of it at once
  io::Digest digest;
  digest.add(alike.data(), alike.size() * sizeof(BoxHash));
  const auto whole = io::first_half(digest.text());
  if (!differ(group, {number_of(whole)})[0]) return {};
  // 2. box by box
  std::vector<double> numbers;
  for (const BoxHash& hash : alike) numbers.push_back(number_of(hash.bits));
  const std::vector<bool> which = differ(group, numbers);
  const auto first = std::ranges::find(which, true);
  if (first == which.end()) return {};
  return alike[static_cast<std::size_t>(first - which.begin())].place;
}

}  // namespace trireme::train
