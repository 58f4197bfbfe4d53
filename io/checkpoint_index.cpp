// The index of a checkpoint: its files, tensors and boxes, as bytes.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_index.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "io/element_convert.hpp"

namespace trireme::io {
namespace {

constexpr std::string_view magic = "TRIREME2";

template <class T>
void put(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
void put_name(std::string& text, const std::string& name) {
  put(text, static_cast<std::uint32_t>(name.size()));
  text += name;
}

// Takes values from bytes that may be anything.
class Cursor {
 public:
  Cursor(const std::string& path, std::string_view bytes) : path_(path), rest_(bytes) {}

  std::string_view text(std::size_t bytes) {
    require(bytes <= rest_.size(), Status::bad_content,
            "{}: is no index: it ends too early", path_);
    const auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <class T>
  T value() {
    T value{};
    std::memcpy(&value, text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  // The number of things that take at least `least` bytes each.
  std::size_t count(std::size_t least) {
    const auto n = value<std::uint64_t>();
    require(n <= rest_.size() / least, Status::bad_content,
            "{}: is no index: it has no room for {} entries", path_, n);
    return static_cast<std::size_t>(n);
  }
  std::string name() { return std::string(text(value<std::uint32_t>())); }
  std::string_view rest() const { return rest_; }

 private:
  const std::string& path_;
  std::string_view rest_;
};

void read_files(const std::string& path, Cursor& from, std::size_t count,
                Manifest& manifest) {
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
    require(names.insert(file.name).second, Status::bad_content,
            "{}: is no index: '{}' is listed twice", path, file.name);
  }
}

TensorEntry read_tensor(const std::string& path, Cursor& from, std::size_t& boxes) {
  TensorEntry entry;
  const int dtype = from.value<std::uint8_t>(), rank = from.value<std::uint8_t>();
  entry.path = from.name();
  require(dtype <= static_cast<int>(DType::e5m2), Status::bad_content,
          "{}: is no index: '{}' has an element type of number {}", path, entry.path,
          dtype);
  require(rank >= 1 && rank <= Shape::max_rank, Status::bad_content,
          "{}: is no index: '{}' has {} dims", path, entry.path, rank);
  entry.dtype = static_cast<DType>(dtype);
  entry.shape = shape_of_rank(rank);
  for (int i = 0; i < rank; ++i) entry.shape[i] = from.value<std::int64_t>();
  boxes = from.count(BoxTable::record_bytes(rank));
  require(is_word(entry.path), Status::bad_content,
          "{}: is no index: a tensor's path has spaces or control characters", path);
  require(bytes_of(entry.shape, entry.dtype).has_value(), Status::bad_content,
          "{}: is no index: '{}' cannot have the shape {}", path, entry.path,
          entry.shape);
  return entry;
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

std::string index_head(const Manifest& manifest) {
  std::string text(magic);
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
    put(text, static_cast<std::uint8_t>(tensor.dtype));
    put(text, static_cast<std::uint8_t>(tensor.shape.rank()));
    put_name(text, tensor.path);
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) put(text, tensor.shape[dim]);
    put(text, std::uint64_t{manifest.boxes.count(i)});
  }
  return text;
}

std::string index_bytes(const Manifest& manifest) {
  return index_head(manifest) + manifest.boxes.bytes();
}

void parse_index(const std::string& path, std::string bytes, Manifest& manifest) {
  Cursor from(path, bytes);
  require(from.text(magic.size()) == magic, Status::bad_content,
          "{}: is no index: it does not begin with '{}'", path, magic);
  constexpr std::size_t least_file = 44, least_tensor = 22;
  const std::size_t files = from.count(least_file), tensors = from.count(least_tensor);
  read_files(path, from, files, manifest);
  manifest.tensors.reserve(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    std::size_t boxes = 0;
    TensorEntry entry = read_tensor(path, from, boxes);
    require(i == 0 || manifest.tensors.back().path < entry.path, Status::bad_content,
            "{}: is no index: the tensors are not sorted at '{}'", path, entry.path);
    manifest.boxes.expect_tensor(entry.shape.rank(), boxes);
    manifest.tensors.push_back(std::move(entry));
  }
  bytes.erase(0, bytes.size() - from.rest().size());
  require(manifest.boxes.adopt(std::move(bytes)), Status::bad_content,
          "{}: is no index: it has not as many boxes as it says", path);
  for (std::size_t i = 0; i < tensors; ++i)
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

Manifest merge_indices(std::vector<std::string> shards) {
  const std::string what = "checkpoint: the index of a shard";
  // 1. the tensors, and how many boxes each has
  Manifest all;
  std::vector<std::size_t> counts;
  std::unordered_map<std::string, std::size_t> places;
  for (const std::string& text : shards) {
    Manifest shard;
    parse_index(what, text, shard);
    for (std::size_t i = 0; i < shard.tensors.size(); ++i) {
      TensorEntry& tensor = shard.tensors[i];
      const auto [at, is_new] = places.try_emplace(tensor.path, all.tensors.size());
      if (is_new) {
        all.tensors.push_back(tensor);
        counts.push_back(0);
      }
      const TensorEntry& first = all.tensors[at->second];
      require(first.dtype == tensor.dtype && first.shape == tensor.shape,
              "checkpoint: '{}' is {} of {} on one rank, but {} of {} elsewhere",
              tensor.path, name_of(tensor.dtype), tensor.shape, name_of(first.dtype),
              first.shape);
      counts[at->second] += shard.boxes.count(i);
    }
  }
  // 2. their order
  std::vector<std::size_t> order(all.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all.tensors[a].path < all.tensors[b].path;
  });
  std::vector<TensorEntry> sorted;
  for (std::size_t place = 0; place < order.size(); ++place) {
    TensorEntry& tensor = all.tensors[order[place]];
    places[tensor.path] = place;
    all.boxes.expect_tensor(tensor.shape.rank(), counts[order[place]]);
    sorted.push_back(std::move(tensor));
  }
  all.tensors = std::move(sorted);
  all.boxes.make_room();
  // 3. the boxes
  std::vector<std::size_t> filled(all.tensors.size());
  for (std::string& text : shards) {
    Manifest shard;
    parse_index(what, text, shard);
    text = std::string();
    const auto first = static_cast<std::uint32_t>(all.files.size());
    for (FileEntry& file : shard.files) all.files.push_back(std::move(file));
    for (std::size_t i = 0; i < shard.tensors.size(); ++i) {
      const std::size_t place = places.at(shard.tensors[i].path);
      for (std::size_t b = 0; b < shard.boxes.count(i); ++b) {
        BoxRecord box = shard.boxes.get(i, b);
        box.file += first;
        all.boxes.set(place, filled[place]++, box);
      }
    }
  }
  return all;
}

}  // namespace trireme::io
