// Parts of a token file: tokens, ends of documents, and a footer with their digest.
// SPDX-License-Identifier: Apache-2.0
#include "text/token_part.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/system_reason.hpp"

namespace trireme::text {
namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20;
constexpr char magic[] = "trireme tokens 1";  // 16 characters

// At the end of the file, because the counts are known only then.
struct Footer {
  char magic[16];
  char key[32], digest[32];  // of all bytes before the footer
  std::int64_t tokens, documents, text_bytes;
};
static_assert(sizeof(Footer) == 104);

Footer footer_of(const PartInfo& info, const std::string& digest) {
  Footer footer{};
  require(info.key.size() == 32 && digest.size() == 32, "a digest of {} digits",
          info.key.size());
  std::memcpy(footer.magic, magic, 16);
  std::memcpy(footer.key, info.key.data(), 32);
  std::memcpy(footer.digest, digest.data(), 32);
  footer.tokens = info.tokens;
  footer.documents = info.documents;
  footer.text_bytes = info.text_bytes;
  return footer;
}

// Fills `out` from byte `begin`; false when the file ends before or cannot be read.
bool read_at(const Descriptor& file, std::int64_t begin, void* out, std::size_t bytes) {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got =
        uninterrupted([&] { return ::pread(file.get(), to, bytes, begin); });
    if (got <= 0) return false;
    to += got;
    begin += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// Reads a part through, and checks it against footer and key.
class PartFile {
 public:
  PartFile(const Directory& folder, const std::string& name)
      : file_(folder.read_file(name)) {
    struct stat status {};
    if (file_.is_open() && ::fstat(file_.get(), &status) == 0) size_ = status.st_size;
  }

  std::optional<PartInfo> info(const std::string& key, DType dtype) {
    const std::int64_t body = size_ - static_cast<std::int64_t>(sizeof footer_);
    if (body < 0 || !read_at(file_, body, &footer_, sizeof footer_)) return {};
    const auto width = static_cast<std::int64_t>(size_of(dtype));
    const bool is_ours = std::memcmp(footer_.magic, magic, 16) == 0 &&
                         std::string_view(footer_.key, 32) == key;
    if (!is_ours || footer_.tokens < 0 || footer_.documents < 0 ||
        footer_.tokens > body / width || footer_.documents > body / 8 ||
        footer_.tokens * width + footer_.documents * 8 != body)
      return {};
    return PartInfo{key, footer_.tokens, footer_.documents, footer_.text_bytes};
  }

  // All bytes before the footer in turn; whether they have the footer's digest.
  bool read(const std::function<void(std::string_view)>& take) const {
    io::Digest digest;
    std::string block(block_bytes, '\0');
    const std::int64_t body = size_ - static_cast<std::int64_t>(sizeof footer_);
    for (std::int64_t at = 0; at < body;) {
      const auto count = static_cast<std::size_t>(
          std::min<std::int64_t>(body - at, static_cast<std::int64_t>(block_bytes)));
      if (!read_at(file_, at, block.data(), count)) return false;
      digest.add(block.data(), count);
      take({block.data(), count});
      at += static_cast<std::int64_t>(count);
    }
    return digest.text() == std::string_view(footer_.digest, 32);
  }

 private:
  Descriptor file_;
  std::int64_t size_ = 0;
  Footer footer_{};
};

}  // namespace

PartWriter::PartWriter(const Directory& folder, const std::string& name, std::string key,
                       DType dtype, std::int32_t end)
    : folder_(folder),
      name_(name),
      unfinished_(folder.path_of(format("{}.tmp-{}", name, ::getpid()))),
      dtype_(dtype),
      end_(end) {
  info_.key = std::move(key);
  file_ = folder.create(last_name_of(unfinished_.path()));
}

void PartWriter::put(const void* data, std::size_t bytes) {
  block_.append(static_cast<const char*>(data), bytes);
  if (block_.size() > block_bytes) flush();
}

void PartWriter::flush() {
  digest_.add(block_.data(), block_.size());
  const bool written = write_all(file_.get(), block_);
  require(written, Status::io, "{}: write failed: {}", unfinished_.path(),
          system_reason(errno));
  block_.clear();
}

// Little-endian, in the part's type.
void PartWriter::put_ids(std::span<const std::int32_t> ids) {
  if (dtype_ != DType::u16) return put(ids.data(), ids.size_bytes());
  const std::size_t begin = block_.size();
  block_.resize(begin + 2 * ids.size());
  char* to = block_.data() + begin;
  for (const std::int32_t id : ids) {
    const auto narrow = static_cast<std::uint16_t>(id);
    std::memcpy(to, &narrow, sizeof narrow);
    to += sizeof narrow;
  }
  if (block_.size() > block_bytes) flush();
}

void PartWriter::add(std::span<const std::int32_t> ids, std::int64_t text_bytes) {
  constexpr std::size_t most = block_bytes / sizeof(std::int32_t);
  for (std::size_t at = 0; at < ids.size(); at += most)
    put_ids(ids.subspan(at, std::min(most, ids.size() - at)));
  put_ids({&end_, 1});
  info_.tokens += std::ssize(ids) + 1;
  info_.text_bytes += text_bytes;
  ++info_.documents;
  ends_.push_back(info_.tokens);
}

void PartWriter::close() {
  put(ends_.data(), ends_.size() * sizeof ends_[0]);
  flush();
  const Footer footer = footer_of(info_, digest_.text());
  block_.assign(reinterpret_cast<const char*>(&footer), sizeof footer);
  flush();
  const bool closed = ::fsync(file_.get()) == 0 && file_.close();
  require(closed, Status::io, "{}: write failed: {}", unfinished_.path(),
          system_reason(errno));
  unfinished_.place([&] { folder_.rename(last_name_of(unfinished_.path()), name_); });
}

std::optional<PartInfo> find_part(const Directory& folder, const std::string& name,
                                  const std::string& key, DType dtype) {
  PartFile file(folder, name);
  const auto info = file.info(key, dtype);
  if (!info || !file.read([](std::string_view) {})) return {};
  return info;
}

std::optional<PartInfo> part_info(const Directory& folder, const std::string& name,
                                  const std::string& key, DType dtype) {
  return PartFile(folder, name).info(key, dtype);
}

std::vector<std::int64_t> read_part(const Directory& folder, const std::string& name,
                                    const PartInfo& part, DType dtype,
                                    const std::function<void(const TensorView&)>& take) {
  PartFile file(folder, name);
  const auto info = file.info(part.key, dtype);
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  std::vector<std::int64_t> ends(static_cast<std::size_t>(part.documents));
  auto* to = reinterpret_cast<char*>(ends.data());
  std::int64_t rest = part.tokens * width;
  const bool whole =
      info && info->tokens == part.tokens && info->documents == part.documents &&
      file.read([&](std::string_view bytes) {
        const auto tokens = std::min(rest, std::ssize(bytes));
        if (tokens > 0)
          take(TensorView(const_cast<char*>(bytes.data()), dtype, {tokens / width}));
        rest -= tokens;
        bytes.remove_prefix(static_cast<std::size_t>(tokens));
        if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
        to += bytes.size();
      });
  require(whole, Status::io, "{}: is no longer the part that was written",
          folder.path_of(name));
  return ends;
}

}  // namespace trireme::text
