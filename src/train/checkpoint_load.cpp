// Loading checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_load.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/device_memory.hpp"
#include "base/memory.hpp"

namespace trireme::train {
namespace {

// The attributes that a resumed run needs, as text: numbers on one line, then the deck.
std::string to_text(const io::CheckpointInfo& info) {
  std::ostringstream text;
  text << info.step << ' ' << info.tokens << ' ' << info.mesh.pipeline << ' '
       << info.mesh.data << ' ' << info.mesh.context << ' ' << info.mesh.tensor << '\n'
       << info.deck;
  return text.str();
}

io::CheckpointInfo from_text(const std::string& text) {
  io::CheckpointInfo info;
  std::istringstream numbers(text);
  numbers >> info.step >> info.tokens >> info.mesh.pipeline >> info.mesh.data >>
      info.mesh.context >> info.mesh.tensor;
  info.deck = text.substr(text.find('\n') + 1);
  return info;
}

// "path dtype rank extents", a line each.
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
    std::int64_t first = 0, second = 0;
    lines >> first;
    if (rank == 2) lines >> second;
    tensors.push_back({path, {}, rank == 2 ? Shape{first, second} : Shape{first}, {}});
  }
  return tensors;
}

}  // namespace

io::CheckpointInfo load_by_all(comm::World& world, const std::string& path,
                               const std::vector<io::TensorBox>& boxes) {
  std::optional<io::CheckpointReader> reader;
  world.agree([&] { reader.emplace(path, world.rank(), world.size()); });
  world.agree([&] {
    for (const auto& box : boxes) reader->read(box.path, box.whole, box.begin, box.data);
  });
  return reader->info();
}

io::CheckpointInfo load_by_one(comm::World& world, comm::Mesh& mesh,
                               const std::string& path,
                               const std::vector<io::TensorBox>& boxes) {
  std::optional<io::CheckpointReader> reader;
  world.agree([&] {
    if (world.rank() == 0) reader.emplace(path);
  });
  const auto info = from_text(world.broadcast(reader ? to_text(reader->info()) : ""));
  const auto tensors =
      tensors_from_text(world.broadcast(reader ? to_text(reader->tensors()) : ""));
  world.agree([&] {
    for (const auto& box : boxes) {
      const auto found =
          std::find_if(tensors.begin(), tensors.end(),
                       [&](const auto& entry) { return entry.path == box.path; });
      require(found != tensors.end(), Status::bad_content, "{}: has no tensor '{}'", path,
              box.path);
      require(found->shape == box.whole, Status::bad_content,
              "{}: the tensor '{}' has the shape {}, but {} is wanted", path, box.path,
              found->shape, box.whole);
    }
  });
  if (boxes.empty()) return info;
  std::int64_t most = 0;
  for (const auto& entry : tensors) most = std::max(most, entry.shape.elements());
  const DType dtype = boxes.front().data.dtype();
  const Buffer room(Device::host(), dtype, {most}, MemoryClass::data, "loaded tensor");
  Stream stream;
  for (const auto& entry : tensors) {
    const TensorView whole =
        room.view().rows(0, entry.shape.elements()).reshape(entry.shape);
    Shape begin = entry.shape;
    for (int i = 0; i < begin.rank(); ++i) begin[i] = 0;
    world.agree([&] {
      if (reader) reader->read(entry.path, entry.shape, begin, whole);
    });
    mesh.everyone().broadcast(stream, whole, 0).wait();
    for (const auto& box : boxes) {
      if (box.path != entry.path) continue;
      TensorView part = whole.rows(box.begin[0], box.data.dim(0));
      if (box.whole.rank() == 2) part = part.columns(box.begin[1], box.data.dim(1));
      Stream device(box.data.device());
      copy_bytes(device, part, box.data);
    }
  }
  return info;
}

}  // namespace trireme::train
