// LineReader: the lines of a text file, none longer than a limit.
// SPDX-License-Identifier: Apache-2.0
#include "io/lines.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;

}  // namespace

LineReader::LineReader(const std::string& path) : path_(path), file_(open_to_read(path)) {
  check();
}

LineReader::LineReader(const Directory& folder, const std::string& name)
    : path_(folder.path_of(name)), file_(folder.read_file(name)) {
  if (!file_.is_open()) folder.require_file(name);
  check();
}

void LineReader::check() {
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0)
    fail(Status::io, "{}: cannot be read: {}", path_, system_reason(errno));
  require(S_ISREG(status.st_mode), Status::io, "{}: cannot be read: it {}", path_,
          what_is_irregular(status.st_mode));
  require(status.st_size <= most_bytes, Status::bad_content,
          "{}: is longer than {} bytes; move it away, and what follows is written anew",
          path_, most_bytes);
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
    const std::size_t left = most_line_bytes - line.size();
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

}  // namespace trireme::io
