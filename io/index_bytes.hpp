// The bytes of an index as they are put and taken: numbers, names, and heads of tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"
#include "io/box_table.hpp"

namespace trireme::io {

inline constexpr std::string_view index_magic = "TRIREME2";

template <class T>
void put(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
inline void put_name(std::string& text, std::string_view name) {
  put(text, static_cast<std::uint32_t>(name.size()));
  text += name;
}

// Takes values from bytes that may be anything. Throws Error(bad_content) naming `path`,
// which must outlive it, as the bytes must.
class IndexCursor {
 public:
  IndexCursor(const std::string& path, std::string_view bytes)
      : path_(path), rest_(bytes) {}

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
  std::string_view name() { return text(value<std::uint32_t>()); }
  std::string_view rest() const { return rest_; }

 private:
  const std::string& path_;
  std::string_view rest_;
};

// What an index begins with.
struct IndexCounts {
  std::size_t files = 0, tensors = 0;
};
IndexCounts take_counts(const std::string& path, IndexCursor& from);

// A file's entry without its name: bytes, digest of all of it, digest of its frame.
inline constexpr std::size_t file_entry_bytes = 8 + 2 * sizeof(DigestBytes);

// What an index says of a tensor before its boxes.
struct TensorHead {
  std::string_view path;  // into the bytes of the index
  DType dtype{};
  Shape shape;
  std::size_t boxes = 0;
};
void put_tensor(std::string& text, const TensorHead& head);
TensorHead take_tensor(const std::string& path, IndexCursor& from);

}  // namespace trireme::io
