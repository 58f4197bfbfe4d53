// Boxes that several ranks hold alike: one of them reads, and hands on.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "io/digest.hpp"
#include "train/box_windows.hpp"
#include "train/byte_messages.hpp"
#include "train/checkpoint_load.hpp"

namespace trireme::train {
namespace {

using Boxes = std::vector<const io::TensorBox*>;

// What two boxes that are filled alike have in common.
std::uint64_t key_of(const io::TensorBox& box) {
  const std::string text = format("{} {} {} {} {}", box.path, box.whole, box.begin,
                                  box.data.shape(), name_of(box.data.dtype()));
  return io::first_half(io::digest_of(text));
}

// Those of the boxes that all ranks of the group hold, in the order of its first rank.
Boxes common_boxes(comm::Group& group, const Boxes& boxes) {
  std::map<std::uint64_t, const io::TensorBox*> mine;
  std::vector<std::uint64_t> keys;
  for (const io::TensorBox* box : boxes) {
    const std::uint64_t key = key_of(*box);
    if (mine.emplace(key, box).second) keys.push_back(key);
  }
  std::uint64_t count = keys.size();
  broadcast_bytes(group, &count, sizeof count, 0);
  keys.resize(count);
  broadcast_bytes(group, keys.data(),
                  static_cast<std::int64_t>(count * sizeof(std::uint64_t)), 0);
  std::vector<float> lacking;
  for (const std::uint64_t key : keys) lacking.push_back(mine.contains(key) ? 0 : 1);
  if (count > 0) {
    Stream stream;
    const TensorView view(lacking.data(), DType::f32, {static_cast<std::int64_t>(count)});
    group.all_reduce(stream, view, comm::Reduce::max).wait();
  }
  Boxes common;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (lacking[i] == 0) common.push_back(mine.at(keys[i]));
  return common;
}

// `box` from the rank `root`, which reads it, to all, a window at a time. What fails is
// kept for the end, for the others wait for the broadcasts.
void read_for_all(comm::Group& group, const io::CheckpointReader& reader,
                  const io::TensorBox& box, int root, const Buffer& memory,
                  std::exception_ptr& failure) {
  const auto most = window_bytes / static_cast<std::int64_t>(size_of(box.data.dtype()));
  for (const BoxWindow& window : windows_of(box.data.shape(), most)) {
    const TensorView part(memory.view().raw(), box.data.dtype(), window.extent);
    if (group.rank() == root && !failure) {
      Shape begin = box.begin;
      for (int i = 0; i < begin.rank(); ++i) begin[i] += window.begin[i];
      try {
        reader.read(box.path, box.whole, begin, part);
      } catch (...) {
        failure = std::current_exception();
      }
    }
    broadcast_bytes(group, part.raw(), static_cast<std::int64_t>(part.bytes()), root);
    Stream device(box.data.device());
    copy_bytes(device, part, part_of(box.data, window));
    device.synchronize();
  }
}

// Each box is read by one rank of the group: a part of the boxes next to each other by
// each.
void read_for_all(comm::Group& group, const io::CheckpointReader& reader,
                  const Boxes& boxes, std::exception_ptr& failure) {
  std::int64_t most = 0;
  for (const io::TensorBox* box : boxes)
    most = std::max(most, static_cast<std::int64_t>(box->data.bytes()));
  const Buffer memory(Device::host(), DType::u8, {std::min(most, window_bytes)},
                      MemoryClass::data, "loaded box");
  const auto ranks = static_cast<std::size_t>(group.size());
  for (std::size_t i = 0; i < boxes.size(); ++i)
    read_for_all(group, reader, *boxes[i], static_cast<int>(i * ranks / boxes.size()),
                 memory, failure);
}

}  // namespace

std::vector<comm::Group*> replica_groups(const comm::Mesh& mesh) {
  return {&mesh.replicas(), &mesh.copies(), &mesh.expert_replicas(),
          &mesh.expert_copies()};
}

void load_boxes(comm::World& world, const io::CheckpointReader& reader,
                const std::vector<io::TensorBox>& boxes,
                const std::vector<comm::Group*>& groups) {
  // 1. What a group holds alike. All ranks look for all their boxes first.
  world.agree([&] {
    for (const auto& box : boxes)
      reader.require_tensor(box.path, box.whole, box.data.dtype());
  });
  reader.fetch(world, boxes);
  Boxes rest;
  for (const auto& box : boxes)
    if (box.data.elements() > 0) rest.push_back(&box);
  std::map<const io::TensorBox*, std::size_t> file_of;
  for (const io::TensorBox* box : rest) file_of[box] = reader.first_file(*box);
  std::stable_sort(rest.begin(), rest.end(),
                   [&](const auto* a, const auto* b) { return file_of[a] < file_of[b]; });
  std::exception_ptr failure;
  for (comm::Group* group : groups) {
    if (group->size() == 1) continue;
    Boxes common = common_boxes(*group, rest);
    read_for_all(*group, reader, common, failure);
    std::sort(common.begin(), common.end());
    std::erase_if(rest, [&](const io::TensorBox* box) {
      return std::binary_search(common.begin(), common.end(), box);
    });
  }
  // 2. The rest, file by file.
  world.agree([&] {
    if (failure) std::rethrow_exception(failure);
    for (const io::TensorBox* box : rest)
      reader.read(box->path, box->whole, box->begin, box->data);
  });
}

}  // namespace trireme::train
