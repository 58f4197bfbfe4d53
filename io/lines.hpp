// LineReader: the lines of a file, whatever it holds, in bounded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/directory.hpp"

namespace trireme::io {

class LineReader {
 public:
  static constexpr std::size_t most_line_bytes = std::size_t{16} << 20;
  static constexpr std::int64_t most_bytes = std::int64_t{4} << 30;

  // A regular file; links are followed. Throws Error(io) when it cannot be read or is
  // none, Error(bad_content) when it is longer than most_bytes.
  explicit LineReader(const std::string& path);
  // The same of a file in a run's folder, which may be no link.
  LineReader(const Directory& folder, const std::string& name);

  // The next line, without its end; nothing after the last. Throws Error(io).
  std::optional<std::string> next();
  // Of the last line: whether all of it was given, and its end stood in the file. Of a
  // line above most_line_bytes the rest is passed over.
  bool whole() const { return whole_; }

 private:
  void check();
  bool fill();

  std::string path_;
  Descriptor file_;
  std::string block_;
  std::size_t at_ = 0;
  bool whole_ = false;
};

}  // namespace trireme::io
