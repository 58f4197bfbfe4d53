// Finding and reading checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/number.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_info.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_share.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/digest.hpp"
#include "io/element_convert.hpp"
#include "io/hdf5_file.hpp"
#include "io/host_copy.hpp"

namespace trireme::io {
namespace {

// A tensor is digested in blocks of rows of about this size.
constexpr std::size_t block_bytes = std::size_t{4} << 20;

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// By what it holds, for a run's directory may be named as a checkpoint is. A checkpoint
// that lacks its manifest is one all the same: it is damaged.
bool is_step_directory(const std::string& path, const std::vector<std::string>& names) {
  const auto has = [&](const char* name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  for (const char* name : {manifest_name, index_name, whole_name})
    if (has(name)) return true;
  const bool has_shard = std::any_of(names.begin(), names.end(), [](const auto& name) {
    return name.starts_with("shard-") && name.ends_with(".h5");
  });
  return step_of(last_name_of(path)) && (has_shard || !has("checkpoints"));
}

// A directory of a checkpoint, not looked into yet.
struct Place {
  std::string directory;
  bool newest = false;  // of a folder
};

// A directory with a step's name was complete when it got it, so the highest step is the
// newest. "": there is none.
Place newest_below(const std::string& directory, const std::vector<std::string>& names) {
  const std::vector<std::int64_t> steps = steps_among(names);
  if (steps.empty()) return {};
  return {directory + "/" + step_name(steps.back()), true};
}

// f(directory) -> result. Damage to the newest of a folder is reported, not passed over:
// going back in silence would lose steps.
template <class F>
auto read_place(const Place& place, const F& f) {
  try {
    return f(place.directory);
  } catch (const NewerFormat&) {
    throw;
  } catch (const Error& error) {
    if (!place.newest) throw;
    fail(Status::bad_content,
         "{}; remove that checkpoint, or name an earlier one in checkpoint.resume",
         error.what());
  }
}

// What a path means, looking into each folder on the way once.
Place place_of(const std::string& given) {
  const std::string path = without_trailing_slash(given);
  const std::vector<std::string> names = names_in(path);
  require(!names.empty() || exists(path), Status::missing_input,
          "{}: there is no checkpoint here, nor anything of that name", path);
  if (is_step_directory(path, names)) return {path};
  Place found = newest_below(path, names);
  const std::string below = path + "/checkpoints";
  if (found.directory.empty()) found = newest_below(below, names_in(below));
  require(!found.directory.empty(), Status::missing_input,
          "{}: there is no checkpoint here", path);
  return found;
}

// The checkpoint that `path` means. What has a step's name is read without being looked
// at first, for file systems with many ranks.
OpenedCheckpoint find_opened(const std::string& path, bool sizes) {
  const auto open = [&](const std::string& directory) {
    return open_checkpoint(directory, sizes);
  };
  const std::string name = last_name_of(path);
  if (step_of(name) || name == latest_name) {
    try {
      return open(path);
    } catch (const NewerFormat&) {
      throw;
    } catch (const Error&) {
      // Then it may be a run's directory, or is not there: the usual way says what is
      // wrong.
    }
  }
  return read_place(place_of(path), open);
}

}  // namespace

std::string find_checkpoint(const std::string& path) {
  const Place place = place_of(path);
  if (place.newest) read_place(place, [](const auto& own) { return read_manifest(own); });
  return place.directory;
}

std::string latest_checkpoint(const std::string& directory) {
  const Place place = newest_below(directory, names_in(directory));
  if (!place.directory.empty())
    read_place(place, [](const auto& own) { return read_manifest(own); });
  return place.directory;
}

NamedCheckpoint checkpoint_info(const std::string& path) {
  return read_place(place_of(path), [](const std::string& directory) -> NamedCheckpoint {
    return {directory, read_info(Directory::to_read(directory))};
  });
}

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
    bool inside =
        begin.rank() == tensor.shape.rank() && out.shape().rank() == begin.rank();
    for (int i = 0; inside && i < begin.rank(); ++i)
      inside = begin[i] >= 0 && begin[i] <= tensor.shape[i] - out.dim(i);
    require(inside, Status::bad_content,
            "{}: the tensor '{}' of {} has no box of {} at {}", directory, tensor.path,
            tensor.shape, out.shape(), begin);
    read_boxes(*files, boxes(tensor, begin, out.shape()), tensor.dtype, begin, out);
  }
};

CheckpointReader::CheckpointReader(const std::string& path, int part, int parts)
    : impl_(std::make_unique<Impl>()) {
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
  const auto row_bytes =
      static_cast<std::size_t>(entry.shape.elements() / rows) * size_of(entry.dtype);
  const auto count = std::min<std::int64_t>(
      rows, static_cast<std::int64_t>(std::max<std::size_t>(1, block_bytes / row_bytes)));
  std::vector<std::byte> block(static_cast<std::size_t>(count) * row_bytes);
  Shape extent = entry.shape, begin = origin_of(entry.shape);
  for (; begin[0] < rows; begin[0] += count) {
    extent[0] = std::min(count, rows - begin[0]);
    impl_->read(entry, begin, TensorView(block.data(), entry.dtype, extent));
    digest.add(block.data(), static_cast<std::size_t>(extent[0]) * row_bytes);
  }
  return digest.text();
}

}  // namespace trireme::io
