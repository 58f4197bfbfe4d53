// The parts of a checkpoint's index that a rank needs, sent by the one that read it.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_share.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "io/checkpoint_index.hpp"

namespace trireme::io {
namespace {

// Small beside what MPI keeps for a peer, large beside what a message costs.
// Below the 64 KiB from which on some MPI libraries broadcast along a chain of all ranks.
constexpr std::size_t block_bytes = std::size_t{60} << 10;

const std::string what = "checkpoint: a part of the index";

// Rank 0 makes blocks until it has none; the others read each.
template <class Make, class Read>
void pass_by(comm::World& world, Make make, Read read) {
  while (true) {
    const bool has_all = world.rank() == 0;
    const std::string block = world.broadcast(has_all ? make() : std::string());
    if (block.empty()) return;
    if (!has_all) read(block);
  }
}

// A block of files is an index without tensors. f(number, file).
template <class F>
void pass_files(comm::World& world, const Manifest& whole, const F& f) {
  constexpr std::size_t at_once = block_bytes / 100;
  std::size_t at = 0;
  const auto make = [&] {
    const std::size_t count = std::min(at_once, whole.files.size() - at);
    if (count == 0) return std::string();
    Manifest block;
    const auto begin = whole.files.begin() + static_cast<std::ptrdiff_t>(at);
    block.files.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    at += count;
    return index_head(block);
  };
  std::uint32_t number = 0;
  pass_by(world, make, [&](const std::string& text) {
    Manifest block;
    parse_index(what, text, block);
    for (FileEntry& file : block.files) f(number++, file);
  });
}

// A block of boxes: the number of a tensor, that of the records that follow, and those.
struct Run {
  std::uint32_t tensor = 0, count = 0;
};

// f(tensor, record) -> whether it is kept. Those that are take the place of the
// manifest's boxes; on rank 0 nothing changes.
template <class F>
void pass_boxes(comm::World& world, Manifest& manifest, const F& keeps) {
  std::size_t tensor = 0, box = 0;
  const auto make = [&] {
    std::string block;
    const BoxTable& all = manifest.boxes;
    while (tensor < all.tensors() && block.size() < block_bytes) {
      const std::size_t left = all.count(tensor) - box;
      if (left == 0) {
        ++tensor, box = 0;
        continue;
      }
      const std::size_t record = BoxTable::record_bytes(all.rank(tensor));
      const std::size_t count =
          std::clamp<std::size_t>((block_bytes - block.size()) / record, 1, left);
      const Run run{static_cast<std::uint32_t>(tensor),
                    static_cast<std::uint32_t>(count)};
      block.append(reinterpret_cast<const char*>(&run), sizeof run);
      block += all.records(tensor, box, count);
      box += count;
    }
    return block;
  };
  std::string kept;
  std::vector<std::size_t> counts(manifest.tensors.size());
  pass_by(world, make, [&](std::string_view block) {
    while (!block.empty()) {
      Run run;
      std::memcpy(&run, block.data(), sizeof run);
      block.remove_prefix(sizeof run);
      const int rank = manifest.tensors[run.tensor].shape.rank();
      const std::size_t bytes = BoxTable::record_bytes(rank);
      for (std::uint32_t i = 0; i < run.count; ++i, block.remove_prefix(bytes)) {
        if (!keeps(run.tensor, BoxTable::record(block.data(), rank))) continue;
        kept += block.substr(0, bytes);
        ++counts[run.tensor];
      }
    }
  });
  if (world.rank() == 0) return;
  manifest.boxes = {};
  for (std::size_t i = 0; i < counts.size(); ++i)
    manifest.boxes.expect_tensor(manifest.tensors[i].shape.rank(), counts[i]);
  require(manifest.boxes.adopt(std::move(kept)), "{} is not whole", what);
}

// Boxes name their files by their place among those that were kept. `numbers`: of these,
// sorted.
void renumber(Manifest& manifest, const std::vector<std::uint32_t>& numbers) {
  for (std::size_t i = 0; i < manifest.boxes.tensors(); ++i)
    for (std::size_t b = 0; b < manifest.boxes.count(i); ++b) {
      BoxRecord record = manifest.boxes.get(i, b);
      const auto at = std::lower_bound(numbers.begin(), numbers.end(), record.file);
      record.file = static_cast<std::uint32_t>(at - numbers.begin());
      manifest.boxes.set(i, b, record);
    }
}

}  // namespace

bool meets(const BoxRecord& box, const Shape& begin, const Shape& extent) {
  for (int dim = 0; dim < begin.rank(); ++dim)
    if (box.begin[dim] >= begin[dim] + extent[dim] ||
        begin[dim] >= box.begin[dim] + box.extent[dim])
      return false;
  return true;
}

void receive_tensors(comm::World& world, Manifest& manifest) {
  std::string text;
  if (world.rank() == 0) {
    Manifest names;
    names.tensors = manifest.tensors;
    for (const TensorEntry& tensor : names.tensors)
      names.boxes.expect_tensor(tensor.shape.rank(), 0);
    text = index_head(names);
  }
  text = world.broadcast(text);
  if (world.rank() != 0) parse_index(what, text, manifest);
}

SharePlace receive_share(comm::World& world, Manifest& manifest) {
  receive_tensors(world, manifest);
  double total = 0;
  for (const FileEntry& file : manifest.files) total += static_cast<double>(file.bytes);
  SharePlace place;
  place.total = world.max(total);  // the others have no files yet
  std::vector<std::uint32_t> numbers;
  double begin = 0;
  pass_files(world, manifest, [&](std::uint32_t number, FileEntry& file) {
    const double end = begin + static_cast<double>(file.bytes);
    if (reaches_into(begin, end, place.total, world.rank(), world.size())) {
      if (numbers.empty()) place.before = begin;
      numbers.push_back(number);
      manifest.files.push_back(std::move(file));
    }
    begin = end;
  });
  pass_boxes(world, manifest, [&](std::uint32_t, const BoxRecord& box) {
    return std::binary_search(numbers.begin(), numbers.end(), box.file);
  });
  if (world.rank() != 0) renumber(manifest, numbers);
  return place;
}

void receive_boxes(comm::World& world, Manifest& manifest,
                   const std::vector<TensorBox>& wanted) {
  std::map<std::string_view, std::vector<const TensorBox*>> by_path;
  for (const TensorBox& box : wanted)
    if (box.data.elements() > 0) by_path[box.path].push_back(&box);
  std::vector<std::vector<const TensorBox*>> by_tensor;
  for (const TensorEntry& tensor : manifest.tensors)
    by_tensor.push_back(by_path[tensor.path]);
  std::vector<std::uint32_t> numbers;
  pass_boxes(world, manifest, [&](std::uint32_t tensor, const BoxRecord& box) {
    const auto& boxes = by_tensor[tensor];
    const bool kept =
        std::any_of(boxes.begin(), boxes.end(), [&](const TensorBox* other) {
          return other->begin.rank() == box.begin.rank() &&
                 meets(box, other->begin, other->data.shape());
        });
    if (kept) numbers.push_back(box.file);
    return kept;
  });
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (world.rank() != 0) manifest.files.clear();
  pass_files(world, manifest, [&](std::uint32_t number, FileEntry& file) {
    if (std::binary_search(numbers.begin(), numbers.end(), number))
      manifest.files.push_back(std::move(file));
  });
  if (world.rank() != 0) renumber(manifest, numbers);
}

}  // namespace trireme::io
