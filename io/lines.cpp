// LineReader, LinesFromEnd: the lines of a text file, none longer than a limit.
// SPDX-License-Identifier: Apache-2.0
#include "io/lines.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;

}  // namespace

LineReader::LineReader(const std::string& path, LineLimits limits)
    : path_(path), file_(open_to_read(path)), limits_(limits) {
  check();
}

LineReader::LineReader(const Directory& folder, const std::string& name,
                       LineLimits limits)
    : path_(folder.path_of(name)), file_(folder.read_file(name)), limits_(limits) {
  if (!file_.is_open()) folder.require_file(name);
  check();
}

void LineReader::check() {
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0)
    fail(Status::io, "{}: cannot be read: {}", path_, system_reason(errno));
  require(S_ISREG(status.st_mode), Status::io, "{}: cannot be read: it {}", path_,
          what_is_irregular(status.st_mode));
  require(status.st_size <= limits_.file, Status::bad_content,
          "{}: is longer than {} bytes; move it away, and what follows is written anew",
          path_, limits_.file);
}

bool LineReader::fill() {
  block_.resize(block_bytes);
  at_ = 0;
  const auto got =
      uninterrupted([&] { return ::read(file_.get(), block_.data(), block_.size()); });
  if (got < 0) fail(Status::io, "{}: read failed: {}", path_, system_reason(errno));
  block_.resize(static_cast<std::size_t>(got));
  count_read(got);
  return got > 0;
}

std::optional<std::string> LineReader::next() {
  std::string line;
  bool cut = false;
  whole_ = false;
  while (at_ < block_.size() || fill()) {
    const std::size_t end = std::min(block_.find('\n', at_), block_.size());
    const std::size_t left = limits_.line - line.size();
    line.append(block_, at_, std::min(end - at_, left));
    cut = cut || end - at_ > left;
    whole_ = end < block_.size();
    at_ = end + (whole_ ? 1 : 0);
    if (!whole_) continue;
    whole_ = !cut;
    return line;
  }
  if (line.empty()) return {};
  return line;
}

LinesFromEnd::LinesFromEnd(const Directory& folder, const std::string& name)
    : file_((folder.require_file(name), folder), name), left_(file_.size()) {}

std::string LinesFromEnd::read(std::int64_t begin, std::int64_t end) const {
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  file_.read(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

std::int64_t LinesFromEnd::start_of(std::int64_t end) {
  for (std::int64_t at = end; at > 0; at = block_begin_) {
    if (at <= block_begin_ || at > block_begin_ + std::ssize(block_)) {
      block_begin_ = std::max<std::int64_t>(0, at - std::int64_t{block_bytes});
      block_ = read(block_begin_, at);
    }
    const auto found =
        block_.rfind('\n', static_cast<std::size_t>(at - block_begin_ - 1));
    if (found != std::string::npos)
      return block_begin_ + static_cast<std::int64_t>(found) + 1;
  }
  return 0;
}

std::optional<LinesFromEnd::Line> LinesFromEnd::next() {
  if (left_ == 0) return {};
  Line line;
  line.end = left_;
  line.whole = start_of(left_) == left_;  // the byte before is an end of line
  const std::int64_t end = line.whole ? left_ - 1 : left_;
  line.begin = left_ = start_of(end);
  const std::int64_t bytes = end - line.begin;
  if (bytes > static_cast<std::int64_t>(LineReader::most_line_bytes)) {
    line.whole = false;
  } else if (line.begin >= block_begin_ && end <= block_begin_ + std::ssize(block_)) {
    line.text = block_.substr(static_cast<std::size_t>(line.begin - block_begin_),
                              static_cast<std::size_t>(bytes));
  } else {
    line.text = read(line.begin, end);
  }
  return line;
}

}  // namespace trireme::io
