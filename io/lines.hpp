// LineReader, LinesFromEnd: the lines of a file, whatever it holds, in bounded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/directory.hpp"
#include "io/plain_file.hpp"

namespace trireme::io {

// How many bytes are taken of a line, and how many a file may have.
struct LineLimits {
  std::size_t line = std::size_t{16} << 20;
  std::int64_t file = std::int64_t{4} << 30;
};
// For files as long as a run; a line is still cut.
inline constexpr LineLimits any_file{.file = std::numeric_limits<std::int64_t>::max()};
// For files whose lines the program wrote itself, all of which count: its memory is that
// of the longest.
inline constexpr LineLimits no_line_limits{std::numeric_limits<std::size_t>::max(),
                                           std::numeric_limits<std::int64_t>::max()};

class LineReader {
 public:
  static constexpr std::size_t most_line_bytes = LineLimits{}.line;

  // A regular file; links are followed. Throws Error(io) when it cannot be read or is
  // none, Error(bad_content) when it is longer than the limit.
  explicit LineReader(const std::string& path, LineLimits limits = {});
  // The same of a file in a run's folder, which may be no link.
  LineReader(const Directory& folder, const std::string& name, LineLimits limits = {});

  // The next line, without its end; nothing after the last. Throws Error(io).
  std::optional<std::string> next();
  // Of the last line: whether all of it was given, and its end stood in the file. Of a
  // line above the limit the rest is passed over.
  bool whole() const { return whole_; }

 private:
  void check();
  bool fill();

  std::string path_;
  Descriptor file_;
  LineLimits limits_;
  std::string block_;
  std::size_t at_ = 0;
  bool whole_ = false;
};

// The lines of a file in a run's folder from the last to the first, however long it is.
class LinesFromEnd {
 public:
  struct Line {
    std::string text;        // without its end; empty above LineReader::most_line_bytes
    std::int64_t begin = 0;  // its place in the file
    std::int64_t end = 0;    // that of the next line
    bool whole = false;      // all of it is in `text`, and its end stands in the file
  };

  // A regular file. Throws Error(cannot_create) when it is a link or none, and as
  // PlainFile does.
  LinesFromEnd(const Directory& folder, const std::string& name);

  // The line before those that were given; nothing before the first. Throws Error(io).
  std::optional<Line> next();
  std::int64_t bytes() const { return file_.size(); }

 private:
  // The byte at which the line begins that ends before `end`.
  std::int64_t start_of(std::int64_t end);
  std::string read(std::int64_t begin, std::int64_t end) const;

  PlainFile file_;
  std::int64_t left_;             // bytes that were not given yet
  std::string block_;             // some of them
  std::int64_t block_begin_ = 0;  // its place in the file
};

}  // namespace trireme::io
