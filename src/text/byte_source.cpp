// Bytes of files, gzip and Zstandard, by the first bytes that they begin with.
// SPDX-License-Identifier: Apache-2.0
#include "text/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"

namespace trireme::text {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;

// A file as it is, whose first bytes can be looked at.
class Plain final : public ByteSource {
 public:
  explicit Plain(const std::string& path) : name_(path == "-" ? "standard input" : path) {
    if (path == "-") {
      standard_ = true;
      return;
    }
    file_ = Descriptor(open_to_read(path));
    if (!file_.is_open())
      fail(Status::missing_input, "{}: {}", path, system_reason(errno));
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0)
      fail(Status::io, "{}: cannot be inspected: {}", path, system_reason(errno));
    require(S_ISREG(status.st_mode), Status::missing_input, "{}: {}, not a file", path,
            what_is_irregular(status.st_mode));
  }
  std::size_t read(char* to, std::size_t most) override {
    if (!head_.empty()) {
      const std::size_t bytes = std::min(most, head_.size());
      std::memcpy(to, head_.data(), bytes);
      head_.erase(0, bytes);
      return bytes;
    }
    const int file = standard_ ? 0 : file_.get();
    const ssize_t got = uninterrupted([&] { return ::read(file, to, most); });
    if (got < 0) fail(Status::io, "{}: read failed: {}", name_, system_reason(errno));
    io::count_read(got);
    return static_cast<std::size_t>(got);
  }
  const std::string& name() const override { return name_; }

  bool begins_with(std::string_view magic) {
    std::string head;
    while (head_.size() < magic.size()) {
      head.resize(magic.size() - head_.size());
      std::string kept = std::move(head_);
      head_.clear();
      head.resize(read(head.data(), head.size()));
      head_ = kept + head;
      if (head.empty()) break;
    }
    return std::string_view(head_).starts_with(magic);
  }

 private:
  std::string name_;
  Descriptor file_;
  bool standard_ = false;
  std::string head_;
};

// What gzip and Zstandard share: packed bytes come in blocks.
class Unpacked : public ByteSource {
 public:
  explicit Unpacked(std::unique_ptr<Plain> source)
      : source_(std::move(source)), block_(block_bytes) {}
  const std::string& name() const override { return source_->name(); }

 protected:
  // Fills the block when it is used up; false at the end of the file.
  bool fill() {
    if (at_ < size_) return true;
    at_ = 0;
    size_ = source_->read(block_.data(), block_.size());
    return size_ > 0;
  }
  [[noreturn]] void damaged(const char* format, const char* why) const {
    fail(Status::bad_content, "{}: the {} data are damaged: {}", name(), format, why);
  }

  std::unique_ptr<Plain> source_;
  std::vector<char> block_;
  std::size_t at_ = 0, size_ = 0;
};

class Gzip final : public Unpacked {
 public:
  explicit Gzip(std::unique_ptr<Plain> source) : Unpacked(std::move(source)) {
    constexpr int gzip_only = 15 + 16;
    require(inflateInit2(&stream_, gzip_only) == Z_OK, Status::resources,
            "zlib: out of memory");
  }
  ~Gzip() override { inflateEnd(&stream_); }
  std::size_t read(char* to, std::size_t most) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min(most, block_bytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (!fill()) {
        if (!between_) damaged("gzip", "they end too early");
        return 0;
      }
      if (between_) inflateReset(&stream_);  // a file may hold several members
      between_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(block_.data() + at_);
      stream_.avail_in = static_cast<uInt>(size_ - at_);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      at_ = size_ - stream_.avail_in;
      between_ = result == Z_STREAM_END;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        damaged("gzip", stream_.msg != nullptr ? stream_.msg : "no valid block");
    }
    return wanted - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool between_ = false;  // behind a member, before the next or the end
};

class Zstandard final : public Unpacked {
 public:
  explicit Zstandard(std::unique_ptr<Plain> source)
      : Unpacked(std::move(source)), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, Status::resources, "Zstandard: out of memory");
  }
  ~Zstandard() override { ZSTD_freeDStream(stream_); }
  std::size_t read(char* to, std::size_t most) override {
    ZSTD_outBuffer out{to, most, 0};
    while (out.pos == 0) {
      if (!fill() && pending_ == 0) return 0;
      ZSTD_inBuffer in{block_.data(), size_, at_};
      const std::size_t before = at_;
      pending_ = ZSTD_decompressStream(stream_, &out, &in);
      at_ = in.pos;
      if (ZSTD_isError(pending_)) damaged("zstd", ZSTD_getErrorName(pending_));
      if (size_ == 0 && out.pos == 0 && at_ == before)
        damaged("zstd", "they end too early");
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  std::size_t pending_ = 0;  // 0: a frame is whole
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  auto plain = std::make_unique<Plain>(path);
  if (plain->begins_with("\x1F\x8B")) return std::make_unique<Gzip>(std::move(plain));
  if (plain->begins_with("\x28\xB5\x2F\xFD"))
    return std::make_unique<Zstandard>(std::move(plain));
  return plain;
}

std::optional<std::string> LineInput::next() {
  std::string line;
  for (;;) {
    const std::size_t end = block_.find('\n', at_);
    const std::size_t stop = std::min(end, block_.size());
    line.append(block_, at_, stop - at_);
    if (end != block_.npos) {
      at_ = end + 1;
      break;
    }
    block_.resize(block_bytes);
    at_ = 0;
    block_.resize(ended_ ? 0 : source_->read(block_.data(), block_.size()));
    ended_ = ended_ || block_.empty();
    if (!ended_) {
      require(line.size() <= most_line_bytes, Status::bad_content,
              "{}: line {} is longer than {}", source_->name(), number_ + 1,
              human_bytes(static_cast<double>(most_line_bytes)));
      continue;
    }
    if (line.empty()) return {};
    break;
  }
  ++number_;
  return line;
}

// For each line, so without a stream.
std::string LineInput::place() const {
  return source_->name() + ":" + std::to_string(number_);
}

std::vector<std::pair<std::string, std::string>> unpacker_versions() {
  return {{"zlib", zlibVersion()}, {"Zstandard", ZSTD_versionString()}};
}

}  // namespace trireme::text
