// ProtoReader: the fields of a message in the protobuf encoding, one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::text {

// A field's value, of the kind that the encoding says. Each call throws
// Error(bad_content) where another kind is expected; `what` names the field.
struct ProtoField {
  std::uint32_t number = 0;
  enum class Kind : std::uint8_t { integer, bits64, bytes, bits32 } kind = Kind::integer;
  std::uint64_t value = 0;  // unless bytes
  std::string_view bytes = {};
  const std::string* source = nullptr;

  std::int64_t integer(const char* what) const;
  bool boolean(const char* what) const { return integer(what) != 0; }
  float number32(const char* what) const;
  std::string_view text(const char* what) const;
};

// Reads bytes that may be hostile: what is cut off or impossible is Error(bad_content)
// that names `source`. Both outlive the reader.
class ProtoReader {
 public:
  ProtoReader(std::string_view bytes, const std::string& source)
      : rest_(bytes), source_(source) {}
  // The next field in the order of the bytes; false at the end. Fields that are unknown
  // to the caller are for it to pass over.
  bool next(ProtoField& field);

 private:
  std::uint64_t variable();
  std::uint64_t fixed(std::size_t bytes);

  std::string_view rest_;
  const std::string& source_;
};

}  // namespace trireme::text
