// Samples cut from the tokens of several files, which are checked for changes.
// SPDX-License-Identifier: Apache-2.0
#include "io/source_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/counted.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"
#include "io/token_table.hpp"

namespace trireme::io {
namespace {

std::uint64_t next_key() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

FileState state_in(const struct ::stat& s) {
  return {s.st_size, std::int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec,
          s.st_ino};
}

int open_for_reading(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

FileState DataFile::state_of(int descriptor, const std::string& path) {
  struct ::stat s {};
  if (::fstat(descriptor, &s) != 0)
    fail(Status::io, "{}: cannot be inspected: {}", path, system_reason(errno));
  return state_in(s);
}

DataFile::DataFile(const std::string& path, bool keep_open, SourceKind kind)
    : path_(path), kind_(kind), key_(next_key()) {
  FileTable* const table = file_table();
  const FileState* const known = table != nullptr ? table->find(kind, path) : nullptr;
  if (known != nullptr && table->is_told()) {
    state_ = *known;
    state_is_from_rank_0_ = true;
    return;
  }
  struct ::stat s {};
  if (::stat(path.c_str(), &s) != 0)
    fail(Status::missing_input, "{}: cannot be read: {}", path, system_reason(errno));
  require(!S_ISDIR(s.st_mode), Status::bad_content,
          "{}: is a directory; name its files, for example {}/*.txt", path, path);
  require(S_ISREG(s.st_mode), Status::bad_content, "{}: is not a regular file", path);
  state_ = state_in(s);
  if (known != nullptr && *known == state_) return;
  const int descriptor = open_for_reading(path);
  require(descriptor >= 0, Status::missing_input, "{}: cannot be read: {}", path,
          system_reason(errno));
  Descriptor file(descriptor);
  state_ = state_of(descriptor, path);
  require(state_.size > 0, Status::bad_content, "{}: the file is empty", path);
  if (keep_open) open_data_files().use(key_, [&] { return file.release(); });
}

DataFile::~DataFile() {
  if (key_ > 0) open_data_files().forget(key_);
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      kind_(other.kind_),
      state_(other.state_),
      state_is_from_rank_0_(other.state_is_from_rank_0_),
      key_(std::exchange(other.key_, 0)) {}

std::shared_ptr<OpenFile> DataFile::opened() const {
  return open_data_files().use(key_, [this] {
    Descriptor file(open_for_reading(path_));
    if (state_is_from_rank_0_ && !file.is_open())
      fail(Status::missing_input,
           "{}: cannot be read here, but on the host of rank 0: {}", path_,
           system_reason(errno));
    require(file.is_open(), Status::io, "{}: cannot be read any more: {}", path_,
            system_reason(errno));
    if (state_is_from_rank_0_) adopt_local_file(state_of(file.get(), path_));
    return file.release();
  });
}

// Time and inode may differ from those on the host of rank 0, which may have a copy.
void DataFile::adopt_local_file(const FileState& now) const {
  require(now.size == state_.size, Status::bad_content,
          "{}: has {} bytes here, and {} on the host of rank 0: give all hosts the same "
          "data",
          path_, now.size, state_.size);
  state_.modified_ns = now.modified_ns;  // not the size, which others may be reading
  state_.inode = now.inode;
  state_is_from_rank_0_ = false;
}

FileFacts DataFile::facts(const std::function<FileFacts()>& look) const {
  FileTable* const table = file_table();
  if (table == nullptr) return look();
  if (auto known = table->facts(kind_, path_, state_)) return *known;
  FileFacts found = look();
  table->set(kind_, path_, state_, found);
  return found;
}

void DataFile::require_state(const FileState& now) const {
  if (now == state_) return;
  fail(Status::io,
       "{}: the file changed while it was in use ({}); data must stay as it is during a "
       "run",
       path_,
       now.size != state_.size ? format("{} bytes, before {}", now.size, state_.size)
                               : "as large as before, but written or replaced since");
}

std::shared_ptr<const Hdf5File> DataFile::h5() const {
  const std::shared_ptr<OpenFile> file = opened();
  require_state(state_of(file->descriptor, path_));
  const std::lock_guard lock(file->opening);
  if (!file->h5) file->h5 = std::make_unique<Hdf5File>(path_, Hdf5File::Mode::read);
  return {file, file->h5.get()};
}

void DataFile::read(std::int64_t begin, std::span<std::byte> out) const {
  const std::shared_ptr<OpenFile> file = opened();
  std::size_t done = 0;
  while (done < out.size()) {
    const auto got = ::pread(file->descriptor, out.data() + done, out.size() - done,
                             begin + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, Status::io, "{}: reading failed: {}", path_, system_reason(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  // After reading, so that a change before or during it is seen.
  require_state(state_of(file->descriptor, path_));
  require(done == out.size(), Status::io, "{}: ends at byte {}, before {}", path_,
          begin + static_cast<std::int64_t>(done), state_.size);
}

TokenStream::TokenStream(std::string kind, std::int64_t sequence)
    : kind_(std::move(kind)), sequence_(sequence) {
  require(sequence_ >= 1, "a source with sequence length {}", sequence_);
}

void TokenStream::cut_samples(const SourceConfig& config) {
  if (config.packing == Packing::best_fit) fit_documents(config);
  if (samples() >= 1) return;
  const auto files = starts_.size() - 1;
  const std::string names =
      path_of(0) + (files > 1 ? format(" and {} more", files - 1) : "");
  require(!rows_, Status::bad_content,
          "{}: none of the {} documents has more than one token: give more data", names,
          rows_ ? rows_->left_out() : 0);
  fail(Status::bad_content,
       "{}: the data has {} tokens, but a sequence of {} needs {}: give more data{}",
       names, tokens(), sequence_, sequence_ + 1,
       config.sequence_by.empty() ? "" : format(", or a smaller {}", config.sequence_by));
}

void TokenStream::fit_documents(const SourceConfig& config) {
  std::optional<std::int32_t> end = end_token();
  if (config.end_token >= 0) end = static_cast<std::int32_t>(config.end_token);
  std::vector<std::int64_t> ends;
  for (std::size_t part = 0; part + 1 < starts_.size(); ++part) {
    auto own = document_ends(part);
    if (!own)
      own =
          made_once([&] { return TextTokens{.ends = ends_by_reading(part, end)}; })->ends;
    for (const std::int64_t at : *own) ends.push_back(starts_[part] + at);
  }
  rows_.emplace(ends, sequence_ + 1, config.seed);
}

std::vector<std::int64_t> TokenStream::ends_by_reading(
    std::size_t part, std::optional<std::int32_t> end) const {
  require(end.has_value(), Status::bad_content,
          "{}: data.packing: the file does not say where documents end: set "
          "data.end_token",
          path_of(part));
  constexpr std::int64_t block = 1 << 18;
  const std::int64_t all = starts_[part + 1] - starts_[part];
  std::vector<std::int64_t> ends;
  std::vector<std::int32_t> tokens;
  for (std::int64_t done = 0; done < all; done += std::ssize(tokens)) {
    tokens.resize(static_cast<std::size_t>(std::min(block, all - done)));
    read(part, done, tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] == *end) ends.push_back(done + static_cast<std::int64_t>(i) + 1);
  }
  // What is behind the last end token is a document that has none.
  if (ends.empty() || ends.back() < all) ends.push_back(all);
  return ends;
}

template <class Body>
void TokenStream::for_each_part(std::int64_t at, std::int64_t end,
                                const Body& body) const {
  auto part = static_cast<std::size_t>(
      std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin() - 1);
  for (; at < end; ++part) {
    const std::int64_t count = std::min(end, starts_[part + 1]) - at;
    body(part, at - starts_[part], count);
    at += count;
  }
}

template <class Body>
void TokenStream::for_each_part_of(std::int64_t index, const Body& body) const {
  require(index >= 0 && index < windows(), "sample {} of {}", index, windows());
  const std::int64_t at = index * sequence_;
  if (!rows_) return for_each_part(at, std::min(at + sequence_ + 1, tokens()), body);
  for (const DocumentPiece& piece : rows_->row(index))
    for_each_part(piece.begin, piece.begin + piece.tokens, body);
}

void TokenStream::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
  require(std::ssize(tokens) == sequence_ + 1, "{} tokens for a sample of {}",
          tokens.size(), sequence_ + 1);
  for_each_part_of(index, [&](std::size_t part, std::int64_t begin, std::int64_t count) {
    read(part, begin, tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
  });
  std::fill(tokens.begin(), tokens.end(), ignore_index);
}

SampleMarks TokenStream::marks(std::int64_t index) const {
  const auto size = static_cast<std::size_t>(sequence_) + 1;
  SampleMarks marks;
  if (rows_) {
    for (const DocumentPiece& piece : rows_->row(index))
      marks.starts.resize(marks.starts.size() + static_cast<std::size_t>(piece.tokens),
                          std::ssize(marks.starts));
    // What is left is like a document that has no targets.
    marks.starts.resize(size, std::ssize(marks.starts));
  }
  if (!has_masks()) return marks;
  marks.no_target.resize(size);
  std::span<std::uint8_t> rest(marks.no_target);
  for_each_part_of(index, [&](std::size_t part, std::int64_t begin, std::int64_t count) {
    read_mask(part, begin, rest.first(static_cast<std::size_t>(count)));
    rest = rest.subspan(static_cast<std::size_t>(count));
  });
  return marks;
}

std::vector<SamplePart> TokenStream::parts(std::int64_t index) const {
  std::vector<SamplePart> all;
  for_each_part_of(index, [&](std::size_t part, std::int64_t begin, std::int64_t count) {
    all.push_back({path_of(part), begin, count});
  });
  return all;
}

std::string TokenStream::describe() const {
  std::string text = format(
      "{}: {}, {}, {} tokens, {} ", kind_, counted(std::ssize(starts_) - 1, "file"),
      human_bytes(static_cast<double>(bytes())), tokens(), samples());
  if (!rows_) return text + format("samples of {}", sequence_);
  text += format("rows of {} from {} documents, {} of them cut, {} % padding", sequence_,
                 rows_->documents(), rows_->cut(), fixed(100 * rows_->padding(), 2));
  if (rows_->left_out() > 0)
    text += format("; {} documents of one token left out", rows_->left_out());
  return text;
}

std::vector<std::string> names_of(const std::string& pattern) {
  FileTable* const table = file_table();
  return table != nullptr ? table->names(pattern) : expand(pattern);
}

std::vector<DataFile> open_files(const SourceConfig& config) {
  require(!config.paths.empty(), Status::missing_input,
          "data.source = \"{}\" needs data.paths", name_of(config.kind));
  std::vector<std::string> names;
  for (const auto& pattern : config.paths)
    for (auto& name : names_of(pattern)) names.push_back(std::move(name));
  std::vector<DataFile> files;
  files.reserve(names.size());
  for (const auto& name : names)
    files.emplace_back(name, names.size() <= most_open_files, config.kind);
  return files;
}

void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary,
                  const std::string& path, std::int64_t begin) {
  const auto wrong = std::ranges::find_if(
      tokens, [&](std::int32_t token) { return token < 0 || token >= vocabulary; });
  require(wrong == tokens.end(), Status::bad_content,
          "{}: token {} is {}, outside model.vocabulary = {}", path,
          begin + (wrong - tokens.begin()), wrong == tokens.end() ? 0 : *wrong,
          vocabulary);
}

}  // namespace trireme::io
