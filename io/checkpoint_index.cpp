// The index of a checkpoint: its files, tensors and boxes, as bytes.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_index.hpp"

#include <set>
#include <utility>

#include "base/boxes.hpp"
#include "io/element_convert.hpp"
#include "io/index_bytes.hpp"
#include "io/index_merge.hpp"

namespace trireme::io {
namespace {

void read_files(const std::string& path, IndexCursor& from, std::size_t count,
                FileNames which, Manifest& manifest) {
  std::set<std::string_view> names;
  manifest.files.resize(count);
  for (FileEntry& file : manifest.files) {
    file.bytes = from.value<std::int64_t>();
    file.digest = digest_text(from.value<DigestBytes>());
    const auto frame = from.value<DigestBytes>();
    if (frame != DigestBytes{}) file.frame = digest_text(frame);
    file.name = from.name();
    require(file.bytes >= 0, Status::bad_content,
            "{}: is no index: '{}' has a size of {} bytes", path, file.name, file.bytes);
    require(is_member_name(file.name), Status::bad_content,
            "{}: is no index: '{}' is not the name of a file in the checkpoint's folder",
            path, file.name);
    const bool is_new = names.insert(file.name).second;
    require(is_new || which == FileNames::any, Status::bad_content,
            "{}: is no index: '{}' is listed twice", path, file.name);
  }
}

// A box and the file that it names.
void check_box(const std::string& path, const Manifest& manifest, std::size_t tensor,
               const BoxRecord& box) {
  const TensorEntry& entry = manifest.tensors[tensor];
  require(box.file < manifest.files.size(), Status::bad_content,
          "{}: is no index: a box of '{}' lies in file {} of {}", path, entry.path,
          box.file, manifest.files.size());
  const FileEntry& file = manifest.files[box.file];
  bool fits = true;
  for (int i = 0; i < box.extent.rank(); ++i) fits = fits && box.extent[i] >= 1;
  const auto bytes =
      fits ? bytes_of(box.extent, entry.dtype) : std::optional<std::int64_t>();
  require(bytes && *bytes <= file.bytes && box.offset >= 0 &&
              box.offset <= file.bytes - *bytes,
          Status::bad_content,
          "{}: is no index: a box of {} at byte {} of '{}' does not fit into the {} "
          "bytes of '{}'",
          path, box.extent, box.offset, entry.path, file.bytes, file.name);
}

}  // namespace

IndexCounts take_counts(const std::string& path, IndexCursor& from) {
  require(from.text(index_magic.size()) == index_magic, Status::bad_content,
          "{}: is no index: it does not begin with '{}'", path, index_magic);
  constexpr std::size_t least_file = file_entry_bytes + 4, least_tensor = 22;
  IndexCounts counts;
  counts.files = from.count(least_file);
  counts.tensors = from.count(least_tensor);
  return counts;
}

void put_tensor(std::string& text, const TensorHead& head) {
  put(text, static_cast<std::uint8_t>(head.dtype));
  put(text, static_cast<std::uint8_t>(head.shape.rank()));
  put_name(text, head.path);
  for (int dim = 0; dim < head.shape.rank(); ++dim) put(text, head.shape[dim]);
  put(text, std::uint64_t{head.boxes});
}

TensorHead take_tensor(const std::string& path, IndexCursor& from) {
  TensorHead head;
  const int dtype = from.value<std::uint8_t>(), rank = from.value<std::uint8_t>();
  head.path = from.name();
  require(dtype <= static_cast<int>(DType::e5m2), Status::bad_content,
          "{}: is no index: '{}' has an element type of number {}", path, head.path,
          dtype);
  require(rank >= 1 && rank <= Shape::max_rank, Status::bad_content,
          "{}: is no index: '{}' has {} dims", path, head.path, rank);
  head.dtype = static_cast<DType>(dtype);
  head.shape = shape_of_rank(rank);
  for (int i = 0; i < rank; ++i) head.shape[i] = from.value<std::int64_t>();
  head.boxes = from.count(BoxTable::record_bytes(rank));
  return head;
}

std::string index_head(const Manifest& manifest) {
  std::string text(index_magic);
  put(text, std::uint64_t{manifest.files.size()});
  put(text, std::uint64_t{manifest.tensors.size()});
  for (const FileEntry& file : manifest.files) {
    put(text, file.bytes);
    put(text, file.digest.empty() ? DigestBytes{} : digest_bytes(file.digest));
    put(text, file.frame.empty() ? DigestBytes{} : digest_bytes(file.frame));
    put_name(text, file.name);
  }
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorEntry& tensor = manifest.tensors[i];
    put_tensor(text, {tensor.path, tensor.dtype, tensor.shape, manifest.boxes.count(i)});
  }
  return text;
}

std::string index_bytes(const Manifest& manifest) {
  return index_head(manifest) + manifest.boxes.bytes();
}

void parse_index(const std::string& path, std::string bytes, Manifest& manifest,
                 FileNames names) {
  IndexCursor from(path, bytes);
  const IndexCounts counts = take_counts(path, from);
  read_files(path, from, counts.files, names, manifest);
  manifest.tensors.reserve(counts.tensors);
  for (std::size_t i = 0; i < counts.tensors; ++i) {
    const TensorHead head = take_tensor(path, from);
    TensorEntry entry{std::string(head.path), head.dtype, head.shape, ""};
    require(is_word(entry.path), Status::bad_content,
            "{}: is no index: a tensor's path has spaces or control characters", path);
    require(bytes_of(entry.shape, entry.dtype).has_value(), Status::bad_content,
            "{}: is no index: '{}' cannot have the shape {}", path, entry.path,
            entry.shape);
    require(i == 0 || manifest.tensors.back().path < entry.path, Status::bad_content,
            "{}: is no index: the tensors are not sorted at '{}'", path, entry.path);
    manifest.boxes.expect_tensor(entry.shape.rank(), head.boxes);
    manifest.tensors.push_back(std::move(entry));
  }
  bytes.erase(0, bytes.size() - from.rest().size());
  require(manifest.boxes.adopt(std::move(bytes)), Status::bad_content,
          "{}: is no index: it has not as many boxes as it says", path);
  for (std::size_t i = 0; i < counts.tensors; ++i)
    for (std::size_t b = 0; b < manifest.boxes.count(i); ++b)
      check_box(path, manifest, i, manifest.boxes.get(i, b));
}

void require_whole(const std::string& path, const Manifest& manifest) {
  std::vector<BoxEntry> boxes;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorEntry& tensor = manifest.tensors[i];
    boxes.clear();
    for (std::size_t b = 0; b < manifest.boxes.count(i); ++b)
      boxes.push_back(manifest.box(i, b));
    const std::string wrong = why_not_whole(tensor.path, tensor.shape, boxes);
    require(wrong.empty(), Status::bad_content, "{}: {}", path, wrong);
  }
}

Manifest merge_indices(const std::vector<std::string>& shards) {
  Manifest all;
  parse_index("checkpoint: the index of shards",
              IndexMerge({shards.begin(), shards.end()}).text(), all, FileNames::any);
  return all;
}

}  // namespace trireme::io
