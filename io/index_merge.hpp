// Indices of shards that become one, which is written without being held.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/index_bytes.hpp"

namespace trireme::io {

// A part is the index of a shard, or of several that are one already. Of each part only
// what lies before its boxes is read at first; the boxes are copied as they are written,
// so that beside the parts nothing is held that grows with them but 8 bytes a tensor.
class IndexMerge {
 public:
  // `parts`: in the order of their shards; they must outlive this. Throws
  // Error(bad_content) where one is no index, and Error(internal) where two differ in
  // the type or the shape of a tensor.
  explicit IndexMerge(const std::vector<std::string_view>& parts);

  std::int64_t boxes() const { return boxes_; }
  std::int64_t bytes() const { return bytes_; }
  // Calls `take` with the bytes of the one index, in pieces. What it throws passes; else
  // Error(internal) where a box lies in a file that its part does not have.
  void write(const std::function<void(std::string_view piece)>& take) const;
  std::string text() const;

 private:
  struct Part {
    std::string_view files, records;
    std::size_t file_count = 0, first_file = 0;
    std::size_t begin = 0, end = 0;  // in entries_
  };
  struct Entry {
    std::uint32_t tensor = 0, boxes = 0;  // a number in tensors_; its boxes in a part
  };

  void add(std::string_view text, const std::function<std::uint32_t(TensorHead)>& number);
  void sort_tensors();
  std::string head() const;

  std::vector<Part> parts_;
  std::vector<Entry> entries_;
  std::vector<TensorHead> tensors_;  // sorted by path, with the boxes of all parts
  std::size_t files_ = 0;
  std::int64_t boxes_ = 0, bytes_ = 0;
};

}  // namespace trireme::io
