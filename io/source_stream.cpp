// Samples cut from the tokens of several files, which are checked for changes.
// SPDX-License-Identifier: Apache-2.0
#include "io/source_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

// A file may be opened for one read only: closes it whatever happens.
class Descriptor {
 public:
  Descriptor(int value, bool owned) : value_(value), owned_(owned) {}
  ~Descriptor() {
    if (owned_) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() {
    owned_ = false;
    return value_;
  }

 private:
  int value_;
  bool owned_;
};

int open_for_reading(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

DataFile::State DataFile::state_of(int descriptor, const std::string& path) {
  struct ::stat s {};
  if (::fstat(descriptor, &s) != 0)
    fail(Status::io, "{}: cannot be inspected: {}", path, system_reason(errno));
  return {s.st_size, std::int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec,
          s.st_ino};
}

DataFile::DataFile(const std::string& path, bool keep_open) : path_(path) {
  struct ::stat s {};
  if (::stat(path.c_str(), &s) != 0)
    fail(Status::missing_input, "{}: cannot be read: {}", path, system_reason(errno));
  require(!S_ISDIR(s.st_mode), Status::bad_content,
          "{}: is a directory; name its files, for example {}/*.txt", path, path);
  require(S_ISREG(s.st_mode), Status::bad_content, "{}: is not a regular file", path);
  const int descriptor = open_for_reading(path);
  require(descriptor >= 0, Status::missing_input, "{}: cannot be read: {}", path,
          system_reason(errno));
  Descriptor file(descriptor, true);
  state_ = state_of(descriptor, path);
  require(state_.size > 0, Status::bad_content, "{}: the file is empty", path);
  if (keep_open) descriptor_ = file.release();
}

DataFile::~DataFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      state_(other.state_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

int DataFile::open_again() const {
  const int descriptor = open_for_reading(path_);
  require(descriptor >= 0, Status::io, "{}: cannot be read any more: {}", path_,
          system_reason(errno));
  return descriptor;
}

void DataFile::require_state(const State& now) const {
  require(
      now == state_, Status::io,
      "{}: the file changed while it was in use ({} bytes, before {}); data must stay "
      "as it is during a run",
      path_, now.size, state_.size);
}

void DataFile::require_unchanged() const {
  const Descriptor file(open_again(), true);
  require_state(state_of(file.get(), path_));
}

void DataFile::read(std::int64_t begin, std::span<std::byte> out) const {
  const bool kept = descriptor_ >= 0;
  const Descriptor file(kept ? descriptor_ : open_again(), !kept);
  std::size_t done = 0;
  while (done < out.size()) {
    const auto got = ::pread(file.get(), out.data() + done, out.size() - done,
                             begin + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, Status::io, "{}: reading failed: {}", path_, system_reason(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  // After reading, so that a change before or during it is seen.
  require_state(state_of(file.get(), path_));
  require(done == out.size(), Status::io, "{}: ends at byte {}, before {}", path_,
          begin + static_cast<std::int64_t>(done), state_.size);
}

TokenStream::TokenStream(std::string kind, std::int64_t sequence)
    : kind_(std::move(kind)), sequence_(sequence) {
  require(sequence_ >= 1, "a source with sequence length {}", sequence_);
}

void TokenStream::require_one_sample() const {
  if (samples() >= 1) return;
  const auto files = starts_.size() - 1;
  fail(Status::bad_content,
       "{}{}: the data has {} tokens, but one sample of model.sequence = {} needs {}: "
       "give more data or a shorter sequence",
       path_of(0), files > 1 ? format(" and {} more", files - 1) : "", tokens(),
       sequence_, sequence_ + 1);
}

template <class Body>
void TokenStream::for_each_part(std::int64_t index, const Body& body) const {
  require(index >= 0 && index < windows(), "sample {} of {}", index, windows());
  std::int64_t at = index * sequence_;
  const std::int64_t end = std::min(at + sequence_ + 1, tokens());
  auto part = static_cast<std::size_t>(
      std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin() - 1);
  for (; at < end; ++part) {
    const std::int64_t count = std::min(end, starts_[part + 1]) - at;
    body(part, at - starts_[part], count);
    at += count;
  }
}

void TokenStream::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
  require(std::ssize(tokens) == sequence_ + 1, "{} tokens for a sample of {}",
          tokens.size(), sequence_ + 1);
  for_each_part(index, [&](std::size_t part, std::int64_t begin, std::int64_t count) {
    read(part, begin, tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
  });
  std::fill(tokens.begin(), tokens.end(), ignore_index);
}

std::vector<SamplePart> TokenStream::parts(std::int64_t index) const {
  std::vector<SamplePart> all;
  for_each_part(index, [&](std::size_t part, std::int64_t begin, std::int64_t count) {
    all.push_back({path_of(part), begin, count});
  });
  return all;
}

std::string TokenStream::describe() const {
  const auto files = starts_.size() - 1;
  return format("{}: {} {}, {}, {} tokens, {} samples of {}", kind_, files,
                files == 1 ? "file" : "files", human_bytes(static_cast<double>(bytes())),
                tokens(), samples(), sequence_);
}

std::vector<DataFile> open_files(const SourceConfig& config) {
  require(!config.paths.empty(), Status::missing_input,
          "data.source = \"{}\" needs data.paths", name_of(config.kind));
  std::vector<std::string> names;
  for (const auto& pattern : config.paths)
    for (auto& name : expand(pattern)) names.push_back(std::move(name));
  std::vector<DataFile> files;
  files.reserve(names.size());
  for (const auto& name : names)
    files.emplace_back(name, names.size() <= most_open_files);
  return files;
}

}  // namespace trireme::io
