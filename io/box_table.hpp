// BoxTable: where the boxes of many tensors lie, in as few bytes as the index holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.hpp"

namespace trireme::io {

// XXH3-128 as bytes, in the order in which its digits are printed.
using DigestBytes = std::array<unsigned char, 16>;
// `text`: 32 hexadecimal digits; throws Error(internal) otherwise.
DigestBytes digest_bytes(const std::string& text);
std::string digest_text(const DigestBytes& bytes);

// A box of a tensor in a file. Boxes of one tensor that are the same dataset of a file
// have the same number, and their elements follow each other in it.
struct BoxRecord {
  std::uint32_t file = 0;     // its number in the list of files
  std::uint32_t dataset = 0;  // of the tensor in that file
  std::int64_t offset = 0;    // of its first byte in the file
  DigestBytes digest{};       // of its bytes as they were in memory
  Shape begin, extent;        // in the tensor
};

// Records of 32 + 16 rank bytes each, those of a tensor one after the other, in the order
// of the tensors: the bytes are what an index file holds.
class BoxTable {
 public:
  static std::size_t record_bytes(int rank) {
    return 32 + 16 * static_cast<std::size_t>(rank);
  }

  // Adds the next tensor, with `count` records that are still zero.
  void add_tensor(int rank, std::size_t count);
  std::size_t tensors() const { return tensors_.size(); }
  std::size_t count(std::size_t tensor) const { return tensors_[tensor].count; }
  std::size_t boxes() const;

  void set(std::size_t tensor, std::size_t i, const BoxRecord& record);
  BoxRecord get(std::size_t tensor, std::size_t i) const;
  std::uint32_t file(std::size_t tensor, std::size_t i) const;
  int rank(std::size_t tensor) const { return tensors_[tensor].rank; }
  // The bytes of `count` records, and what one says.
  std::string_view records(std::size_t tensor, std::size_t i, std::size_t count) const;
  static BoxRecord record(const char* from, int rank);
  // Changes a record, whose file is one of `files`, to that behind `first` others; false
  // where it is none.
  static bool move_file(char* record, std::size_t files, std::size_t first);

  const std::string& bytes() const { return bytes_; }
  // Takes all bytes at once, for the tensors that were added with their counts. False
  // when there are more or fewer than those hold.
  bool adopt(std::string bytes);
  // Adds a tensor whose records come with adopt(), or stay zero after make_room().
  void expect_tensor(int rank, std::size_t count);
  void make_room();

 private:
  struct Range {
    std::size_t begin = 0, count = 0;
    int rank = 0;
  };
  std::size_t end() const;
  std::size_t at(std::size_t tensor, std::size_t i) const;

  std::string bytes_;
  std::vector<Range> tensors_;
};

}  // namespace trireme::io
