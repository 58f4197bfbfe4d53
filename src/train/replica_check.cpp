// Compares weights and optimizer state between replicas that must be equal.
// SPDX-License-Identifier: Apache-2.0
#include "train/replica_check.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "base/device_memory.hpp"
#include "base/number.hpp"
#include "base/row_windows.hpp"
#include "comm/hosts.hpp"
#include "comm/rank_status.hpp"
#include "io/digest.hpp"
#include "launch/restarts.hpp"
#include "train/replica_groups.hpp"

namespace trireme::train {
namespace {

// Groups of more ranks compare the ends of their hashes. What only some ranks of a group
// hold alike, such as heads of keys over tensor ranks, lies in small groups.
constexpr int gathered_in_group = 16;

std::string place_of(const io::TensorBox& box) {
  return format("{} {} at {}, {} of {}", box.path, name_of(box.data.dtype()), box.begin,
                box.data.shape(), box.whole);
}

// The bytes of a box, row by row where rows are strided or lie on a GPU.
std::uint64_t bits_of(const io::TensorBox& box, std::vector<std::byte>& row_memory) {
  io::Digest digest;
  const TensorView& data = box.data;
  const bool whole = data.device().is_host() && data.is_dense();
  const auto width = size_of(data.dtype());
  if (whole) {
    digest.add(data.raw(), static_cast<std::size_t>(data.elements()) * width);
    return io::first_half(digest.text());
  }
  constexpr std::int64_t block_bytes = 16 << 20;
  const std::int64_t rows = data.dim(0);
  const std::int64_t row_elements = rows > 0 ? data.elements() / rows : 0;
  const auto row_bytes = row_elements * static_cast<std::int64_t>(width);
  const std::int64_t held_bytes = rows_at_once(rows, row_bytes, block_bytes) * row_bytes;
  row_memory.resize(std::max(row_memory.size(), static_cast<std::size_t>(held_bytes)));
  Stream stream(data.device());
  for (const auto [row, count] : RowWindows(rows, row_bytes, block_bytes)) {
    const TensorView some = data.rows(row, count);
    const TensorView copy(row_memory.data(), some.dtype(), some.shape());
    copy_bytes(stream, some, copy);
    stream.synchronize();
    digest.add(row_memory.data(), static_cast<std::size_t>(some.elements()) * width);
  }
  return io::first_half(digest.text());
}

// The first place where ranks differ: its number on a rank that holds it, and the ranks
// by bits.
struct Difference {
  int holder = 0;
  std::size_t box = 0;
  std::map<std::uint64_t, std::vector<int>> ranks_by_bits;
};

std::optional<Difference> find_difference(const std::vector<std::string>& texts) {
  struct Holder {
    std::uint64_t place = 0, bits = 0;
    int rank = 0;
    std::size_t box = 0;
  };
  std::vector<Holder> holders;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    for (std::size_t box = 0; box < texts[r].size() / sizeof(BoxHash); ++box) {
      BoxHash hash;
      std::memcpy(&hash, texts[r].data() + box * sizeof(BoxHash), sizeof(BoxHash));
      holders.push_back({hash.place, hash.bits, static_cast<int>(r), box});
    }
  }
  std::ranges::stable_sort(holders, {}, &Holder::place);
  for (std::size_t begin = 0, end = 0; begin < holders.size(); begin = end) {
    Difference difference{holders[begin].rank, holders[begin].box, {}};
    for (; end < holders.size() && holders[end].place == holders[begin].place; ++end)
      difference.ranks_by_bits[holders[end].bits].push_back(holders[end].rank);
    if (difference.ranks_by_bits.size() > 1) return difference;
  }
  return {};
}

// Who differs from most, and who these are; nobody (a tie): all that differ.
struct Odd {
  std::vector<int> ranks, most;
};

Odd odd_ranks(const Difference& difference) {
  std::vector<std::vector<int>> ranks;
  for (const auto& [bits, some] : difference.ranks_by_bits) ranks.push_back(some);
  std::ranges::stable_sort(
      ranks, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const bool tie = ranks[0].size() == ranks[1].size();
  Odd odd;
  if (!tie) odd.most = ranks[0];
  for (std::size_t i = tie ? 0 : 1; i < ranks.size(); ++i)
    odd.ranks.insert(odd.ranks.end(), ranks[i].begin(), ranks[i].end());
  std::ranges::sort(odd.ranks);
  return odd;
}

std::string describe(const Difference& difference, const std::string& place,
                     std::int64_t step) {
  const auto [odd, most] = odd_ranks(difference);
  const std::string who =
      most.empty()
          ? format("ranks {} hold different bits", comm::ranks_text(odd))
          : format("{} {} from ranks {}",
                   (odd.size() == 1 ? "rank " : "ranks ") + comm::ranks_text(odd),
                   odd.size() == 1 ? "differs" : "differ", comm::ranks_text(most));
  return format(
      "after step {}: {}: {} (health.check_replicas_every): a fault of memory, "
      "of a processor or of the program; resume from a checkpoint of before, "
      "without these hosts",
      step, place, who);
}

// Where ranks of the whole job differ, of the boxes in their hashes, as rank 0 sees it.
std::optional<Difference> compare_all(comm::World& world,
                                      const std::vector<BoxHash>& hashes) {
  const auto all = world.gather_text(std::string(
      reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(BoxHash)));
  return world.rank() == 0 ? find_difference(all) : std::nullopt;
}

// Where the ranks of the mesh's groups differ; alike on all ranks. Of several places that
// of the lowest rank that knows one.
std::optional<std::uint64_t> compare_groups(comm::World& world, comm::Mesh& mesh,
                                            const std::vector<BoxHash>& hashes,
                                            int gathered) {
  std::optional<std::uint64_t> place;
  // Who holds the same weights; the same shard of them, or of experts; the same norms;
  // the same table at the ends of the pipeline.
  for (comm::Group* const group :
       {&mesh.replicas(), &mesh.copies(), &mesh.expert_replicas(), &mesh.expert_copies(),
        &mesh.group(comm::Axis::tensor), &mesh.embedding_group()}) {
    const auto differs =
        differing_place(*group, hashes, std::min(gathered, gathered_in_group));
    if (!place) place = differs;
  }
  const int first = -static_cast<int>(world.max(place ? -world.rank() : -world.size()));
  if (first == world.size()) return {};
  const std::string text = world.broadcast(place ? format("{}", *place) : "", first);
  return parse_number<std::uint64_t>(text);
}

}  // namespace

void check_replicas(comm::World& world, comm::Mesh& mesh,
                    const std::vector<io::TensorBox>& boxes, std::int64_t step,
                    int gathered) {
  if (world.size() == 1) return;
  // 1. every rank: what it holds
  std::vector<BoxHash> hashes;
  std::vector<std::byte> row_memory;
  for (const auto& box : boxes)
    hashes.push_back(
        {io::first_half(io::digest_of(place_of(box))), bits_of(box, row_memory)});
  // 2. where ranks differ: of few ranks at once, of many group by group, and of the one
  // place that is found all ranks
  std::size_t left_out = 0;  // of this rank's boxes, before the first that is compared
  if (world.size() > gathered) {
    const auto place = compare_groups(world, mesh, hashes, gathered);
    if (!place) return;
    const auto found = std::ranges::find(hashes, *place, &BoxHash::place);
    left_out = static_cast<std::size_t>(found - hashes.begin());
    hashes =
        found == hashes.end() ? std::vector<BoxHash>() : std::vector<BoxHash>{*found};
  }
  const std::optional<Difference> difference = compare_all(world, hashes);
  if (world.max(difference ? 1 : 0) == 0) return;
  // 3. a rank that holds it knows its name
  const auto holder = static_cast<int>(world.max(difference ? difference->holder : 0));
  const auto box = left_out + static_cast<std::size_t>(world.max(
                                  difference ? static_cast<double>(difference->box) : 0));
  const std::string place =
      world.broadcast(world.rank() == holder ? place_of(boxes[box]) : "", holder);
  // 4. the job's script leaves out those that most ranks speak against
  if (difference)
    if (const Odd odd = odd_ranks(*difference); !odd.most.empty())
      for (const int rank : odd.ranks)
        launch::name_bad_host(comm::hosts_of(world).host(rank));
  throw comm::Agreed(
      Status::corruption,
      world.broadcast(difference ? describe(*difference, place, step) : ""));
}

}  // namespace trireme::train
