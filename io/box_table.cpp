// BoxTable: where the boxes of many tensors lie, in as few bytes as the index holds.
// SPDX-License-Identifier: Apache-2.0
#include "io/box_table.hpp"

#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/boxes.hpp"
#include "base/text.hpp"

namespace trireme::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are stored with the least significant byte first");

template <class T>
void put(char*& to, const T& value) {
  std::memcpy(to, &value, sizeof(T));
  to += sizeof(T);
}

template <class T>
T take(const char*& from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  from += sizeof(T);
  return value;
}

}  // namespace

DigestBytes digest_bytes(const std::string& text) {
  constexpr std::string_view digits = "0123456789abcdef";
  DigestBytes bytes{};
  require(text.size() == 2 * bytes.size(), "'{}' is no digest", text);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = digits.find(text[2 * i]), low = digits.find(text[2 * i + 1]);
    require(high != std::string_view::npos && low != std::string_view::npos,
            "'{}' is no digest", text);
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return bytes;
}

std::string digest_text(const DigestBytes& bytes) {
  return hexadecimal(std::as_bytes(std::span(bytes)));
}

std::size_t BoxTable::end() const {
  if (tensors_.empty()) return 0;
  const Range& last = tensors_.back();
  return last.begin + last.count * record_bytes(last.rank);
}

std::size_t BoxTable::at(std::size_t tensor, std::size_t i) const {
  const Range& range = tensors_[tensor];
  require(i < range.count, "box {} of {}", i, range.count);
  return range.begin + i * record_bytes(range.rank);
}

void BoxTable::expect_tensor(int rank, std::size_t count) {
  tensors_.push_back({end(), count, rank});
}

void BoxTable::add_tensor(int rank, std::size_t count) {
  expect_tensor(rank, count);
  make_room();
}

void BoxTable::make_room() { bytes_.resize(end()); }

bool BoxTable::adopt(std::string bytes) {
  bytes_ = std::move(bytes);
  return bytes_.size() == end();
}

std::size_t BoxTable::boxes() const {
  std::size_t sum = 0;
  for (const Range& range : tensors_) sum += range.count;
  return sum;
}

void BoxTable::set(std::size_t tensor, std::size_t i, const BoxRecord& record) {
  char* to = bytes_.data() + at(tensor, i);
  const int rank = tensors_[tensor].rank;
  put(to, record.file);
  put(to, record.dataset);
  put(to, record.offset);
  put(to, record.digest);
  for (int dim = 0; dim < rank; ++dim) put(to, record.begin[dim]);
  for (int dim = 0; dim < rank; ++dim) put(to, record.extent[dim]);
}

std::string_view BoxTable::records(std::size_t tensor, std::size_t i,
                                   std::size_t count) const {
  const std::size_t bytes = record_bytes(tensors_[tensor].rank);
  return std::string_view(bytes_).substr(at(tensor, i), count * bytes);
}

BoxRecord BoxTable::get(std::size_t tensor, std::size_t i) const {
  return record(bytes_.data() + at(tensor, i), tensors_[tensor].rank);
}

BoxRecord BoxTable::record(const char* from, int rank) {
  BoxRecord record;
  record.file = take<std::uint32_t>(from);
  record.dataset = take<std::uint32_t>(from);
  record.offset = take<std::int64_t>(from);
  record.digest = take<DigestBytes>(from);
  record.begin = record.extent = shape_of_rank(rank);
  for (int dim = 0; dim < rank; ++dim) record.begin[dim] = take<std::int64_t>(from);
  for (int dim = 0; dim < rank; ++dim) record.extent[dim] = take<std::int64_t>(from);
  return record;
}

bool BoxTable::move_file(char* record, std::size_t files, std::size_t first) {
  const char* from = record;
  const auto file = take<std::uint32_t>(from);
  if (file >= files) return false;
  put(record, static_cast<std::uint32_t>(file + first));
  return true;
}

std::uint32_t BoxTable::file(std::size_t tensor, std::size_t i) const {
  const char* from = bytes_.data() + at(tensor, i);
  return take<std::uint32_t>(from);
}

}  // namespace trireme::io
