// The file of one rank of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_shard.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#include "io/checkpoint_verify.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/host_copy.hpp"

namespace trireme::io {
namespace {

// The digest is made of the elements in row-major order.
std::string digest_of_view(const TensorView& view) {
  Digest digest;
  const auto element = size_of(view.dtype());
  if (view.is_dense()) {
    digest.add(view.raw(), view.bytes());
    return digest.text();
  }
  for (std::int64_t row = 0; row < view.dim(0); ++row) {  // a matrix with longer rows
    const TensorView values = view.rows(row, 1);
    digest.add(values.raw(), static_cast<std::size_t>(values.elements()) * element);
  }
  return digest.text();
}

// Checks a box and lists it; a box that this rank writes gets a dataset in the shard.
void add_box(ShardReport& report, std::map<std::string, int>& uses,
             const TensorBox& box) {
  const Shape& extent = box.data.shape();
  require(box.whole.rank() > 0 && box.whole.rank() == extent.rank() &&
              box.begin.rank() == extent.rank(),
          "checkpoint: '{}' of {} has a box of {} at {}", box.path, box.whole, extent,
          box.begin);
  std::string source;
  if (box.write && extent.elements() > 0) {
    const int use = uses[box.path]++;
    source = "/" + box.path + (use == 0 ? "" : format("@{}", use));
  }
  report.boxes.push_back(
      {box.path, source, box.data.dtype(), box.whole, box.begin, extent, 0, ""});
}

// What was written just now is no input: if it cannot be read, or is gone, that is a
// failure of the disk.
template <class Work>
FileEntry reading_back(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(Status::io, format("{} (reading back what was written)", error.what()),
                error.where());
  }
}

// Reads the file back, once: its digests, and whether every box is there as it was in
// memory.
FileEntry read_back(const std::string& directory, const std::string& name,
                    const std::vector<ShardReport::Box>& listed) {
  const std::string path = directory + "/" + name;
  std::vector<const ShardReport::Box*> boxes;
  for (const auto& box : listed)
    if (!box.source.empty()) boxes.push_back(&box);
  std::sort(boxes.begin(), boxes.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  const PlainFile file(Directory::to_read(directory), name);
  const std::int64_t bytes = file.size();
  Digest whole, frame;
  std::int64_t at = 0;
  for (const auto* box : boxes) {
    file.digest(at, box->offset - at, {&whole, &frame});
    const auto length =
        box->extent.elements() * static_cast<std::int64_t>(size_of(box->dtype));
    Digest content;
    file.digest(box->offset, length, {&whole, &content});
    require(content.text() == box->digest, Status::io,
            "{}: reads back other than it was written, at '{}'", path, box->path);
    at = box->offset + length;
  }
  file.digest(at, bytes - at, {&whole, &frame});
  return {name, bytes, whole.text(), frame.text()};
}

}  // namespace

std::string shard_name(int number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "shard-%05d.h5", number);
  return text.data();
}

ShardReport write_shard(const Directory& folder, int rank,
                        const std::vector<TensorBox>& boxes) {
  ShardReport report;
  std::map<std::string, int> uses;
  for (const auto& box : boxes) add_box(report, uses, box);
  if (uses.empty()) return report;
  const std::string name = shard_name(rank);
  Hdf5File file(folder, name);
  HostCopy host;
  Buffer memory;  // of the largest box that is filled
  const auto filled = [&](const TensorBox& box) {
    const auto bytes = static_cast<std::int64_t>(box.data.bytes());
    if (static_cast<std::int64_t>(memory.bytes()) < bytes) {
      memory = Buffer();  // given up before the larger one is made
      memory = Buffer(Device::host(), DType::u8, {bytes}, MemoryClass::data,
                      "tensor for a checkpoint");
    }
    const TensorView view(memory.view().raw(), box.data.dtype(), box.data.shape());
    box.fill(view);
    return view;
  };
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    ShardReport::Box& box = report.boxes[i];
    if (box.source.empty()) continue;
    const TensorView data = boxes[i].fill ? filled(boxes[i]) : host.read(boxes[i].data);
    file.write(box.source, data);
    box.offset = file.offset(box.source);
    box.digest = digest_of_view(data);
  }
  // The disk has begun to write; what it wrote is read from memory meanwhile.
  file.close(false);
  report.file =
      reading_back([&] { return read_back(folder.path(), name, report.boxes); });
  sync_file(folder.path_of(name));
  return report;
}

FileEntry file_entry(const std::string& directory, const std::string& name) {
  return reading_back([&]() -> FileEntry {
    const PlainFile file(Directory::to_read(directory), name);
    Digest digest;
    file.digest(0, file.size(), {&digest});
    return {name, file.size(), digest.text(), ""};
  });
}

std::int64_t shard_bytes(const std::vector<TensorBox>& boxes) {
  constexpr std::int64_t of_file = 8192, of_box = 512;
  std::int64_t bytes = of_file;
  for (const auto& box : boxes)
    if (box.write)
      bytes += static_cast<std::int64_t>(box.data.elements()) *
                   static_cast<std::int64_t>(size_of(box.data.dtype())) +
               of_box;
  return bytes;
}

}  // namespace trireme::io
