// Indices of shards that become one.
// SPDX-License-Identifier: Apache-2.0
#include "io/index_merge.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "io/element_convert.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

const std::string& what() {
  static const std::string name = "checkpoint: the index of a shard";
  return name;
}

}  // namespace

IndexMerge::IndexMerge(const std::vector<std::string_view>& parts) {
  std::unordered_map<std::string_view, std::uint32_t> numbers;
  const auto number = [&](const TensorHead& head) {
    const auto next = static_cast<std::uint32_t>(tensors_.size());
    const auto [at, is_new] = numbers.try_emplace(head.path, next);
    if (is_new) {
      tensors_.push_back(head);
      return next;
    }
    TensorHead& first = tensors_[at->second];
    require(first.dtype == head.dtype && first.shape == head.shape,
            "checkpoint: '{}' is {} of {} on one rank, but {} of {} elsewhere", head.path,
            name_of(head.dtype), head.shape, name_of(first.dtype), first.shape);
    first.boxes += head.boxes;
    return at->second;
  };
  for (const std::string_view text : parts) add(text, number);
  sort_tensors();
  bytes_ = static_cast<std::int64_t>(head().size());
  for (const TensorHead& tensor : tensors_) {
    boxes_ += static_cast<std::int64_t>(tensor.boxes);
    bytes_ += static_cast<std::int64_t>(tensor.boxes *
                                        BoxTable::record_bytes(tensor.shape.rank()));
  }
}

void IndexMerge::add(std::string_view text,
                     const std::function<std::uint32_t(TensorHead)>& number) {
  IndexCursor from(what(), text);
  const IndexCounts counts = take_counts(what(), from);
  Part part;
  part.file_count = counts.files;
  part.first_file = files_;
  part.begin = entries_.size();
  files_ += counts.files;
  const char* files = from.rest().data();
  for (std::size_t i = 0; i < counts.files; ++i) {
    from.text(file_entry_bytes);
    from.name();
  }
  part.files = {files, static_cast<std::size_t>(from.rest().data() - files)};
  std::size_t records = 0;
  std::string_view last;
  for (std::size_t i = 0; i < counts.tensors; ++i) {
    const TensorHead head = take_tensor(what(), from);
    require(i == 0 || last < head.path, Status::bad_content,
            "{}: is no index: the tensors are not sorted at '{}'", what(), head.path);
    last = head.path;
    require(head.boxes <= std::numeric_limits<std::uint32_t>::max(), "{} boxes",
            head.boxes);
    entries_.push_back({number(head), static_cast<std::uint32_t>(head.boxes)});
    records += head.boxes * BoxTable::record_bytes(head.shape.rank());
  }
  part.end = entries_.size();
  part.records = from.rest();
  require(part.records.size() == records, Status::bad_content,
          "{}: is no index: it has not as many boxes as it says", what());
  parts_.push_back(part);
}

void IndexMerge::sort_tensors() {
  std::vector<std::uint32_t> order(tensors_.size()), place(tensors_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors_[a].path < tensors_[b].path;
  });
  std::vector<TensorHead> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t from : order) {
    place[from] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(tensors_[from]);
  }
  tensors_ = std::move(sorted);
  for (Entry& entry : entries_) entry.tensor = place[entry.tensor];
}

std::string IndexMerge::head() const {
  std::string text(index_magic);
  put(text, std::uint64_t{files_});
  put(text, std::uint64_t{tensors_.size()});
  for (const Part& part : parts_) text += part.files;
  for (const TensorHead& tensor : tensors_) put_tensor(text, tensor);
  return text;
}

void IndexMerge::write(const std::function<void(std::string_view piece)>& take) const {
  take(head());
  struct Place {
    std::size_t entry = 0, record = 0;  // a number, and a byte
  };
  std::vector<Place> places(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) places[i].entry = parts_[i].begin;
  std::string piece;
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const std::size_t record = BoxTable::record_bytes(tensors_[tensor].shape.rank());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      Place& place = places[i];
      if (place.entry == part.end || entries_[place.entry].tensor != tensor) continue;
      const std::size_t bytes = entries_[place.entry++].boxes * record;
      const std::size_t first = piece.size();
      piece += part.records.substr(place.record, bytes);
      place.record += bytes;
      for (std::size_t at = first; at < piece.size(); at += record)
        require(BoxTable::move_file(piece.data() + at, part.file_count, part.first_file),
                "a box of '{}' lies in no file of its shard", tensors_[tensor].path);
      if (piece.size() < piece_bytes) continue;
      take(piece);
      piece.clear();
    }
  }
  take(piece);
}

std::string IndexMerge::text() const {
  std::string all;
  all.reserve(static_cast<std::size_t>(bytes_));
  write([&](std::string_view piece) { all += piece; });
  return all;
}

}  // namespace trireme::io
