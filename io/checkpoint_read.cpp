// Reading checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/boxes.hpp"
#include "base/number.hpp"
#include "base/row_windows.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_find.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_share.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/digest.hpp"
#include "io/element_convert.hpp"
#include "io/hdf5_file.hpp"
#include "io/host_copy.hpp"

namespace trireme::io {

struct CheckpointReader::Impl {
  std::string directory;
  Manifest manifest;
  std::optional<PlainFiles> files;
  std::map<std::size_t, std::vector<BoxEntry>> mapped;  // of tensors, by number
  bool shared = false;  // rank 0 has the whole manifest, the others parts of it
  SharePlace place;

  void open_files() { open_files(Directory::to_read(directory)); }
  void open_files(Directory folder) {
    files.emplace(std::move(folder));
    expect_sizes();
  }
  void take(OpenedCheckpoint opened) {
    directory = opened.folder.path();
    manifest = std::move(opened.manifest);
    open_files(std::move(opened.folder));
  }
  void expect_sizes() {
    std::map<std::string, std::int64_t> sizes;
    for (const FileEntry& file : manifest.files) sizes.emplace(file.name, file.bytes);
    files->expect(std::move(sizes));
  }
  const TensorEntry* find(const std::string& path) const {
    const auto& all = manifest.tensors;
    const auto at =
        std::lower_bound(all.begin(), all.end(), path,
                         [](const TensorEntry& entry, const std::string& key) {
                           return entry.path < key;
                         });
    return at != all.end() && at->path == path ? &*at : nullptr;
  }
  const TensorEntry& entry(const std::string& path) const {
    const TensorEntry* found = find(path);
    require(found != nullptr, Status::bad_content, "{}: has no tensor '{}'", directory,
            path);
    return *found;
  }
  // The boxes that hold a part of the box at `begin`. Of checkpoints that do not list
  // boxes, those that HDF5 finds: it has no say in what else is read.
  std::vector<BoxEntry> boxes(const TensorEntry& tensor, const Shape& begin,
                              const Shape& extent) {
    const auto number = static_cast<std::size_t>(&tensor - manifest.tensors.data());
    const std::size_t count = manifest.boxes.count(number);
    if (count == 0 && !shared && tensor.shape.elements() > 0) {
      auto& found = mapped[number];
      if (found.empty()) found = mapped_boxes(tensor);
      return found;
    }
    std::vector<BoxEntry> all;
    for (std::size_t i = 0; i < count; ++i)
      if (meets(manifest.boxes.get(number, i), begin, extent))
        all.push_back(manifest.box(number, i));
    return all;
  }
  std::size_t first_file(const TensorEntry& tensor, const Shape& begin,
                         const Shape& extent) const {
    const auto number = static_cast<std::size_t>(&tensor - manifest.tensors.data());
    std::size_t first = manifest.files.size();
    for (std::size_t i = 0; i < manifest.boxes.count(number); ++i)
      if (const BoxRecord box = manifest.boxes.get(number, i); meets(box, begin, extent))
        first = std::min<std::size_t>(first, box.file);
    return first;
  }
  std::vector<BoxEntry> mapped_boxes(const TensorEntry& tensor) {
    const Hdf5File whole(files->open(whole_name));
    const auto [dtype, shape] = whole.describe(tensor.path);
    require(dtype == tensor.dtype && shape == tensor.shape, Status::bad_content,
            "{}/{}: '{}' is {} of {}, but {} of {} in the manifest", directory,
            whole_name, tensor.path, name_of(dtype), shape, name_of(tensor.dtype),
            tensor.shape);
    auto boxes = whole.boxes(tensor.path);
    for (const auto& box : boxes)
      require(std::any_of(manifest.files.begin(), manifest.files.end(),
                          [&](const FileEntry& file) { return file.name == box.file; }),
              Status::bad_content,
              "{}/{}: '{}' lies in '{}', which the manifest does not list", directory,
              whole_name, tensor.path, box.file);
    return boxes;
  }
  void read(const TensorEntry& tensor, const Shape& begin, const TensorView& out) {
    require(is_inside(tensor.shape, begin, out.shape()), Status::bad_content,
            "{}: the tensor '{}' of {} has no box of {} at {}", directory, tensor.path,
            tensor.shape, out.shape(), begin);
    read_boxes(*files, boxes(tensor, begin, out.shape()), tensor.dtype, begin, out);
  }
};

CheckpointReader::CheckpointReader(const std::string& path, DigestShare compared)
    : impl_(std::make_unique<Impl>()) {
  const auto [part, parts] = compared;
  require(part >= 0 && part < std::max(parts, 1), "part {} of {}", part, parts);
  impl_->take(find_opened(path, true));
  if (parts == 0) return;
  const Verification found = verify_share(*impl_->files, impl_->manifest, part, parts);
  require(found.damage.empty(), Status::bad_content, "{}",
          found.damage.empty() ? "" : found.damage.front());
}

CheckpointReader::CheckpointReader(comm::World& world, const std::string& path)
    : impl_(std::make_unique<Impl>()) {
  std::string text;         // of the manifest
  std::string kind, wrong;  // of what rank 0 finds
  if (world.rank() == 0) {
    try {
      OpenedCheckpoint opened = find_opened(path, false);
      text = std::move(opened.text);
      impl_->shared = opened.has_index;
      impl_->take(std::move(opened));
    } catch (const NewerFormat& error) {
      kind = "newer", wrong = error.what();
    } catch (const Error& error) {
      kind = std::to_string(static_cast<int>(error.status())), wrong = error.what();
    }
  }
  kind = world.broadcast(kind);
  wrong = world.broadcast(wrong);
  if (kind == "newer") throw AgreedNewerFormat(Status::bad_content, wrong);
  if (!kind.empty())
    throw comm::Agreed(static_cast<Status>(parse_number<int>(kind).value()), wrong);
  impl_->directory = world.broadcast(impl_->directory);
  text = world.broadcast(text);
  world.agree([&] {
    if (world.rank() == 0) return;
    ParsedManifest parsed = parse_manifest(impl_->directory + "/" + manifest_name, text);
    impl_->shared = !parsed.index.name.empty();
    impl_->manifest = std::move(parsed.manifest);
  });
  if (impl_->shared) impl_->place = receive_share(world, impl_->manifest);
  world.agree([&] {
    if (world.rank() > 0) impl_->open_files();
  });
}

void CheckpointReader::fetch(comm::World& world,
                             const std::vector<TensorBox>& boxes) const {
  if (!impl_->shared) return;
  receive_boxes(world, impl_->manifest, boxes);
  impl_->expect_sizes();
}

CheckpointReader::CheckpointReader(comm::World& world, const std::string& directory,
                                   const CheckpointInfo& info, const std::string& index)
    : impl_(std::make_unique<Impl>()) {
  impl_->directory = directory;
  impl_->manifest.info = info;
  impl_->shared = true;
  world.agree([&] {
    if (world.rank() != 0) return;
    parse_index(directory, index, impl_->manifest);
    require_whole(directory, impl_->manifest);
  });
  receive_tensors(world, impl_->manifest);
  world.agree([&] { impl_->open_files(); });
}

std::string CheckpointReader::damage(int part, int parts) {
  try {
    const Verification found =
        verify_share(*impl_->files, impl_->manifest, part, parts, impl_->place);
    return found.damage.empty() ? "" : found.damage.front();
  } catch (const Error& error) {
    if (error.status() != Status::bad_content) throw;
    return error.what();
  }
}

std::size_t CheckpointReader::first_file(const TensorBox& box) const {
  const TensorEntry* entry = impl_->find(box.path);
  if (entry == nullptr || entry->shape != box.whole) return 0;
  return impl_->first_file(*entry, box.begin, box.data.shape());
}

std::vector<std::string> CheckpointReader::files_of(const TensorBox& box) const {
  const TensorEntry* entry = impl_->find(box.path);
  if (entry == nullptr || entry->shape != box.whole) return {};
  std::vector<std::string> names;
  for (const BoxEntry& part : impl_->boxes(*entry, box.begin, box.data.shape()))
    names.push_back(part.file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

CheckpointReader::~CheckpointReader() = default;

const std::string& CheckpointReader::directory() const { return impl_->directory; }
const CheckpointInfo& CheckpointReader::info() const { return impl_->manifest.info; }
const std::vector<TensorEntry>& CheckpointReader::tensors() const {
  return impl_->manifest.tensors;
}
bool CheckpointReader::has(const std::string& path) const {
  return impl_->find(path) != nullptr;
}
DType CheckpointReader::dtype_of(const std::string& path) const {
  return impl_->entry(path).dtype;
}

void CheckpointReader::require_tensor(const std::string& path, const Shape& whole,
                                      DType wanted) const {
  const TensorEntry& entry = impl_->entry(path);
  require(entry.shape == whole, Status::bad_content,
          "{}: the tensor '{}' has the shape {}, but {} is wanted", impl_->directory,
          path, entry.shape, whole);
  require(converts(entry.dtype, wanted), Status::bad_content,
          "{}: the tensor '{}' holds {}, which does not convert to {}", impl_->directory,
          path, name_of(entry.dtype), name_of(wanted));
}

void CheckpointReader::read(const std::string& path, const Shape& whole,
                            const Shape& begin, const TensorView& out) const {
  require_tensor(path, whole, out.dtype());
  const TensorEntry& entry = impl_->entry(path);
  HostCopy host;
  host.write(out, [&](const TensorView& view) { impl_->read(entry, begin, view); });
}

std::string CheckpointReader::digest(const std::string& path) const {
  const TensorEntry& entry = impl_->entry(path);
  Digest digest;
  if (entry.shape.elements() == 0) return digest.text();
  // Proves that the shape is real before memory is taken for it.
  impl_->boxes(entry, origin_of(entry.shape), entry.shape);
  const std::int64_t rows = entry.shape[0];
  const std::int64_t row_bytes =
      entry.shape.elements() / rows * static_cast<std::int64_t>(size_of(entry.dtype));
  std::vector<std::byte> block(
      static_cast<std::size_t>(rows_at_once(rows, row_bytes, window_bytes) * row_bytes));
  Shape extent = entry.shape, begin = origin_of(entry.shape);
  for (const auto [row, count] : RowWindows(rows, row_bytes, window_bytes)) {
    begin[0] = row, extent[0] = count;
    impl_->read(entry, begin, TensorView(block.data(), entry.dtype, extent));
    digest.add(block.data(), static_cast<std::size_t>(count * row_bytes));
  }
  return digest.text();
}

}  // namespace trireme::io
