// Bytes of a file or of standard input, unpacked where they are gzip or Zstandard.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"

namespace trireme::text {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `most` bytes into `to`; 0 only at the end. Throws Error(io), and
  // Error(bad_content) for packed data that are damaged or cut off.
  virtual std::size_t read(char* to, std::size_t most) = 0;
  // The name in messages.
  virtual const std::string& name() const = 0;
};

// "-" is standard input. What is packed shows by its first bytes, whatever its name.
// Throws Error(missing_input).
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

// The lines of a source, without their ends, in memory for one line.
class LineInput {
 public:
  static constexpr std::size_t most_line_bytes = std::size_t{1} << 30;

  explicit LineInput(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  // The next line; nothing after the last. Throws as read(), and Error(bad_content) above
  // most_line_bytes.
  std::optional<std::string> next();
  std::int64_t number() const { return number_; }  // of the last line, from 1 on
  // "corpus.jsonl:12".
  std::string place() const;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string block_;
  std::size_t at_ = 0;
  bool ended_ = false;
  std::int64_t number_ = 0;
};

// {"zlib", "1.2.13"}, {"Zstandard", "1.5.4"}.
std::vector<std::pair<std::string, std::string>> unpacker_versions();

}  // namespace trireme::text
