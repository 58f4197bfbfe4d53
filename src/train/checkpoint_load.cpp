// One rank reads a checkpoint, and hands out boxes of its tensors to all.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_load.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/boxes.hpp"
#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "train/box_windows.hpp"

namespace trireme::train {
namespace {

// "path rank extents", a line each.
std::string to_text(const std::vector<io::TensorEntry>& tensors) {
  std::ostringstream text;
  for (const auto& entry : tensors) {
    text << entry.path << ' ' << entry.shape.rank();
    for (int i = 0; i < entry.shape.rank(); ++i) text << ' ' << entry.shape[i];
    text << '\n';
  }
  return text.str();
}

std::vector<io::TensorEntry> tensors_from_text(const std::string& text) {
  std::vector<io::TensorEntry> tensors;
  std::istringstream lines(text);
  std::string path;
  int rank = 0;
  while (lines >> path >> rank) {
    Shape shape = shape_of_rank(rank);
    for (int i = 0; i < shape.rank(); ++i) lines >> shape[i];
    tensors.push_back({path, {}, shape, {}});
  }
  return tensors;
}

// The boxes of this rank, by their paths.
using Boxes = std::map<std::string_view, std::vector<const io::TensorBox*>>;

constexpr float nobody = -1;

// Of each tensor the type in which ranks want it, who agree, or `nobody` where none does.
std::vector<float> wanted_types(comm::Mesh& mesh,
                                const std::vector<io::TensorEntry>& tensors,
                                const Boxes& boxes) {
  std::vector<float> types;
  for (const auto& entry : tensors) {
    const auto own = boxes.find(entry.path);
    types.push_back(own == boxes.end()
                        ? nobody
                        : static_cast<float>(own->second.back()->data.dtype()));
  }
  if (types.empty()) return types;
  Stream stream;
  const TensorView view(types.data(), DType::f32, {std::ssize(types)});
  mesh.everyone().all_reduce(stream, view, comm::Reduce::max).wait();
  return types;
}

// A window of a tensor from rank 0 to the boxes of all.
void scatter_window(comm::Mesh& mesh, const TensorView& part, const BoxWindow& window,
                    const std::vector<const io::TensorBox*>& boxes) {
  // As bytes, for there are types in which no collective computes.
  const TensorView bytes(part.raw(), DType::u8,
                         {static_cast<std::int64_t>(part.bytes())});
  Stream stream;
  mesh.everyone().broadcast(stream, bytes, 0).wait();
  for (const io::TensorBox* box : boxes) {
    const BoxWindow own{box->begin, box->data.shape()}, common = common_part(window, own);
    if (common.extent.elements() == 0) continue;
    Stream device(box->data.device());
    copy_bytes(device, part_of(part, inside(common, window)),
               part_of(box->data, inside(common, own)));
  }
}

}  // namespace

void load_by_one(comm::World& world, comm::Mesh& mesh, const std::string& path,
                 const std::vector<io::TensorBox>& boxes, bool verified) {
  std::optional<io::CheckpointReader> reader;
  world.agree([&] {
    if (world.rank() == 0)
      reader.emplace(path, verified ? io::no_digests : io::DigestShare{});
  });
  const auto tensors =
      tensors_from_text(world.broadcast(reader ? to_text(reader->tensors()) : ""));
  world.agree([&] {
    for (const auto& box : boxes) {
      const auto found =
          std::ranges::lower_bound(tensors, box.path, {}, &io::TensorEntry::path);
      require(found != tensors.end() && found->path == box.path, Status::bad_content,
              "{}: has no tensor '{}'", path, box.path);
      require(found->shape == box.whole, Status::bad_content,
              "{}: the tensor '{}' has the shape {}, but {} is wanted", path, box.path,
              found->shape, box.whole);
    }
  });
  const Buffer memory(Device::host(), DType::u8, {window_bytes}, MemoryClass::data,
                      "loaded tensor");
  Boxes own;
  for (const auto& box : boxes) own[box.path].push_back(&box);
  const std::vector<float> types = wanted_types(mesh, tensors, own);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (types[i] == nobody) continue;
    const auto& entry = tensors[i];
    const auto dtype = static_cast<DType>(static_cast<int>(types[i]));
    const auto most = window_bytes / static_cast<std::int64_t>(size_of(dtype));
    for (const BoxWindow& window : windows_of(entry.shape, most)) {
      const TensorView part(memory.view().raw(), dtype, window.extent);
      world.agree([&] {
        if (reader) reader->read(entry.path, entry.shape, window.begin, part);
      });
      scatter_window(mesh, part, window, own[entry.path]);
    }
  }
}

}  // namespace trireme::train
