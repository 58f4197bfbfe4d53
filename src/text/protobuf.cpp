// The protobuf encoding: tags, integers of variable length, and bytes with their length.
// SPDX-License-Identifier: Apache-2.0
#include "text/protobuf.hpp"

#include <bit>

#include "base/error.hpp"

namespace trireme::text {

std::int64_t ProtoField::integer(const char* what) const {
  require(kind == Kind::integer, Status::bad_content, "{}: {} must be an integer",
          *source, what);
  return static_cast<std::int64_t>(value);
}

float ProtoField::number32(const char* what) const {
  require(kind == Kind::bits32, Status::bad_content, "{}: {} must be a number of 32 bits",
          *source, what);
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

std::string_view ProtoField::text(const char* what) const {
  require(kind == Kind::bytes, Status::bad_content, "{}: {} must be bytes", *source,
          what);
  return bytes;
}

std::uint64_t ProtoReader::variable() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    require(!rest_.empty(), Status::bad_content, "{}: ends within a number", source_);
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail(Status::bad_content, "{}: holds a number of more than 64 bits", source_);
}

std::uint64_t ProtoReader::fixed(std::size_t bytes) {
  require(rest_.size() >= bytes, Status::bad_content, "{}: ends within a number",
          source_);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

bool ProtoReader::next(ProtoField& field) {
  if (rest_.empty()) return false;
  const std::uint64_t tag = variable();
  field = {.number = static_cast<std::uint32_t>(tag >> 3), .source = &source_};
  require(tag >> 3 > 0 && tag >> 3 < (1u << 29), Status::bad_content,
          "{}: holds a field of the impossible number {}", source_, tag >> 3);
  switch (tag & 7) {
    case 0:
      field.kind = ProtoField::Kind::integer;
      field.value = variable();
      return true;
    case 1:
      field.kind = ProtoField::Kind::bits64;
      field.value = fixed(8);
      return true;
    case 2: {
      const std::uint64_t size = variable();
      require(size <= rest_.size(), Status::bad_content,
              "{}: field {} announces {} bytes, of which {} are there", source_,
              field.number, size, rest_.size());
      field.kind = ProtoField::Kind::bytes;
      field.bytes = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
    case 5:
      field.kind = ProtoField::Kind::bits32;
      field.value = fixed(4);
      return true;
    default:
      fail(Status::bad_content, "{}: field {} is of the unknown kind {}", source_,
           field.number, tag & 7);
  }
}

}  // namespace trireme::text
